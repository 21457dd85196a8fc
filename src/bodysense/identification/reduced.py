"""Reduced problems: triangular factors of rows, stacks of them, and linear constraints.

Qᵀ [Y y] = R,        ‖Y theta - y‖ = ‖R (theta, -1)‖      for every theta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.linalg.lapack import dtpqrt

from bodysense.errors import MismatchError
from bodysense.spatial.arrays import Array, read_only

_PANEL = 16  # columns that LAPACK eliminates at a time: the fastest for 50 to 150 columns


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

    def change(self, step: Array) -> float:
        """Change of predictions by a step of theta_base, in standard deviations of the residual."""
        return float(np.linalg.norm(self.A @ step) / np.sqrt(max(self.rows, 1)))


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


def joined(R: Array, other: Array) -> Array:
    """The triangular factor (c, c) of two, (≤ c, c) each, in a third of the time of any matrix."""
    c = R.shape[1]
    if not len(other):
        return R
    square = np.zeros((c, c), order="F")
    square[: len(R)] = R
    made, _, _, _ = dtpqrt(len(other), min(_PANEL, c), square, other, overwrite_a=1)
    return np.ascontiguousarray(made)


# What is known for certain, as linear constraints on all parameters.

_ROUNDING = 1e-9  # relative size below which a row repeats others, or contradicts by rounding


@dataclass(frozen=True, eq=False)
class Constraints:
    """E theta = e and G theta <= g.

    Attributes:
        E: (k, p) equalities.
        e: (k,).
        G: (m, p) inequalities.
        g: (m,).
    """

    E: Array
    e: Array
    G: Array
    g: Array

    @classmethod
    def of(
        cls,
        size: int,
        equal: Sequence[tuple[Array, float]] = (),
        at_most: Sequence[tuple[Array, float]] = (),
    ) -> Constraints:
        """From rows (p,) and their right-hand sides."""

        def stacked(rows: Sequence[tuple[Array, float]]) -> tuple[Array, Array]:
            matrix = np.array([row for row, _ in rows]).reshape(len(rows), size)
            return read_only(matrix), read_only(np.array([value for _, value in rows], float))

        return cls(*stacked(equal), *stacked(at_most))

    def padded(self, extra: int) -> Constraints:
        """The same over theta with more parameters at the end, which are free."""
        wide = ((0, 0), (0, extra))
        return Constraints(np.pad(self.E, wide), self.e, np.pad(self.G, wide), self.g)

    def __add__(self, other: Constraints) -> Constraints:
        return Constraints(
            np.concatenate([self.E, other.E]),
            np.concatenate([self.e, other.e]),
            np.concatenate([self.G, other.G]),
            np.concatenate([self.g, other.g]),
        )

    @property
    def any(self) -> bool:
        return bool(self.e.size or self.g.size)

    def broken(self, theta: Array, size: Array, tolerance: float = 0.0) -> bool:
        """Whether an inequality is broken by theta (p,), in units of parameter sizes (p,)."""
        if not self.g.size:
            return False
        unit = np.linalg.norm(self.G * size, axis=1)
        return bool((self.G @ theta - self.g > tolerance * unit).any())

    def free_directions(self, centre: Array, factor: Array) -> tuple[Array, Array]:
        """Centre (p,) and factor (p, k) of theta = centre + factor x under the equalities.

        Of all x with E (centre + factor x) = e, the new centre has the smallest, and the new
        factor's columns are the directions that are left; |x|² stays the sum of both parts.

        Raises:
            MismatchError: the equalities contradict each other.
        """
        if not self.e.size:
            return centre, factor
        A = self.E @ factor
        unit = np.linalg.norm(A, axis=1)
        fixed = unit <= _ROUNDING * np.linalg.norm(self.E, axis=1) * np.abs(factor).max()
        unit = np.where(fixed, 1.0, unit)
        A, rest = A / unit[:, None], (self.e - self.E @ centre) / unit
        U, s, Vt = np.linalg.svd(A)
        rank = int((s > _ROUNDING * max(s.max(initial=0.0), 1e-300)).sum())
        x = Vt[:rank].T @ (U[:, :rank].T @ rest / s[:rank])
        left = np.abs(A @ x - rest)
        if (left > 1e-6 * (1.0 + np.abs(rest))).any():
            raise MismatchError(
                "what is known contradicts itself: no parameters fulfil all of the given masses, "
                "symmetries and equal links at once. Leave one of them out."
            )
        return centre + factor @ x, factor @ Vt[rank:].T

    def balanced(self, factor: Array) -> tuple[Array, Array]:
        """The equalities as rows E (k', p), e (k',) with orthonormal rows of E factor.

        For methods that weight them: redundant rows are left out, and all others are equally stiff
        where theta = … + factor y.
        """
        A = self.E @ factor
        unit = np.maximum(np.linalg.norm(A, axis=1), 1e-300)
        U, s, _ = np.linalg.svd(A / unit[:, None], full_matrices=False)
        rank = int((s > _ROUNDING * s.max(initial=0.0)).sum())
        back = U[:, :rank].T / s[:rank, None]
        return back @ (self.E / unit[:, None]), back @ (self.e / unit)
