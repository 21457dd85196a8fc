"""Total least squares: noise in the regressor as well as in the torques."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bodysense.identification.factors import Stack
from bodysense.identification.linear.least_squares import (
    LinearIdentifier,
    Solution,
    Solver,
    Weighing,
    least_squares,
    ordinary,
)
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression


@dataclass(frozen=True)
class TLS(LinearIdentifier):
    """Smallest change of [Y y] that makes it singular: its last right singular vector.

    All columns are taken to be equally noisy, which is rarely so: accelerations are noisy, friction
    columns are not. It is here for comparison.
    """

    name: ClassVar[str] = "tls"
    about: ClassVar[str] = "total least squares: noise in the regressor too"
    needs: ClassVar[str] = "nothing more"
    cost: ClassVar[str] = "one regression"
    when: ClassVar[str] = (
        "for comparison: it takes every column of the regressor to be equally noisy"
    )

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """All rows alike."""
        return ordinary(problem, solve)

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """From the singular vectors of the triangle, which are those of the whole."""
        fallback = least_squares(problem, prior, stack)
        if fallback.unseen:  # a second small singular value: the last vector means nothing
            return fallback
        b = problem.size
        whole = np.zeros((b + 1, b + 1))
        whole[:b, :b], whole[:b, b], whole[b, b] = stack.A, stack.z, np.sqrt(max(stack.rest, 0.0))
        last = np.linalg.svd(whole)[2][-1]
        if abs(last[b]) < 1e-12:
            return Solution(
                fallback.theta,
                failure="Total least squares has no solution here: the regressor alone is nearly "
                "singular. Use wls, or a motion that excites more.",
            )
        return Solution(prior.complete(-last[:b] / last[b]))
