"""Ordinary least squares: every row counts alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.identification.linear.least_squares import (
    LinearIdentifier,
    Solver,
    Weighing,
    ordinary,
)
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression


@dataclass(frozen=True)
class OLS(LinearIdentifier):
    """Minimise Σ (y - Y theta_base)² over all rows, thesis eq (16) with Σ = σ² I."""

    name: ClassVar[str] = "ols"
    about: ClassVar[str] = "ordinary least squares"
    needs: ClassVar[str] = "nothing more"
    cost: ClassVar[str] = "one regression"
    when: ClassVar[str] = "a first look, or joints of equal noise"

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """All rows alike."""
        return ordinary(problem, solve)
