"""What turns a linear identifier into one over factors of robots that can physically exist."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bodysense.identification.consistent.physical import Physical
from bodysense.identification.consistent.sqp import Centred, square_root_least_squares
from bodysense.identification.factors import Stack
from bodysense.identification.linear.least_squares import Solution, Weighing
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression


@dataclass(frozen=True)
class PhysicalSQP(Physical):
    """As `Physical`, by sequential quadratic programming over square roots, eqs (174)-(179)."""

    def estimate(
        self, rows: Regression, prior: Prior, rng: np.random.Generator | None = None
    ) -> Weighing:
        """Weigh and solve, each problem from the solution of the one before, eqs (177)-(179)."""
        if self.relaxation_weight is None:
            return super().estimate(rows, prior, rng)
        last: Centred | None = None

        def solve(stack: Stack) -> Solution:
            nonlocal last
            solution, last = square_root_least_squares(prior, stack, self._relaxation(), last)
            return replace(solution, theta=prior.untouched(solution.theta))

        return self.weigh(rows, prior, solve)

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """By sequential quadratic programming, from the prior."""
        return square_root_least_squares(prior, stack, self._relaxation())[0]
