"""Quadratic programs between bounds, by guessing which bounds hold and solving for the rest.

    minimise ½ dᵀ H d + gᵀ d    subject to    lower <= d <= upper,        H positive definite

A guess is right when the free entries lie inside and the others push outward; otherwise those that
do not are exchanged (primal-dual active set). It takes a few small factorisations where nearly all
entries are free, and is begun from any guess. Where guesses go round in circles, Clarabel decides.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from bodysense.identification.consistent.conic import Rows, solve_conic
from bodysense.spatial.arrays import Array

_MOST_GUESSES = 25


def solve_box(H: Array, g: Array, lower: Array, upper: Array, guess: Array | None = None) -> Array:
    """The minimum (n,).

    Args:
        H: (n, n).
        g: (n,).
        lower: (n,) may be infinite.
        upper: (n,) may be infinite.
        guess: (n,) negative for entries that may well be at their lower bound, positive for those
            at their upper one.
    """
    at_lower, at_upper = np.zeros((2, g.size), dtype=bool)
    if guess is not None:
        at_lower, at_upper = (guess < 0.0) & (lower > -np.inf), (guess > 0.0) & (upper < np.inf)
    for _ in range(_MOST_GUESSES):
        free = ~(at_lower | at_upper)
        d = np.where(at_lower, lower, np.where(at_upper, upper, 0.0))
        if free.all():
            d = -cho_solve(cho_factor(H, check_finite=False), g, check_finite=False)
        elif free.any():
            pull = g[free] + H[np.ix_(free, ~free)] @ d[~free]
            factor = cho_factor(H[np.ix_(free, free)], check_finite=False)
            d[free] = -cho_solve(factor, pull, check_finite=False)
        push = -(H @ d + g)
        low = (free & (d < lower)) | (at_lower & (push < 0.0))
        high = (free & (d > upper)) | (at_upper & (push > 0.0))
        if (low == at_lower).all() and (high == at_upper).all():
            return d
        at_lower, at_upper = low, high
    return _by_conic(H, g, lower, upper)


def _by_conic(H: Array, g: Array, lower: Array, upper: Array) -> Array:
    # In coordinates in which H is one: Clarabel's tolerance is then that of the cost.
    back = np.linalg.inv(np.linalg.cholesky(H)).T
    below, above = np.isfinite(lower), np.isfinite(upper)
    rows = Rows(
        "at most",
        np.vstack([-back[below], back[above]]),
        np.append(-lower[below], upper[above]),
    )
    x, _ = solve_conic(np.ones(g.size), back.T @ g, [rows])
    # Any point between the bounds will do for a caller that looks at the cost.
    return np.clip(back @ x, lower, upper) if x is not None else np.clip(0.0, lower, upper)
