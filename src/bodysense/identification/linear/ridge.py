"""Ridge regression towards the prior: poor data move the parameters little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bodysense.errors import ShapeError
from bodysense.identification.factors import Stack
from bodysense.identification.linear.least_squares import (
    LinearIdentifier,
    Solution,
    Solver,
    Weighing,
    weighted,
)
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression


@dataclass(frozen=True)
class Ridge(LinearIdentifier):
    """Minimise Σ ((y - Y theta) / σ)² + Σ ((theta - theta_prior) / (spread · size))².

    The Bayesian mean for a prior whose standard deviation is a fraction of each parameter's
    plausible size.

    Attributes:
        spread: how far the robot file may be off: standard deviation in plausible sizes of the
            parameters.
    """

    spread: float = 0.3

    name: ClassVar[str] = "ridge"
    about: ClassVar[str] = "weighted least squares that stays near the prior where data are poor"
    needs: ClassVar[str] = "a robot file that is roughly right; noise levels: taken from the log"
    cost: ClassVar[str] = "one regression, weighed a few times over"
    when: ClassVar[str] = "motions that leave parameters unseen"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.spread) and self.spread > 0.0):
            raise ShapeError(f"spread is {self.spread:g}: give a positive number, e.g. 0.3.")

    @property
    def prior_spread(self) -> float:
        """As given."""
        return self.spread

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """As weighted least squares."""
        return weighted(problem, prior, solve, tolerance=1e-3, most=20)

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """One least-squares problem over all parameters, in units of their prior's spread."""
        d = self.spread * prior.size
        A = np.vstack([stack.A @ (prior.mapping * d), np.eye(d.size)])
        rest = stack.z - stack.A @ prior.theta_base
        x = np.linalg.lstsq(A, np.concatenate([rest, np.zeros(d.size)]), rcond=None)[0]
        return Solution(prior.theta + d * x)
