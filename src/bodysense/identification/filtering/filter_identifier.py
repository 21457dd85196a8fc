"""Joint filtering: parameters and state in one filter, thesis section 2.2.8.

The filter predicts positions from torques by the direct dynamics and corrects parameters and state
by what was measured. It takes positions and torques as recorded: no acceleration is computed, and
nothing is filtered that enters it. Noise levels come from a weighted regression of the same data.

Accelerations that follow from a noisy torque would be noisy factors of the inertias, which makes
these too large however long the log is. So points and tangents are taken under the torque that the
regression explains, and the rest of the measured one moves all of them alike: the first is an
instrument, as independent of the noise as the motion is.

A log of a controller that holds its torque tells torques half a control period too early. Without
any noise this is what limits the parameters: their error is proportional to that period.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from bodysense.errors import ShapeError, unknown_name
from bodysense.identification.filtering.body_model import BodyModel
from bodysense.identification.filtering.calibration import (
    correlation_times,
    filtered_uncertainty,
    innovation_level,
    scaled_factor,
    shown_by,
    start_factor,
    start_mean,
    trace,
)
from bodysense.identification.filtering.outcome import FilterOutcome, judged
from bodysense.identification.filtering.pieces import Torque
from bodysense.identification.filtering.setup import body_model
from bodysense.identification.identification import Identification, Identifier, Status
from bodysense.identification.linear.least_squares import noise_levels
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.uncertainty import full_uncertainty
from bodysense.simulation.rollout import INTEGRATORS, Integrator
from bodysense.spatial.arrays import Array, read_only


@dataclass(frozen=True)
class FilterIdentifier(Identifier):
    """Base of the identifiers by filtering.

    Attributes:
        rate: samples that are looked at, at most so many a second [Hz]; torques in between count
            by their mean.
        spread: how far the robot file may be off: standard deviation in plausible sizes of the
            parameters.
        mass_spread: by what share the file's mass matrix may be off, in any posture of the log.
        drift: how far parameters may wander in the first second: standard deviation in their
            plausible sizes.
        annealing: time constant with which the drift, and doubts of the first samples, fade, in
            durations of all logs together.
        torque: ``measured``, or ``simulated`` by the controller of the actuator file from what it
            was told (q_des).
        integrator: of the dynamics between samples: ``euler``, ``rk2`` (midpoint) or ``rk4``.
        substeps: integration steps from one sample to the next, or in a control period if torques
            are simulated.
    """

    rate: float = 500.0
    spread: float = 0.3
    mass_spread: float = 0.2
    drift: float = 0.0
    annealing: float = 0.1
    torque: Torque = "measured"
    integrator: Integrator = "rk2"
    substeps: int = 1

    def __post_init__(self) -> None:
        for name in ("rate", "spread", "mass_spread", "annealing"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0.0):
                raise ShapeError(f"{name} is {value:g}: give a positive number.")
        if not (np.isfinite(self.drift) and self.drift >= 0.0):
            raise ShapeError(f"drift is {self.drift:g}: give zero or a positive number.")
        if self.torque not in ("measured", "simulated"):
            raise unknown_name("torque", self.torque, ("measured", "simulated"))
        if self.integrator not in INTEGRATORS:
            raise unknown_name("integrator", self.integrator, INTEGRATORS)
        if self.substeps < 1:
            raise ShapeError(f"substeps is {self.substeps}: give a whole number, at least one.")

    @abstractmethod
    def run(
        self, model: BodyModel, mean: Array, factor: Array, rng: np.random.Generator | None
    ) -> FilterOutcome:
        """Filter all samples, from a mean (n_x,) and a lower-triangular factor (n_x, n_x)."""

    def estimate(
        self, problem: Regression, prior: Prior, rng: np.random.Generator | None
    ) -> tuple[FilterOutcome, BodyModel]:
        """Filter and judge the result."""
        model = body_model(
            problem,
            prior,
            rate=self.rate,
            torque=self.torque,
            integrator=self.integrator,
            substeps=self.substeps,
            drift=self.drift,
            annealing=self.annealing,
        )
        first, note = start_mean(problem, prior)
        start = start_factor(
            problem,
            prior,
            first,
            shown_by(problem, prior),
            spread=self.spread,
            mass_spread=self.mass_spread,
        )
        mean, factor = model.start(start)
        mean[: prior.size_base.size] = (first - prior.theta_base) / prior.size_base
        outcome = judged(self.run(model, mean, factor, rng), problem, prior, start)
        if note:
            said = Status(outcome.status.ok, f"{outcome.status.message} {note}")
            outcome = replace(outcome, status=said)
        return outcome, model

    def theta(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Array:
        """(p,) the estimate alone."""
        prior = Prior.of(problem)
        outcome, _ = self.estimate(problem, prior, rng)
        return _theta(prior, outcome, shown_by(problem, prior))

    def fit(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Identification:
        """Identify."""
        prior = Prior.of(problem)
        outcome, model = self.estimate(problem, prior, rng)
        shown = shown_by(problem, prior)
        theta = _theta(prior, outcome, shown)
        times = correlation_times(outcome, model, problem.n_logs)
        believed = outcome
        if not outcome.status.ok:  # a filter that failed has no covariance: as unsure as before
            believed = replace(outcome, root=self.spread * scaled_factor(prior))
        uncertainty = filtered_uncertainty(
            prior,
            believed,
            shown,
            spread=self.spread,
            level=innovation_level(outcome, model),
            correlation_time=times,
        )
        sigma, resolution, base_resolution = full_uncertainty(prior, uncertainty)
        return Identification(
            method=self.name,
            prior=problem.robot,
            base=problem.base,
            theta=read_only(theta),
            covariance=read_only(uncertainty.covariance),
            sigma=read_only(sigma),
            resolution=read_only(resolution),
            base_resolution=read_only(base_resolution),
            noise=read_only(noise_levels(problem, prior.to_base(theta))),
            correlation_time=read_only(times),
            status=outcome.status,
            trace=trace(outcome),
        )


def _theta(prior: Prior, outcome: FilterOutcome, shown: tuple[Array, Array]) -> Array:
    """(p,) all parameters behind the filter's; what no motion shows stays as it was."""
    seen, hidden = shown
    moved = solve_triangular(prior.base_factor, prior.size_base * outcome.mean, lower=True)
    if hidden.size:
        moved = seen @ (seen.T @ moved)
    return prior.untouched(prior.complete(prior.theta_base + prior.base_factor @ moved))
