"""Instrumental variables: the simulated motion tells noise and signal of the recorded one apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from bodysense.identification.factors import Stack, triangle
from bodysense.identification.given_rows import GivenRows
from bodysense.identification.linear.least_squares import Solver, Weighing, noise_levels
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.simulated.refined import Refined
from bodysense.spatial.arrays import Array

_ALIKE = 0.3
"""Correlation of simulated and recorded columns below which the former are no instruments."""

_SINGULAR = 1e-9
"""Directions of the instruments this much weaker than the strongest one are none."""


@dataclass(frozen=True)
class IV(Refined):
    """Zᵀ (y - Y theta_base) = 0 with the regressor Z of the simulated motion, eqs (26), (30).

    Noise in recorded positions makes noise in the regressor Y, which biases least squares. Z is
    free of it: as long as it is close to the true regressor, the estimate is consistent even if
    the simulation is not exact. With Z = Q R, rows divided by their noise, it is the minimum of

        ‖Qᵀ (y - Y theta_base)‖²,

    which is how constraints come in, eqs (66)-(67), and what its covariance is taken from. Some
    columns a simulation cannot resemble, such as those of friction that lasts for milliseconds
    while a joint turns round: directions of which less than `_ALIKE` is resembled are their own
    instruments, as in least squares. Weak instruments would make the estimate useless.
    """

    name: ClassVar[str] = "iv"
    about: ClassVar[str] = "instrumental variables from the simulated motion"
    needs: ClassVar[str] = "the controller; what it was told, or it follows the measured motion"
    cost: ClassVar[str] = "one simulation and one regression an iteration, about three of them"
    when: ClassVar[str] = "noisy positions: no bias from noise, and little from a wrong simulation"

    def refit(
        self, problem: Regression, prior: Prior, simulated: Regression, theta: Array, solve: Solver
    ) -> Weighing:
        """Solve with these instruments."""
        sigma = noise_levels(problem, prior.to_base(theta))
        stack, C, D = Instruments.of(problem, simulated, sigma).solved_for()
        solution = solve(stack)
        rows = _rows(problem, simulated, C, D, prior.to_base(solution.theta))
        return Weighing(sigma, solution, stack, rows=rows)


@dataclass(frozen=True, eq=False)
class Instruments:
    """Instruments, regressor and torques, reduced to a triangle.

    Attributes:
        Z: (2b + 1, b) simulated regressor.
        Y: (2b + 1, b) recorded one.
        y: (2b + 1,) torques.
        rows: number of rows behind them.
    """

    Z: Array
    Y: Array
    y: Array
    rows: int

    @classmethod
    def of(cls, problem: Regression, simulated: Regression, sigma: Array) -> Instruments:
        """All rows, divided by sigma (n_logs, n)."""
        b, rows = problem.size, 0
        R = np.zeros((0, 2 * b + 1))
        for mine, theirs in zip(problem.blocks(), simulated.blocks(), strict=True):
            scale = mine.use / sigma[mine.log]
            use = scale > 0.0
            count = int(use.sum())
            tall = np.empty((2 * b + 1, len(R) + count))  # column by column, as LAPACK wants it
            tall[:, : len(R)] = R.T
            fresh = tall[:, len(R) :]
            fresh[:b], fresh[b:-1], fresh[-1] = theirs.Y[use].T, mine.Y[use].T, mine.y[use]
            fresh *= scale[use]
            R, rows = triangle(tall.T), rows + count
        square = np.zeros((2 * b + 1, 2 * b + 1))
        square[: len(R)] = R
        return cls(square[:, :b], square[:, b:-1], square[:, -1], rows)

    @cached_property
    def weak(self) -> Array:
        """(b, k) directions of the parameters whose effect the simulation hardly resembles."""
        Q, _ = _basis(self.Z)
        U, V = _basis(self.Y)
        _, s, Wt = np.linalg.svd(Q.T @ U)
        likeness = np.zeros(U.shape[1])
        likeness[: s.size] = s[: likeness.size]
        directions: Array = V @ Wt[likeness < _ALIKE].T
        return directions

    def solved_for(self) -> tuple[Stack, Array, Array]:
        """The reduced problem, and C, D with Z C + Y D the part of Y that instruments explain."""
        b = self.Y.shape[1]
        Q, V = _basis(np.hstack([self.Z, self.Y @ self.weak]))
        A, z = Q.T @ self.Y, Q.T @ self.y
        share = V @ A
        R = np.zeros((b + 1, b + 1))
        made = triangle(np.column_stack([A, z]))
        R[: len(made)] = made
        rest = float(np.square(self.y).sum() - np.square(R[:b, b]).sum())
        stack = Stack(R[:b, :b], R[:b, b], max(rest, 0.0), self.rows)
        return stack, share[:b], self.weak @ share[b:]


def _basis(X: Array) -> tuple[Array, Array]:
    """Orthonormal Q (m, k) of the columns of X (m, n), and V (n, k) with X V = Q."""
    size = np.linalg.norm(X, axis=0)
    size[size == 0.0] = 1.0
    U, s, Vt = np.linalg.svd(X / size, full_matrices=False)
    strong = s > _SINGULAR * s.max(initial=0.0)
    strong &= s > 0.0
    return U[:, strong], (Vt[strong] / size).T / s[strong]


def _rows(
    problem: Regression, simulated: Regression, C: Array, D: Array, theta_base: Array
) -> GivenRows:
    """Rows P = Z C + Y D, the part of Y that instruments explain, with the residuals of Y itself.

    Their scores are those of the instrumental estimate: Pᵀ (y - Y theta_base).
    """
    blocks = []
    for mine, theirs in zip(problem.blocks(), simulated.blocks(), strict=True):
        P = theirs.Y @ C + mine.Y @ D
        blocks.append(replace(mine, Y=P, y=mine.y - (mine.Y - P) @ theta_base))
    return GivenRows.by(problem, blocks)
