"""Least squares over a window of moments: a chain of blocks with common columns, by QR.

    rows of moment t          on x_t and c
    rows between t and t + 1  on x_t and x_t+1

c is what is the same at all moments. From the first moment to the last, reflections eliminate
x_t: R_t x_t + N_t x_t+1 + C_t c = z_t. Back from the last, means and covariances follow,

    x_t = R_t⁻¹ (z_t - N_t x_t+1 - C_t c + noise),   noise ~ N(0, 1): Cov(x_t) from Cov(x_t+1, c),

which only adds what is positive. Work grows with the number of moments, not with its cube.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from bodysense.estimation.map_dynamics.state.gauss_newton import Step
from bodysense.estimation.map_dynamics.state.moment_problem import qr_r
from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False)
class Link:
    """Rows between two moments: before x_t + after x_t+1 = right."""

    before: Array  # (k, p)
    after: Array  # (k, p)
    right: Array  # (k,)


@dataclass(frozen=True, eq=False)
class Eliminated:
    """R x_t + N x_t+1 + C c = z."""

    R: Array
    N: Array
    C: Array
    z: Array


@dataclass(frozen=True, eq=False)
class WindowLinear:
    """A linearised window.

    Attributes:
        p: numbers of a moment.
        moments: T blocks of rows (k, p + c + 1), the last column the right-hand side.
        links: T - 1 of them.
        cost: chi-square where it was linearised.
    """

    p: int
    moments: Sequence[Array]
    links: Sequence[Link]
    cost: float

    @property
    def c(self) -> int:
        """How many numbers are the same at all moments."""
        return int(self.moments[0].shape[1]) - 1 - self.p

    def step(self, damping: float) -> Step:
        """Change (T p + c,) of all unknowns."""
        chain, R, z = self._eliminate(damping)
        common = solve_triangular(R, z) if self.c else np.zeros(0)
        x = np.zeros((len(chain), self.p))
        after = np.zeros(self.p)
        for t in range(len(chain) - 1, -1, -1):
            e = chain[t]
            after = x[t] = solve_triangular(e.R, e.z - e.N @ after - e.C @ common)
        return Step(np.concatenate([x.ravel(), common]), self._decrease(x, common))

    def covariances(self) -> list[Array]:
        """(p + c, p + c) of (x_t, c) at all moments."""
        chain, R, _ = self._eliminate(0.0)
        p, c = self.p, self.c
        inverse = solve_triangular(R, np.eye(c)) if c else np.zeros((0, 0))
        after = np.zeros((p + c, p + c))
        after[p:, p:] = inverse @ inverse.T
        found = []
        for e in reversed(chain):
            own = solve_triangular(e.R, np.eye(p))
            gain = -own @ np.hstack([e.N, e.C])
            both = gain @ after
            here = np.empty_like(after)
            here[:p, :p] = own @ own.T + both @ gain.T
            here[:p, p:] = both[:, p:]
            here[p:, :p] = both[:, p:].T
            here[p:, p:] = after[p:, p:]
            found.append(here)
            after = here
        return found[::-1]

    def _eliminate(self, damping: float) -> tuple[list[Eliminated], Array, Array]:
        p, c = self.p, self.c
        chain: list[Eliminated] = []
        held = np.zeros((0, p + c + 1))
        for t, link in enumerate(self.links):
            top = self._stacked(t, held, damping)
            k = top.shape[0]
            wide = np.zeros((k + link.right.size, 2 * p + c + 1))
            wide[:k, :p], wide[:k, 2 * p :] = top[:, :p], top[:, p:]
            wide[k:, :p], wide[k:, p : 2 * p], wide[k:, -1] = link.before, link.after, link.right
            R = qr_r(wide)
            chain.append(Eliminated(R[:p, :p], R[:p, p : 2 * p], R[:p, 2 * p : -1], R[:p, -1]))
            held = R[p:, p:]
        R = qr_r(self._stacked(len(self.links), held, damping))
        chain.append(Eliminated(R[:p, :p], np.zeros((p, p)), R[:p, p:-1], R[:p, -1]))
        return chain, R[p : p + c, p : p + c], R[p : p + c, -1]

    def _stacked(self, t: int, held: Array, damping: float) -> Array:
        """What earlier moments say, the rows of this one, and damping."""
        rows = [held, self.moments[t]]
        if damping > 0.0:
            rows.append(np.sqrt(damping) * self._scales(t))
        return np.vstack(rows)

    def _scales(self, t: int) -> Array:
        """Rows of Marquardt's damping: the size of each column."""
        squares = (self.moments[t][:, :-1] ** 2).sum(axis=0)
        if t > 0:
            squares[: self.p] += (self.links[t - 1].after ** 2).sum(axis=0)
        if t < len(self.links):
            squares[: self.p] += (self.links[t].before ** 2).sum(axis=0)
        rows = np.zeros((squares.size, squares.size + 1))
        np.fill_diagonal(rows, np.sqrt(squares))
        return rows

    def _decrease(self, x: Array, common: Array) -> float:
        """How much lower the linear cost is after a step."""
        gain = 0.0
        for t, rows in enumerate(self.moments):
            gain += _gain(rows[:, -1], rows[:, : self.p] @ x[t] + rows[:, self.p : -1] @ common)
        for t, link in enumerate(self.links):
            gain += _gain(link.right, link.before @ x[t] + link.after @ x[t + 1])
        return gain


def _gain(right: Array, explained: Array) -> float:
    left = right - explained
    return float(right @ right - left @ left)
