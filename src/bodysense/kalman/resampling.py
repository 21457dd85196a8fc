"""Particles drawn anew by their weights, and spread again without changing what they say."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bodysense.spatial.arrays import Array


def effective_size(weights: Array) -> float:
    """Number of particles that carry the weight: 1 / Σ w², for weights that add up to one."""
    return 1.0 / float(weights @ weights)


def systematic(weights: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """(n,) indices of particles, each about n w_i times: a comb of n teeth, shifted at random.

    The expected number of copies is n w_i, and the actual one its next integer above or below.
    """
    n = weights.size
    teeth = (np.arange(n) + rng.random()) / n
    ends = np.cumsum(weights)
    ends /= ends[-1]  # a last tooth must not fall behind the sum through rounding
    return np.minimum(np.searchsorted(ends, teeth, side="right"), n - 1)


def moments(X: Array, weights: Array) -> tuple[Array, Array]:
    """Mean (n_x,) and covariance (n_x, n_x) of weighted particles X (n, n_x)."""
    mean = weights @ X
    centred = (X - mean) * np.sqrt(weights)[:, None]
    covariance: Array = centred.T @ centred
    return mean, covariance


def shrunk(
    X: Array, mean: Array, covariance: Array, shrinkage: float, rng: np.random.Generator
) -> Array:
    """Particles drawn towards their mean and jittered, as Liu and West do.

        x ← a x + (1 - a) mean + √(1 - a²) S ξ,   S Sᵀ = covariance

    Copies part again, and mean and covariance are kept, where jitter alone would widen the cloud.
    """
    values, vectors = np.linalg.eigh(covariance)
    S = vectors * np.sqrt(np.maximum(values, 0.0))  # fewer particles than entries: singular
    jitter = rng.standard_normal(X.shape) @ S.T
    moved: Array = shrinkage * X + (1.0 - shrinkage) * mean + np.sqrt(1.0 - shrinkage**2) * jitter
    return moved
