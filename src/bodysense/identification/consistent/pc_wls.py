"""Physically consistent weighted least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.identification.consistent.projection import SPREAD, consistent_least_squares
from bodysense.identification.linear.least_squares import Solution
from bodysense.identification.linear.wls import WLS
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression, Stack


@dataclass(frozen=True)
class ConsistentWLS(WLS):
    """`WLS` over links that can exist and drives that dissipate, thesis eqs (62)-(64)."""

    name: ClassVar[str] = "pc-wls"
    about: ClassVar[str] = "weighted least squares over physical robots (the default)"
    consistent: ClassVar[bool] = True

    @property
    def prior_spread(self) -> float:
        """That of the projection."""
        return SPREAD

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """By a semidefinite program."""
        return consistent_least_squares(problem, prior, stack)
