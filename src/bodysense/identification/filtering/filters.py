"""Joint filtering by a Kalman filter of either form, optionally smoothed."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bodysense.errors import ShapeError
from bodysense.identification.filtering.body_model import BodyModel
from bodysense.identification.filtering.filter_identifier import FilterIdentifier
from bodysense.identification.filtering.outcome import SURPRISED, FilterOutcome, sentence
from bodysense.identification.identification import Status
from bodysense.kalman import filters
from bodysense.kalman.forms import StateFilter
from bodysense.kalman.particle import ParticleFilter, run_particles
from bodysense.kalman.run import run_filter, smooth
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class KalmanIdentifier(FilterIdentifier):
    """Base of the identifiers by Kalman filters; settings as in `FilterIdentifier`.

    Attributes:
        smooth: whether a Rauch-Tung-Striebel pass follows. Parameters that stay put are known
            best after the last sample anyway, so that it changes little; with a drift the result
            is the mean over time of what the parameters were, with the mean of their covariances.
    """

    smooth: bool = False

    @abstractmethod
    def state_filter(self) -> StateFilter[Any]:
        """The filter with its settings."""

    def run(
        self, model: BodyModel, mean: Array, factor: Array, rng: np.random.Generator | None
    ) -> FilterOutcome:
        """Filter all samples; nothing here is random."""
        starts = {k: start for k, start in model.starts.items() if k > 0}
        run = run_filter(
            self.state_filter(),
            model,
            mean,
            factor,
            model.y,
            keep_history=self.smooth,
            restarts=starts,
        )
        b = model.n_parameters
        p, root = run.belief.mean[:b], run.belief.factor[:b, :b]
        status = Status(run.ok, sentence(run.message))
        if run.ok and run.history is not None:
            smoothed = smooth(run.history)
            if smoothed.ok:
                p = smoothed.means[:, :b].mean(axis=0)
                root = _root(smoothed.covariances[:, :b, :b].mean(axis=0), root)
            else:
                status = Status(True, f"Not smoothed: {smoothed.message}")
        return FilterOutcome(
            mean=np.array(p),
            root=np.array(root),
            path=run.means[:, :b],
            innovations=run.innovations,
            nis=run.nis,
            status=status,
        )


def _root(covariance: Array, otherwise: Array) -> Array:
    """(b, b) lower-triangular root, or the other one where rounding has left none."""
    try:
        return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    except np.linalg.LinAlgError:
        return otherwise


# Joint identification of state and parameters by `bodysense.kalman.EKF`.


@dataclass(frozen=True)
class EKF(KalmanIdentifier):
    """Extended Kalman filter: the dynamics are replaced by their tangent, thesis C.1.

    Settings as in `KalmanIdentifier`.
    """

    name: ClassVar[str] = "ekf"
    about: ClassVar[str] = "joint state and parameter filter along the tangent of the dynamics"
    needs: ClassVar[str] = "a robot file that is roughly right"
    cost: ClassVar[str] = "one tangent and one update a sample, about as long as a regression"
    when: ClassVar[str] = "a quick second opinion that computes no accelerations"

    def state_filter(self) -> StateFilter[Any]:
        """The filter with these settings."""
        return filters.EKF()


# Joint identification of state and parameters by `bodysense.kalman.SREKF`.


@dataclass(frozen=True)
class SREKF(KalmanIdentifier):
    """Extended Kalman filter that carries the covariance's root: it cannot lose its sign.

    Settings as in `KalmanIdentifier`.
    """

    name: ClassVar[str] = "srekf"
    about: ClassVar[str] = "extended Kalman filter in square-root form"
    needs: ClassVar[str] = "a robot file that is roughly right"
    cost: ClassVar[str] = "as ekf"
    when: ClassVar[str] = "as ekf, where that one loses its covariance"

    def state_filter(self) -> StateFilter[Any]:
        """The filter with these settings."""
        return filters.SREKF()


# Joint identification of state and parameters by `bodysense.kalman.UKF`.


@dataclass(frozen=True)
class UKF(KalmanIdentifier):
    """Unscented Kalman filter: 2 n + 1 points are sent through the dynamics, thesis C.3.

    Settings as in `KalmanIdentifier`.

    Attributes:
        alpha: how far from the mean the points lie: α √(n + κ) standard deviations for n unknowns;
            the thesis has 0.01.
        beta: what is known of the distribution: 2 for a normal one.
        kappa: κ in the distance α √(n + κ) of the points from the mean; the thesis has 0.
    """

    alpha: float = 1e-2
    beta: float = 2.0
    kappa: float = 0.0

    name: ClassVar[str] = "ukf"
    about: ClassVar[str] = "joint state and parameter filter by sigma points"
    needs: ClassVar[str] = "a robot file that is roughly right"
    cost: ClassVar[str] = "two simulations a parameter and sample, several times ekf"
    when: ClassVar[str] = "priors further off than a tangent can tell"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.state_filter()  # which refuses settings that cannot be meant

    def state_filter(self) -> StateFilter[Any]:
        """The filter with these settings."""
        return filters.UKF(alpha=self.alpha, beta=self.beta, kappa=self.kappa)


# Joint identification of state and parameters by `bodysense.kalman.SRUKF`.


@dataclass(frozen=True)
class SRUKF(KalmanIdentifier):
    """Unscented Kalman filter that carries the covariance's root.

    Settings as in `KalmanIdentifier`.

    Attributes:
        alpha: how far from the mean the points lie: α √(n + κ) standard deviations for n unknowns;
            the thesis has 0.01.
        beta: what is known of the distribution: 2 for a normal one.
        kappa: κ in the distance α √(n + κ) of the points from the mean; the thesis has 0.
    """

    alpha: float = 1e-2
    beta: float = 2.0
    kappa: float = 0.0

    name: ClassVar[str] = "srukf"
    about: ClassVar[str] = "unscented Kalman filter in square-root form"
    needs: ClassVar[str] = "a robot file that is roughly right"
    cost: ClassVar[str] = "as ukf"
    when: ClassVar[str] = "as ukf, where that one loses its covariance"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.state_filter()  # which refuses settings that cannot be meant

    def state_filter(self) -> StateFilter[Any]:
        """The filter with these settings."""
        return filters.SRUKF(alpha=self.alpha, beta=self.beta, kappa=self.kappa)


# Joint identification of state and parameters by `bodysense.kalman.CDKF`.


@dataclass(frozen=True)
class CDKF(KalmanIdentifier):
    """Central difference Kalman filter: points further out than those of ukf, thesis C.5.

    Settings as in `KalmanIdentifier`.

    Attributes:
        h: how far from the mean the points lie, in standard deviations: √3 for normal ones.
    """

    h: float = math.sqrt(3.0)

    name: ClassVar[str] = "cdkf"
    about: ClassVar[str] = "joint state and parameter filter by central differences"
    needs: ClassVar[str] = "a robot file that is roughly right"
    cost: ClassVar[str] = "as ukf"
    when: ClassVar[str] = "as ukf, with one setting less"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.state_filter()  # which refuses settings that cannot be meant

    def state_filter(self) -> StateFilter[Any]:
        """The filter with these settings."""
        return filters.CDKF(h=self.h)


# Joint identification of state and parameters by `bodysense.kalman.SRCDKF`.


@dataclass(frozen=True)
class SRCDKF(KalmanIdentifier):
    """Central difference Kalman filter that carries the covariance's root.

    Settings as in `KalmanIdentifier`.

    Attributes:
        h: how far from the mean the points lie, in standard deviations: √3 for normal ones.
    """

    h: float = math.sqrt(3.0)

    name: ClassVar[str] = "srcdkf"
    about: ClassVar[str] = "central difference Kalman filter in square-root form"
    needs: ClassVar[str] = "a robot file that is roughly right"
    cost: ClassVar[str] = "as ukf"
    when: ClassVar[str] = "as cdkf, where that one loses its covariance"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.state_filter()  # which refuses settings that cannot be meant

    def state_filter(self) -> StateFilter[Any]:
        """The filter with these settings."""
        return filters.SRCDKF(h=self.h)


# Joint identification of state and parameters by a cloud of particles.

_LOST = (
    "The cloud of particles lost the motion. Take more particles, a larger blur or a smaller "
    "spread, or a Kalman filter such as srekf."
)


@dataclass(frozen=True)
class PF(FilterIdentifier):
    """Bootstrap particle filter, thesis section 2.2.8.

    Other settings are as in `FilterIdentifier`. Some fifty parameters are far too many for any
    number of particles that a computer can hold, as the thesis found too. Encoders are so exact
    that next to no particle would agree with one: so their noise is taken to be `blur` times as
    large, and the cloud must be narrow. Take the result for a rough one, and its intervals for too
    short.

    Attributes:
        particles: how many of them follow the motion.
        blur: by how many times the noise of the positions is enlarged when particles are weighed.
        seed: of the random numbers, unless a generator is given.
    """

    rate: float = 100.0
    spread: float = 0.1
    particles: int = 1000
    blur: float = 1000.0
    seed: int = 0

    name: ClassVar[str] = "pf"
    about: ClassVar[str] = "joint state and parameter filter by particles; rough"
    needs: ClassVar[str] = "a robot file that is nearly right"
    cost: ClassVar[str] = "a simulation for each of a thousand particles"
    when: ClassVar[str] = "one joint, or to see that particles do not do for more"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._filter()  # which refuses settings that cannot be meant
        if not (np.isfinite(self.blur) and self.blur >= 1.0):
            raise ShapeError(f"blur is {self.blur:g}: give a number, at least one.")

    def _filter(self) -> ParticleFilter:
        return ParticleFilter(particles=self.particles)

    def run(
        self, model: BodyModel, mean: Array, factor: Array, rng: np.random.Generator | None
    ) -> FilterOutcome:
        """Filter all samples with a cloud that `rng` draws."""
        run = run_particles(
            self._filter(),
            replace(model, sigma=self.blur * model.sigma),
            mean,
            factor,
            model.y,
            rng=rng if rng is not None else np.random.default_rng(self.seed),
            restarts={k: start for k, start in model.starts.items() if k > 0},
        )
        b = model.n_parameters
        outcome = FilterOutcome(
            mean=np.array(run.belief.mean[:b]),
            root=np.array(run.belief.factor[:b, :b]),
            path=run.means[:, :b],
            innovations=run.innovations,
            nis=run.nis,
            status=Status(run.ok, sentence(run.message)),
        )
        if run.ok and outcome.surprise <= SURPRISED:
            return outcome
        # What a few particles say of fifty parameters is nothing: the start is kept.
        said = outcome.status if not run.ok else Status(False, _LOST)
        return replace(outcome, mean=mean[:b].copy(), root=factor[:b, :b].copy(), status=said)
