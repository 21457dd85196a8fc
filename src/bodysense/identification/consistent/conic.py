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
from scipy.sparse import csc_matrix, diags_array, triu

from bodysense.spatial.arrays import Array

_TOLERANCES = (1e-10, 1e-8, 1e-6)
"""Of the duality gap and of constraints. Where the solver gets stuck before the first, the next."""

_TRIANGLE = tuple((row, column) for column in range(4) for row in range(column + 1))
_ROWS, _COLUMNS = (np.array(places) for places in zip(*_TRIANGLE, strict=True))
_UNIT = np.where(_ROWS == _COLUMNS, 1.0, np.sqrt(2.0))


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a program.

    Attributes:
        kind: ``equal``, ``at most``, or ``matrix`` for ten rows made by `matrix_rows`.
        A: (m, n).
        b: (m,).
    """

    kind: Literal["equal", "at most", "matrix"]
    A: Array
    b: Array


def matrix_rows(slope: Array, offset: Array) -> Rows:
    """The matrix offset (4, 4) + slope (4, 4, n) x is ⪰ 0; both are symmetric."""
    A = -slope[_ROWS, _COLUMNS] * _UNIT[:, None]
    return Rows("matrix", A, offset[_ROWS, _COLUMNS] * _UNIT)


def solve_conic(Q: Array, q: Array, rows: Sequence[Rows]) -> tuple[Array | None, str]:
    """The minimum (n,), or `None`, and the solver's word for how it ended.

    Args:
        Q: (n, n) positive semidefinite, or (n,) the diagonal of a diagonal one.
        q: (n,).
        rows: the constraints.
    """
    cones: list[Any] = []
    for part in rows:
        if part.kind == "equal":
            cones.append(clarabel.ZeroConeT(part.b.size))
        elif part.kind == "at most":
            cones.append(clarabel.NonnegativeConeT(part.b.size))
        else:
            cones.append(clarabel.PSDTriangleConeT(4))
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
