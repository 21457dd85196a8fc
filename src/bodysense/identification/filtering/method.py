"""Joint filtering: parameters and state in one filter, thesis section 2.2.8.

The filter predicts positions from torques by the direct dynamics and corrects parameters and state
by what was measured. It takes positions and torques as recorded: no acceleration is computed, and
nothing is filtered that enters it. Noise levels come from a weighted regression of the same data.

Accelerations that follow from a noisy torque would be noisy factors of the inertias, which makes
these too large however long the log is. So points and tangents are taken under the torque that the
regression explains, and the rest of the measured one moves all of them alike: the first is an
instrument, as independent of the noise as the motion is.

A log of a controller that holds its torque has torques half a control period too early. Without
any noise this is what limits the parameters: their error is proportional to that period.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from bodysense.errors import ShapeError
from bodysense.identification.filtering.body_model import BodyModel, Torque
from bodysense.identification.filtering.calibration import (
    LARGEST_NIS,
    FilterOutcome,
    excited_directions,
    scaled_factor,
    start_factor,
    start_mean,
)
from bodysense.identification.filtering.noise import body_model
from bodysense.identification.identification import Identification, Status
from bodysense.identification.identifier import Identifier, require_settings
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.uncertainty import identification_with
from bodysense.kalman.filters import RootFilter, StateFilter
from bodysense.kalman.particle import ParticleFilter, run_particles
from bodysense.kalman.run import run_filter, smooth
from bodysense.simulation.rollout import INTEGRATORS, Integrator
from bodysense.spatial.arrays import Array

_LOST = (
    "The cloud of particles lost the motion. Take more particles, a larger blur or a smaller "
    "spread, or a Kalman filter such as srekf."
)


class _FilterEngine(ABC):
    """What filters all samples. Implementations are frozen dataclasses."""

    @abstractmethod
    def run(
        self, model: BodyModel, mean: Array, factor: Array, rng: np.random.Generator | None
    ) -> FilterOutcome:
        """Filter all samples, from a mean (n_x,) and a lower-triangular factor (n_x, n_x)."""


@dataclass(frozen=True)
class KalmanEngine(_FilterEngine):
    """A Kalman filter, optionally smoothed; nothing here is random.

    Attributes:
        smooth: whether a Rauch-Tung-Striebel pass follows. Parameters that stay put are known
            best after the last sample anyway, so that it changes little; with a drift the result
            is the mean over time of what the parameters were, with the mean of their covariances.
        filter: its kind and form.
    """

    smooth: bool = False
    filter: StateFilter[Any] = field(default_factory=RootFilter)

    def run(
        self, model: BodyModel, mean: Array, factor: Array, rng: np.random.Generator | None
    ) -> FilterOutcome:
        starts = {k: start for k, start in model.starts.items() if k > 0}
        run = run_filter(
            self.filter,
            model,
            mean,
            factor,
            model.y,
            keep_history=self.smooth,
            restarts=starts,
        )
        b = model.n_parameters
        outcome = FilterOutcome.from_run(run, b)
        if not run.ok or run.history is None:
            return outcome
        smoothed = smooth(run.history)
        if not smoothed.ok:
            return replace(outcome, status=Status(True, f"Not smoothed: {smoothed.message}"))
        root = _root(smoothed.covariances[:, :b, :b].mean(axis=0), outcome.root)
        return replace(outcome, mean=smoothed.means[:, :b].mean(axis=0), root=root)


@dataclass(frozen=True)
class ParticleEngine(_FilterEngine):
    """Bootstrap particle filter, thesis section 2.2.8.

    Some fifty parameters are far too many for any number of particles that a computer can hold, as
    the thesis found too. Encoders are so exact that next to no particle would agree with one: so
    their noise is taken to be `blur` times as large, and the cloud must be narrow. Take the result
    for a rough one, and its intervals for too short.

    Attributes:
        particles: how many of them follow the motion.
        blur: factor on the noise of the positions when particles are weighted.
        seed: of the random numbers, unless a generator is given.
    """

    particles: int = 1000
    blur: float = 1000.0
    seed: int = 0

    def __post_init__(self) -> None:
        ParticleFilter(particles=self.particles)  # refuses invalid settings
        if not (np.isfinite(self.blur) and self.blur >= 1.0):
            raise ShapeError(f"blur is {self.blur:g}: give a number, at least one.")

    def run(
        self, model: BodyModel, mean: Array, factor: Array, rng: np.random.Generator | None
    ) -> FilterOutcome:
        run = run_particles(
            ParticleFilter(particles=self.particles),
            replace(model, sigma=self.blur * model.sigma),
            mean,
            factor,
            model.y,
            rng=rng if rng is not None else np.random.default_rng(self.seed),
            restarts={k: start for k, start in model.starts.items() if k > 0},
        )
        b = model.n_parameters
        outcome = FilterOutcome.from_run(run, b)
        if run.ok and outcome.mean_nis <= LARGEST_NIS:
            return outcome
        # A few particles are no estimate of fifty parameters: the start is kept.
        status = outcome.status if not run.ok else Status(False, _LOST)
        return replace(outcome, mean=mean[:b].copy(), root=factor[:b, :b].copy(), status=status)


@dataclass(frozen=True)
class FilterMethod(Identifier):
    """Identification of parameters and motion by a filter.

    Attributes:
        name: of the method.
        rate: samples per second that are filtered, at most [Hz]; torques in between count by their
            mean.
        spread: standard deviation of the robot file's values, in plausible sizes of the
            parameters.
        mass_spread: relative error of the file's mass matrix, in any posture of the log.
        drift: standard deviation that parameters gain in the first second, in their plausible
            sizes.
        annealing: time constant with which the drift, and the process noise of the first samples,
            fade, in durations of all logs together.
        torque: ``measured``, or ``simulated`` by the controller of the actuator file from its
            reference (q_des).
        integrator: of the dynamics between samples: ``euler``, ``rk2`` (midpoint) or ``rk4``.
        substeps: integration steps from one sample to the next, or in a control period if torques
            are simulated.
        engine: the filter.
    """

    name: str
    rate: float = 500.0
    spread: float = 0.3
    mass_spread: float = 0.2
    drift: float = 0.0
    annealing: float = 0.1
    torque: Torque = "measured"
    integrator: Integrator = "rk2"
    substeps: int = 1
    engine: _FilterEngine = field(default_factory=KalmanEngine)

    def __post_init__(self) -> None:
        require_settings(
            self,
            positive=("rate", "spread", "mass_spread", "annealing"),
            not_negative=("drift",),
            counts=("substeps",),
            torque=("measured", "simulated"),
            integrator=INTEGRATORS,
        )

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
            excited_directions(problem, prior),
            spread=self.spread,
            mass_spread=self.mass_spread,
        )
        mean, factor = model.start(start)
        mean[: prior.size_base.size] = (first - prior.theta_base) / prior.size_base
        outcome = self.engine.run(model, mean, factor, rng).judged(problem, prior, start)
        if note:
            status = Status(outcome.status.ok, f"{outcome.status.message} {note}")
            outcome = replace(outcome, status=status)
        return outcome, model

    def theta(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Array:
        prior = Prior.of(problem)
        outcome, _ = self.estimate(problem, prior, rng)
        return _theta(prior, outcome, excited_directions(problem, prior))

    def fit(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Identification:
        prior = Prior.of(problem)
        outcome, model = self.estimate(problem, prior, rng)
        excited = excited_directions(problem, prior)
        theta = _theta(prior, outcome, excited)
        calibrated = outcome
        if not outcome.status.ok:  # a filter that failed has no covariance: the prior's
            calibrated = replace(outcome, root=self.spread * scaled_factor(prior))
        uncertainty = calibrated.uncertainty(
            prior,
            excited,
            spread=self.spread,
            level=outcome.innovation_level(model),
            correlation_time=outcome.correlation_times(model, problem.n_logs),
        )
        return identification_with(
            self.name, problem, prior, theta, uncertainty, outcome.status, outcome.trace()
        )


def _theta(prior: Prior, outcome: FilterOutcome, excited: tuple[Array, Array]) -> Array:
    """(p,) all parameters behind the filter's; what no motion excites stays as it was."""
    kept, unexcited = excited
    moved = solve_triangular(prior.base_factor, prior.size_base * outcome.mean, lower=True)
    if unexcited.size:
        moved = kept @ (kept.T @ moved)
    return prior.untouched(prior.complete(prior.theta_base + prior.base_factor @ moved))


def _root(covariance: Array, otherwise: Array) -> Array:
    """(b, b) lower-triangular root, or the other one where rounding has left none."""
    try:
        return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    except np.linalg.LinAlgError:
        return otherwise
