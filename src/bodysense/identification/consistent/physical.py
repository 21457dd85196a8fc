"""What turns a linear identifier into one over robots that can physically exist."""

from __future__ import annotations

from typing import ClassVar

from bodysense.identification.consistent.projection import SPREAD, consistent_least_squares
from bodysense.identification.factors import Stack
from bodysense.identification.linear.least_squares import LinearIdentifier, Solution
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression


class Physical(LinearIdentifier):
    """Solves over links that can exist and drives that dissipate, thesis eqs (62)-(64)."""

    consistent: ClassVar[bool] = True

    @property
    def prior_spread(self) -> float:
        """That of the projection."""
        return SPREAD

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """By a semidefinite program."""
        return consistent_least_squares(problem, prior, stack)
