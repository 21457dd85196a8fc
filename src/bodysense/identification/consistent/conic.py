"""Small dense cone programs, given to Clarabel as they are: no modelling layer in between.

    minimise    ½ xᵀ Q x + qᵀ x
    subject to  A x = b,     A x <= b,     or  b - A x  the upper triangle of a matrix ⪰ 0

A modelling layer takes half a second to import and most of the time of a solve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import clarabel
import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csc_matrix, diags_array, triu

from bodysense.spatial.arrays import Array

_TOLERANCES = (1e-10, 1e-8, 1e-6)
"""Of the duality gap and of constraints. Where the solver gets stuck before the first, the next."""

_TRIANGLE = tuple((row, column) for column in range(4) for row in range(column + 1))
_ROWS, _COLUMNS = (np.array(places) for places in zip(*_TRIANGLE, strict=True))
_UNIT = np.where(_ROWS == _COLUMNS, 1.0, np.sqrt(2.0))


@dataclass(frozen=True, eq=False)
class ConicRows:
    """Rows of a program.

    Attributes:
        kind: ``equal``, ``at most``, or ``matrix`` for ten rows made by `matrix_rows`.
        A: (m, n).
        b: (m,).
    """

    kind: Literal["equal", "at most", "matrix"]
    A: Array
    b: Array


def matrix_rows(slope: Array, offset: Array) -> ConicRows:
    """The matrix offset (4, 4) + slope (4, 4, n) x is ⪰ 0; both are symmetric."""
    A = -slope[_ROWS, _COLUMNS] * _UNIT[:, None]
    return ConicRows("matrix", A, offset[_ROWS, _COLUMNS] * _UNIT)


def solve_conic(Q: Array, q: Array, rows: Sequence[ConicRows]) -> tuple[Array | None, str]:
    """The minimum (n,), or `None`, and the solver's word for how it ended.

    Args:
        Q: (n, n) positive semidefinite, or (n,) the diagonal of a diagonal one.
        q: (n,).
        rows: the constraints.
    """
    cones = [_cone(part) for part in rows]
    curvature = diags_array(Q) if Q.ndim == 1 else triu(csc_matrix(Q))
    A = np.vstack([part.A for part in rows]) if rows else np.zeros((0, q.size))
    b = np.concatenate([part.b for part in rows]) if rows else np.zeros(0)
    program = (csc_matrix(curvature), q, csc_matrix(A), b, cones)
    word = ""
    for tolerance in _TOLERANCES:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        result = clarabel.DefaultSolver(*program, settings).solve()
        word = str(result.status)
        if word in ("Solved", "AlmostSolved"):
            return np.array(result.x), word
        if "Infeasible" in word:
            break
    return None, word


def _cone(part: ConicRows) -> Any:
    if part.kind == "equal":
        return clarabel.ZeroConeT(part.b.size)
    if part.kind == "at most":
        return clarabel.NonnegativeConeT(part.b.size)
    return clarabel.PSDTriangleConeT(4)


# Quadratic programs between bounds, by guessing which bounds hold and solving for the rest.
#
#     minimise ½ dᵀ H d + gᵀ d    subject to    lower <= d <= upper,        H positive definite
#
# A guess is right when the free entries lie inside and the others push outward; otherwise those
# that do not are exchanged (primal-dual active set). It takes a few small factorisations where
# nearly all entries are free, and is begun from any guess. Where guesses go round in circles,
# Clarabel decides.

_MOST_GUESSES = 25  # active sets that are tried before Clarabel decides


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
    rows = ConicRows(
        "at most",
        np.vstack([-back[below], back[above]]),
        np.append(-lower[below], upper[above]),
    )
    x, _ = solve_conic(np.ones(g.size), back.T @ g, [rows])
    # Any point between the bounds will do for a caller that looks at the cost.
    return np.clip(back @ x, lower, upper) if x is not None else np.clip(0.0, lower, upper)
