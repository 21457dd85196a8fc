"""Joint identification of state and parameters by a cloud of particles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bodysense.errors import ShapeError
from bodysense.identification.filtering.body_model import BodyModel
from bodysense.identification.filtering.filter_identifier import FilterIdentifier
from bodysense.identification.filtering.outcome import SURPRISED, Outcome, sentence
from bodysense.identification.identification import Status
from bodysense.kalman.particle import ParticleFilter, run_particles
from bodysense.spatial.arrays import Array

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
    ) -> Outcome:
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
        outcome = Outcome(
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
