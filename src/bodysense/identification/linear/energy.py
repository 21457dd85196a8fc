"""Identification by work and energy, which needs no accelerations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import nnls

from bodysense.identification.factors import Stack
from bodysense.identification.identification import Iteration
from bodysense.identification.linear.energy_rows import EnergyRows
from bodysense.identification.linear.least_squares import (
    LinearIdentifier,
    Solution,
    Solver,
    Weighing,
    few_rows,
    ordinary,
    rounding_levels,
)
from bodysense.identification.linear.ridge import Ridge
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.spatial.arrays import Array

_FEW_ROWS = (
    "There are too few rows to tell noise at speed from noise at rest, so all count alike: record "
    "for longer."
)

_FAINTEST = 1e-3
"""Smallest variance of a row in units of the mean: a robot at rest must not decide everything."""


@dataclass(frozen=True)
class Energy(LinearIdentifier):
    """Minimise Σ ((work - energy gained - work of friction) / σ)² over windows of time.

    No acceleration is in it. In return a row is the balance of the whole robot: six joints give a
    sixth of the rows that torques give, and joints of little power are hard to see beside those of
    much. It needs several times the motion that torques need, and a weak prior, as in `Ridge`, for
    what it still does not see. And it needs a motion: samples that do not follow each other in time
    mean nothing here.

    Noise of the torques makes noise of power that grows with speed, σ² = Σ_j sigma_j² v_j² +
    sigma_0². These variances are found from the squares of the residuals and rows are weighed by
    them, again and again until they settle.

    Attributes:
        spread: how far the robot file may be off: standard deviation in plausible sizes of the
            parameters.
        tolerance: change of predictions, in standard deviations of the residual, at
            which to stop.
        iterations: how often rows are weighed anew, at most.
    """

    spread: float = 1.0
    tolerance: float = 1e-3
    iterations: int = 50

    name: ClassVar[str] = "energy"
    about: ClassVar[str] = "work and energy between samples, no accelerations"
    needs: ClassVar[str] = "a robot file that is roughly right; noise levels: taken from the log"
    cost: ClassVar[str] = "one regression, a pass over all rows an iteration"
    when: ClassVar[str] = "accelerations that cannot be trusted, and several times the usual motion"

    def __post_init__(self) -> None:
        self._ridge()  # which refuses a spread that cannot be meant

    @property
    def prior_spread(self) -> float:
        """As given."""
        return self.spread

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """With the prior, as ridge regression."""
        return self._ridge().solve(problem, prior, stack)

    def _ridge(self) -> Ridge:
        return Ridge(spread=self.spread)

    def rows(self, problem: Regression) -> EnergyRows:
        """One a window of time."""
        return EnergyRows.seen_by(problem)

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """Weigh rows by the variance that their speeds lead to, and solve, until it settles."""
        if not isinstance(problem, EnergyRows):
            problem = self.rows(problem)
        if few_rows(problem):
            start = ordinary(problem, solve)
            return Weighing(start.sigma, start.solution, start.stack, note=_FEW_ROWS)
        first = ordinary(problem, solve)
        solution, stack = first.solution, first.stack
        theta_base = prior.to_base(solution.theta)
        weights: tuple[Array, ...] = ()
        trace: list[Iteration] = []
        sigma, change = np.ones((problem.n_logs, 1)), np.inf
        for _ in range(self.iterations):
            weights = _weights(problem, theta_base, weights)
            stack = problem.stack(sigma, factors=problem.weighted_factors(weights))
            solution = solve(stack)
            new = prior.to_base(solution.theta)
            change = float(np.linalg.norm(stack.A @ (new - theta_base)) / np.sqrt(stack.rows))
            theta_base = new
            trace.append(Iteration(stack.rest, change))
            if change < self.tolerance:
                break
        return Weighing(
            sigma,
            solution,
            stack,
            weights,
            tuple(trace),
            converged=change < self.tolerance,
        )


def _weights(problem: EnergyRows, theta_base: Array, before: Sequence[Array]) -> tuple[Array, ...]:
    """(m, 1) for each block: one over the standard deviation that its speeds lead to."""
    at: dict[int, int] = {}
    speeds, squares, logs, used = [], [], [], []
    for block in problem.blocks():
        first = at.get(block.piece, 0)
        speeds.append(problem.speeds(block, first))
        squares.append(np.square(block.y - block.Y @ theta_base)[:, 0])
        logs.append(np.full(block.t.size, block.log))
        used.append(block.use[:, 0] > 0.0)
        at[block.piece] = first + block.t.size
    u, e, log = np.concatenate(speeds), np.concatenate(squares), np.concatenate(logs)
    use = np.concatenate(used)
    # Squares of large residuals are the least certain ones: each counts by its own variance.
    trust = np.concatenate([w[:, 0] ** 2 for w in before]) if before else np.ones(e.size)
    floor = max(float(rounding_levels(problem)[0]) ** 2, 1e-300)
    variance = np.ones(e.size)
    for k in range(problem.n_logs):
        mine = log == k
        fit = mine & use
        if not fit.any():
            continue
        # The constant in units of the mean square, like the other columns.
        columns = np.column_stack([u, np.full(e.size, max(float(u[fit].mean()), 1e-300))])
        scale = np.where(trust[fit] > 0.0, trust[fit], trust[fit].max())
        level = nnls(columns[fit] * scale[:, None], e[fit] * scale)[0]
        model = columns[mine] @ level
        variance[mine] = np.maximum(model, max(_FAINTEST * float(e[fit].mean()), floor))
    root = 1.0 / np.sqrt(variance)
    ends = np.cumsum([block.size for block in squares])
    return tuple(
        (part * keep)[:, None] for part, keep in zip(np.split(root, ends[:-1]), used, strict=True)
    )
