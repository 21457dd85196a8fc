"""Recursive least squares over a whole recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bodysense.identification.linear.least_squares import (
    LinearIdentifier,
    Solution,
    Solver,
    Weighing,
    least_squares,
    weighted,
)
from bodysense.identification.online.recursive_least_squares import RecursiveLeastSquares
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class RLS(LinearIdentifier):
    """Least squares row by row in the order of time, with rows weighed as by `WLS`.

    The recursion is that of `RecursiveLeastSquares`. Without forgetting it is `Ridge` of the same
    spread. With forgetting it tells what the robot is
    at the end of the recording.

    Attributes:
        forgetting: share of its weight that a row keeps from one instant to the next.
        spread: how far the robot file may be off: standard deviation in plausible sizes of the
            parameters.
    """

    forgetting: float = 1.0
    spread: float = 1.0

    name: ClassVar[str] = "rls"
    about: ClassVar[str] = "recursive least squares, which can forget (for robots that change)"
    needs: ClassVar[str] = "a robot file that is roughly right; noise levels: taken from the log"
    cost: ClassVar[str] = "one regression, then row by row"
    when: ClassVar[str] = "robots that change while they are recorded: with forgetting below 1"

    def __post_init__(self) -> None:
        self._recursion()  # which refuses settings that cannot be meant

    @property
    def prior_spread(self) -> float:
        """As given."""
        return self.spread

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """Weigh by the noise of the whole recording, then go through it row by row."""
        start = weighted(
            problem,
            prior,
            lambda stack: least_squares(problem, prior, stack),
            tolerance=1e-3,
            most=20,
        )
        recursion = self._recursion()
        state = recursion.init(prior)
        for block in problem.blocks():
            state = recursion.advance(state, block.Y, block.y, block.use / start.sigma[block.log])
        weights, stack = None, start.stack
        if self.forgetting < 1.0:
            weights = self._weights(problem, state.steps)
            stack = problem.stack(start.sigma, factors=problem.weighted_factors(weights))
        return Weighing(
            start.sigma,
            Solution(prior.untouched(prior.complete(state.theta_base))),
            stack,
            weights,
            start.trace,
            converged=start.converged,
            note=start.note,
        )

    def _recursion(self) -> RecursiveLeastSquares:
        return RecursiveLeastSquares(self.forgetting, self.spread)

    def _weights(self, problem: Regression, steps: int) -> tuple[Array, ...]:
        """(m, n) for each block: what is left at the end of each row's weight."""
        made, last = [], 0
        for block in problem.blocks():
            age = steps - 1 - (last + np.arange(block.t.size))
            made.append(block.use * np.sqrt(self.forgetting) ** age[:, None])
            last += block.t.size
        return tuple(made)
