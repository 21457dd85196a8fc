"""Weighted least squares: rows count by the noise of their log and joint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.identification.linear.least_squares import (
    LinearIdentifier,
    Solver,
    Weighing,
    weighted,
)
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression


@dataclass(frozen=True)
class WLS(LinearIdentifier):
    """Minimise Σ ((y - Y theta_base) / σ)² with σ of each log and joint, thesis eqs (16)-(17).

    Attributes:
        tolerance: relative change of the standard deviations at which they have settled.
        iterations: how often the standard deviations are taken anew, at most.
    """

    tolerance: float = 1e-3
    iterations: int = 20

    name: ClassVar[str] = "wls"
    about: ClassVar[str] = "least squares weighted by the noise of each log and joint"
    needs: ClassVar[str] = "noise levels: taken from the log"
    cost: ClassVar[str] = "one regression, weighed a few times over"
    when: ClassVar[str] = "torques are all that matters: links may come out as impossible bodies"

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """Divide rows by the residual's standard deviation."""
        return weighted(problem, prior, solve, tolerance=self.tolerance, most=self.iterations)
