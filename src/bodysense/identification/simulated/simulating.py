"""What all methods share that simulate the recorded experiment."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bodysense.errors import ShapeError, unknown_name
from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.identification import Iteration
from bodysense.identification.linear.least_squares import (
    LinearIdentifier,
    Solver,
    Weighing,
    weighted,
)
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.simulated.closed_loop import ClosedLoop
from bodysense.simulation.experiment import BACKENDS, backend
from bodysense.simulation.rollout import INTEGRATORS, Integrator
from bodysense.spatial.arrays import Array

MORE_GAIN = 1.1
"""By which gains that are not known are multiplied, to see what depends on them."""

_ADVICE = (
    "check the controller's gains and rate, the friction law, and what the controller was told "
    "(q_des)"
)


@dataclass(frozen=True)
class Simulating(LinearIdentifier):
    """Base of methods that simulate the recorded experiment with their estimate.

    They start from the prior or from weighted least squares over robots that can exist, whichever
    follows the recorded motion better when it is simulated.

    Attributes:
        iterations: how often it is simulated and estimated anew, at most.
        tolerance: change of what is predicted, in standard deviations of the residual, at which to
            stop.
        integrator: of the simulation: ``euler``, ``rk2`` (midpoint) or ``rk4``, a step a control
            period.
        differentiate: whether the controller takes velocities from differences of positions, as
            drives do; it matters only where the log holds what the controller was told (q_des).
        backend: where simulations run: ``threads``, those of this process.
    """

    iterations: int = 10
    tolerance: float = 0.03
    integrator: Integrator = "rk2"
    differentiate: bool = True
    backend: str = "threads"

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ShapeError(f"iterations is {self.iterations}: give a whole number from 1.")
        if not 0.0 < self.tolerance < np.inf:
            raise ShapeError(f"tolerance is {self.tolerance:g}: give a positive number.")
        if self.integrator not in INTEGRATORS:
            raise unknown_name("integrator", self.integrator, INTEGRATORS)
        if self.backend not in BACKENDS:
            raise unknown_name("backend", self.backend, BACKENDS)
        others = getattr(super(), "__post_init__", None)
        if others is not None:  # of a method over physical robots
            others()

    def loop(self, problem: Regression) -> ClosedLoop:
        """The recorded experiment, ready to be simulated."""
        return ClosedLoop.of(
            problem,
            backend(self.backend),
            integrator=self.integrator,
            differentiate=self.differentiate,
        )

    def start(
        self, loop: ClosedLoop, prior: Prior, solve: Solver
    ) -> tuple[Weighing, Array, Regression | None]:
        """Weighted least squares; the better of it and the prior; and that one, simulated.

        No simulation is returned where neither follows the recorded motion.
        """
        plain = weighted(loop.problem, prior, solve, tolerance=1e-2, most=10)
        possible = consistent_least_squares(prior, plain.stack)
        candidates = (prior.theta, possible.theta)
        runs = loop.simulated(np.stack(candidates))
        fits = [np.inf if run is None else loop.misfit(run) for run in runs]
        best = int(np.argmin(fits))
        return plain, candidates[best], runs[best]

    def astray(self, plain: Weighing, trace: list[Iteration]) -> Weighing:
        """What is returned when no simulation follows the recorded motion: least squares."""
        when = f"after {len(trace)} steps" if trace else "from the start"
        failure = (
            f"The simulated robot leaves the recorded motion {when}; the estimate is that of "
            f"weighted least squares: {_ADVICE}."
        )
        failed = replace(plain.solution, failure=failure)
        return replace(plain, solution=failed, trace=tuple(trace))

    def notes(self, loop: ClosedLoop, plain: Weighing, moved: float | None) -> str:
        """What to say about controller and reference.

        Args:
            loop: what was simulated.
            plain: the weighted least squares before.
            moved: by how many standard deviations of the residual predictions would change with
                higher gains; `None` if that simulation is lost, or gains are known.
        """
        said = [*loop.notes, *filter(None, [plain.note])]
        if not loop.gains_known:
            said.append(
                "With gains 10 % higher the simulation is lost: the result depends on them."
                if moved is None
                else f"With gains 10 % higher its predictions would change by {moved:.2g} standard "
                "deviations of the residual, which its intervals do not count."
            )
        return " ".join(said)
