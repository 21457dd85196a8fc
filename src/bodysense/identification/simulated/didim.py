"""DIDIM: least squares whose regressor comes from the simulated motion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from bodysense.identification.linear.least_squares import Solver, Weighing, weighted
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.simulated.refined import Refined
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class DIDIM(Refined):
    """Direct and inverse dynamic identification model, thesis eqs (41)-(42).

    The controller keeps the simulated motion close to the recorded one whatever the parameters, so
    that the derivative of the simulated torque is about the regressor of the simulated motion:
    input error by plain least squares. No recorded position is differentiated.
    """

    name: ClassVar[str] = "didim"
    about: ClassVar[str] = "least squares with the regressor of the simulated motion"
    needs: ClassVar[str] = "the controller; what it was told, or it follows the measured motion"
    cost: ClassVar[str] = "one simulation and one regression an iteration, three or four of them"
    when: ClassVar[str] = "noisy or slowly sampled positions and a controller that is well known"

    def refit(
        self, problem: Regression, prior: Prior, simulated: Regression, theta: Array, solve: Solver
    ) -> Weighing:
        """Weighted least squares on the simulated rows."""
        found = weighted(simulated, prior, solve, tolerance=1e-2, most=10)
        return replace(found, rows=simulated)
