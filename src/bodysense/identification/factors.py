"""Triangular factors of rows, and the small problems that stacks of them are.

Qᵀ [Y y] = R,        ‖Y theta - y‖ = ‖R (theta, -1)‖      for every theta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False)
class Factor:
    """[Y y] of one log, fold and joint, as a triangle over the columns that the joint depends on.

    Attributes:
        columns: (c,) places in theta_base.
        R: (≤ c + 1, c + 1) upper triangle; the last column belongs to y.
        rows: how many rows it stands for.
    """

    columns: NDArray[np.int64]
    R: Array
    rows: int

    def squares(self, theta_base: Array) -> float:
        """Sum of squared residuals of these rows."""
        solution = np.append(theta_base[self.columns], -1.0)
        return float(np.sum((self.R @ solution) ** 2))


@dataclass(frozen=True, eq=False)
class Stack:
    """A weighted least-squares problem, reduced: minimise ‖A theta_base - z‖² + rest.

    Attributes:
        A: (b, b) upper triangle.
        z: (b,).
        rest: what no theta can explain.
        rows: number of rows behind it.
    """

    A: Array
    z: Array
    rest: float
    rows: int


def tall_matrix(
    before: Array,
    Y: Array,
    columns: NDArray[np.int64],
    y: Array,
    use: NDArray[np.int64],
) -> Array:
    """[before; Y y] with some columns and rows of Y, column by column as LAPACK wants it."""
    tall = np.empty((columns.size + 1, len(before) + use.size))
    tall[:, : len(before)] = before.T
    for k, column in enumerate(columns):
        np.take(Y[:, column], use, out=tall[k, len(before) :], mode="clip")
    np.take(y, use, out=tall[-1, len(before) :], mode="clip")
    return tall.T


def triangle(tall: Array) -> Array:
    """The triangular factor of a tall matrix, (min(rows, columns), columns)."""
    R = qr(tall, mode="r", overwrite_a=True, check_finite=False)[0]
    return np.ascontiguousarray(R[: min(tall.shape)], dtype=np.float64)
