"""Rauch-Tung-Striebel smoother: every sample's state from the measurements of all.

Backwards over what a filter believed, with the covariance C_k of the states at k and k + 1, the
prediction x⁻, P⁻ and the gain G_k = C_k (P⁻_{k+1})⁻¹,

    x̂_k = x_k + G_k (x̂_{k+1} - x⁻_{k+1}),   P̂_k = P_k + G_k (P̂_{k+1} - P⁻_{k+1}) G_kᵀ.

C_k is what the filter's own tangent or sigma points gave, so that any of the six can be smoothed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, pinvh

from bodysense.kalman.history import History
from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False)
class Smoothed:
    """States of all samples, each from all measurements.

    Attributes:
        means: (n_t, n_x), parameters first, which are the same at all samples unless they walk.
        covariances: (n_t, n_x, n_x).
        ok: whether all of it can be used.
        message: what went wrong, with advice; empty where nothing did.
    """

    means: Array
    covariances: Array
    ok: bool
    message: str


def smooth(history: History) -> Smoothed:
    """Smooth what a filter believed, kept by ``run_filter(…, keep_history=True)``.

    Samples before a gap are smoothed by what lies behind it through the parameters alone.
    """
    n_t, n_x = history.means.shape
    p = n_x - history.crosses.shape[2]
    means, covariances = history.means.copy(), history.covariances.copy()
    for k in range(n_t - 2, -1, -1):
        C = np.concatenate((history.covariances[k][:, :p], history.crosses[k]), axis=1)
        G = _gain(C, history.predicted_covariances[k + 1])
        means[k] += G @ (means[k + 1] - history.predicted_means[k + 1])
        change = G @ (covariances[k + 1] - history.predicted_covariances[k + 1]) @ G.T
        covariances[k] += 0.5 * (change + change.T)
    message = ""
    smallest = np.diagonal(covariances, axis1=1, axis2=2).min(axis=1) if n_t else np.ones(0)
    if not np.isfinite(means).all() or (smallest < 0.0).any():
        message = (
            "smoothed variances were lost in rounding, as happens with a large prior and small "
            "noise. Start with a smaller covariance, or give the moving part some process noise."
        )
    return Smoothed(means, covariances, not message, message)


def _gain(C: Array, P: Array) -> Array:
    """(n_x, n_x) C P⁻¹, with the pseudo-inverse where P is singular."""
    variances = P.diagonal()
    scale = np.sqrt(np.where(variances > 0.0, variances, 1.0))  # states have no common unit
    scaled = P / np.outer(scale, scale)
    L, info = lapack.dpotrf(scaled, lower=1)
    right = (C / scale).T
    if info == 0:
        solution, _ = lapack.dpotrs(L, right, lower=1)
    else:
        solution = pinvh(scaled, rtol=1e-12) @ right
    gain: Array = solution.T / scale
    return gain
