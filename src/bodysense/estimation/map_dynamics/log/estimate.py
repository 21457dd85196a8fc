"""`LogEstimate`: the dynamics during a recording, sample by sample, in bounded memory.

An identified robot is known up to a covariance Sigma = Σ s_k s_kᵀ of its parameters. Estimates
d(y; theta) are computed with the parameters as they are, and their uncertainty is widened by what
one standard deviation in each direction would change (a *considered* uncertainty: readings are
not used to correct the parameters),

    Cov(d) = Cov(d | theta) + Σ_k (d(theta + s_k) - d(theta)) (…)ᵀ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from bodysense.errors import listing
from bodysense.estimation.contact.detector import DetectionSettings
from bodysense.estimation.map_dynamics.consistency import SensorConsistency, consistency
from bodysense.estimation.map_dynamics.estimator import Detail, MapDynamics
from bodysense.estimation.map_dynamics.log.contacts import LogContacts
from bodysense.estimation.map_dynamics.log.reading_noise import ReadingNoise
from bodysense.estimation.map_dynamics.log.recording import Recording
from bodysense.estimation.map_dynamics.noise import Biases, thinned
from bodysense.estimation.map_dynamics.setup import EstimationSetup
from bodysense.estimation.map_dynamics.solution import Samples
from bodysense.estimation.posterior import NamedSlices, Posterior
from bodysense.spatial.arrays import Array

_CHUNK = 1000
"""Samples that are solved together: with all covariances of a humanoid some 200 MB."""


_WIDENED = 2.0  # times its noise that what the model leaves of a torque is worth a note
_LEAST_NOISE = 1e-2  # of a stated standard deviation, if its bias takes all of the rest


def bias_sizes(setup: EstimationSetup) -> dict[str, float]:
    """By sensor that has any, root mean square of the standard deviations of its biases."""
    return {
        s.name: float(np.sqrt(np.mean(s.bias_sigma**2)))
        for s in setup.used
        if s.bias_sigma is not None
    }


class LogChunk(NamedTuple):
    """Samples in a row.

    Attributes:
        first: place of the first of them in the recording.
        t: (T,) times [s].
        q: (T, n_joints) positions, as recorded or as estimated.
        dq: (T, n_joints) velocities alike.
        base_twist: (T, 6) alike, of a root that floats; else `None`.
        posterior: of these samples.
        consistency: of the sensors, if it was asked for.
        troubles: times [s] of samples that were not solved well, and why.
    """

    first: int
    t: Array
    q: Array
    dq: Array
    base_twist: Array | None
    posterior: Posterior
    consistency: SensorConsistency | None
    troubles: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class LogEstimate:
    """The estimates of a log, computed as they are asked for.

    Attributes:
        setup: sensors and priors.
        problem: the estimator.
        recording: its samples.
        perturbed: estimators of robots one standard deviation of the parameters away, one per
            direction; `None`: errors of the parameters are not considered.
        detection: when a contact is one.
        found: contacts; `None` where they follow from the estimates themselves.
    """

    setup: EstimationSetup
    problem: MapDynamics
    recording: Recording
    perturbed: tuple[MapDynamics, ...] | None = None
    detection: DetectionSettings = field(default_factory=DetectionSettings)
    found: LogContacts | None = None

    def __repr__(self) -> str:
        return f"<LogEstimate: {self.summary()}>"

    @property
    def t(self) -> Array:
        """(T,) times [s]."""
        return self.recording.t

    @property
    def notes(self) -> tuple[str, ...]:
        unused = [
            f"{sensor.who} is not used: it tells about positions, which the log has"
            for sensor in self.setup.unused
        ]
        locked = self.problem.robot.locked
        still = [] if locked is None else [f"taken as standing still: {locked.summary()}"]
        return (*self.setup.notes, *still, *unused, *self.recording.notes, *self._widened())

    def _widened(self) -> list[str]:
        """Where residuals are larger than the noise explains, and the bands are made as wide."""
        before, after = self.recording.noise, self._noise
        if before is None or after is None or after is before:
            return []
        old, new = before.scale(), after.scale()
        ratio = {name: float(np.median(new[name] / old[name])) for name in old}
        large = {name: r for name, r in ratio.items() if r > _WIDENED}
        if not large:
            return []
        named = listing([f"{name} {r:.2g}" for name, r in sorted(large.items())], 6)
        return [
            f"torques differ from those of the model by more than their noise ({named} times): the "
            "bands are as much wider. Identify the robot, or look for friction, a load, a zero or "
            "a gain that its file does not have"
        ]

    @property
    def variables(self) -> NamedSlices:
        return self.problem.variables

    @property
    def considers_parameters(self) -> bool:
        """Whether errors of the robot's parameters widen the bands."""
        return self.perturbed is not None

    def summary(self) -> str:
        """The recording and the problem in a line."""
        t, r = self.recording.t, self.recording
        left = f"; left out: {r.left_out}" if r.left_out else ""
        return (
            f"{t.size} samples over {t[-1] - t[0]:.4g} s, {len(self.problem.sensors)} sensors with "
            f"{self.problem.layout.size} readings, {self.variables.size} estimated quantities{left}"
        )

    def chunks(
        self, samples: int = _CHUNK, *, detail: Detail = "variances", judge: bool = False
    ) -> Iterator[LogChunk]:
        """Solve the log, so many samples at a time; `judge` holds sensors against each other."""
        for first in range(0, self.t.size, samples):
            where = slice(first, min(first + samples, self.t.size))
            posterior, judged = self._solved(where, detail), None
            if judge:
                here = self.samples(where)
                with threadpool_limits(1, "blas"):  # matrices so small that threads only wait
                    judged = consistency(self.log_problem, here, biases=self._biases)
            given = self._inputs(where)
            motion = given["q"], given["dq"], given["base_twist"]
            yield LogChunk(first, self.t[where], *motion, posterior, judged)

    def posterior(self, *, detail: Detail = "variances") -> Posterior:
        """All samples at once: for logs that fit into memory."""
        return self._solved(slice(0, self.t.size), detail)

    @cached_property
    def log_problem(self) -> MapDynamics:
        """The estimator for `consistency` and `estimate_covariances`: sensors keep their biases."""
        if all(sensor.bias_sigma is None for sensor in self.setup.used):
            return self.problem
        return self.problem.with_sensors(self.setup.log_sensors)

    def samples(self, where: slice = slice(None)) -> Samples:
        """Samples of the log, for `log_problem`; by default all.

        With the noise that sensors are said to have and that is seen: what the model leaves beside
        is what they are held against.
        """
        inputs, noise = self._inputs(where), self.recording.noise
        if noise is not None:
            inputs["noise_scale"] = self._without_biases(noise.part(where).scale())
        return self.log_problem.samples(**inputs)

    def _without_biases(self, scale: Mapping[str, Array]) -> dict[str, Array]:
        """Noise scales of `log_problem`, whose covariances do not hold the biases."""
        known = {sensor.name: sensor for sensor in self.problem.sensors}
        biases, result = bias_sizes(self.setup), dict(scale)
        for sensor in self.log_problem.sensors:
            if sensor.bias_sigma is not None and sensor.name in scale:
                whole = np.trace(known[sensor.name].covariance) / sensor.size
                own = np.trace(sensor.covariance) / sensor.size
                left = scale[sensor.name] ** 2 * whole - biases[sensor.name] ** 2
                result[sensor.name] = np.sqrt(np.maximum(left, _LEAST_NOISE**2 * own) / own)
        return result

    def _inputs(self, where: slice) -> dict[str, Any]:
        r = self.recording
        return {
            "q": r.q[where],
            "dq": r.dq[where],
            "readings": r.readings[where],
            "base_twist": None if r.base_twist is None else r.base_twist[where],
            "gravity": self.setup.gravity,
            "noise_scale": None if self._noise is None else self._noise.part(where).scale(),
        }

    def _solved(self, where: slice, detail: Detail) -> Posterior:
        inputs = self._inputs(where)
        result = self.problem.estimate(**inputs, detail=detail)
        if self.perturbed is None or result.variance is None:
            return result
        added = np.zeros_like(result.mean)
        for problem in self.perturbed:
            added += (problem.estimate(**inputs, detail="means").mean - result.mean) ** 2
        blocks = {
            name: block + added[:, result.variables[name], None] * np.eye(block.shape[-1])
            for name, block in result.blocks.items()
        }
        return replace(result, variance=result.variance + added, blocks=blocks)

    @cached_property
    def _noise(self) -> ReadingNoise | None:
        """Of the readings, as large as the log shows where nothing touches."""
        seen = None if self.found is None else self.found.noise
        return self.recording.noise if seen is None else seen

    @cached_property
    def _biases(self) -> Biases | None:
        """Of the sensors, from samples all over the log."""
        return Biases.of(self.log_problem, thinned(self.log_problem, self.samples(), _CHUNK))
