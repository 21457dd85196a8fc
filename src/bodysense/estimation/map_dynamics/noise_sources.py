"""Covariances as sources of unit noise: rows R with RᵀR the covariance (see `_kernels`)."""

from __future__ import annotations

import numpy as np

from bodysense.estimation._kernels.elimination import EXACT
from bodysense.spatial.arrays import Array

_ROUNDING = 1e-15  # of the largest variance: what eigenvalues are not told apart from zero


def sources(covariance: Array) -> Array:
    """(…, k, k) R with RᵀR = covariance; rows of zero where there is no doubt."""
    diagonal = np.einsum("...ii->...i", covariance)
    k = covariance.shape[-1]
    if not (covariance * (1.0 - np.eye(k))).any():
        return np.asarray(np.sqrt(diagonal)[..., None] * np.eye(k))
    values, vectors = np.linalg.eigh(covariance)
    values = np.where(values > _ROUNDING * values.max(axis=-1, keepdims=True), values, 0.0)
    # Rows behind each other like those above: for another layout the kernels would compile anew.
    return np.ascontiguousarray(np.sqrt(values)[..., None] * vectors.swapaxes(-1, -2))


def reading_triangle(covariance: Array) -> Array:
    """(m, m) upper R with RᵀR = covariance; exact readings are given a tiny variance."""
    m = len(covariance)
    if not (covariance * (1.0 - np.eye(m))).any():
        return np.diag(np.maximum(np.sqrt(np.diag(covariance)), EXACT))
    values, vectors = np.linalg.eigh(covariance)
    rows = np.sqrt(np.maximum(values, EXACT**2))[:, None] * vectors.T
    return np.asarray(np.linalg.qr(rows).R, dtype=np.float64)


def whitener(triangle: Array) -> tuple[Array, float]:
    """W with W covariance Wᵀ = 1 from the triangle of a covariance, and log |det W|."""
    W = np.asarray(np.linalg.inv(triangle.T), dtype=np.float64)
    return W, float(-np.log(np.abs(np.diag(triangle))).sum())
