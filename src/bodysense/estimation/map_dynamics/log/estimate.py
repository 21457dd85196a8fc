"""`LogEstimate`: the dynamics during a recording, sample by sample, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from bodysense.errors import ShapeError
from bodysense.estimation.map_dynamics.consistency import SensorConsistency, consistency
from bodysense.estimation.map_dynamics.estimator import Detail, MapDynamics
from bodysense.estimation.map_dynamics.log.recording import Recording
from bodysense.estimation.map_dynamics.noise import Biases, thinned
from bodysense.estimation.map_dynamics.setup import EstimationSetup
from bodysense.estimation.map_dynamics.solution import Samples
from bodysense.estimation.posterior import NamedSlices, Posterior
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, as_array

# `ConsideredParameters`: what errors of the robot's parameters do to the estimates.
#
# An identified robot is known up to a covariance Sigma = Σ s_k s_kᵀ of its parameters. Estimates
# d(y; theta) are computed with the parameters as they are, and their uncertainty is widened by what
# one standard deviation in each direction would change (a *considered* uncertainty: readings are
# not used to correct the parameters),
#
#     Cov(d) = Cov(d | theta) + Σ_k (d(theta + s_k) - d(theta)) (…)ᵀ.


@dataclass(frozen=True, eq=False)
class ConsideredParameters:
    """Estimators of robots that are one standard deviation away.

    Attributes:
        problems: one per direction.
    """

    problems: tuple[MapDynamics, ...]

    @classmethod
    def from_robot(
        cls, setup: EstimationSetup, robot: Robot, directions: Array
    ) -> ConsideredParameters:
        """Build the estimators.

        Args:
            setup: sensors and priors.
            robot: as identified.
            directions: (r, n_parameters) changes of robot.theta, one standard deviation each, whose
                outer products add up to the covariance.
        """
        steps = as_array(directions, (None, robot.theta.size), "directions")
        if not np.isfinite(steps).all():
            raise ShapeError("the covariance of the parameters is not finite: identify anew.")
        robots = [robot.with_parameters(robot.theta + step) for step in steps if step.any()]
        return cls(tuple(setup.problem(other) for other in robots))

    def variance(self, mean: Array, solve: Callable[[MapDynamics], Array]) -> Array:
        """What is added to the variances of means (T, size).

        Args:
            mean: with the parameters as they are.
            solve: the means with another estimator.
        """
        added = np.zeros_like(mean)
        for problem in self.problems:
            added += (solve(problem) - mean) ** 2
        return added


def directions_of(covariance: Array, places: Array, size: int) -> Array:
    """Directions (r, size) of a covariance (b, b) of the parameters at some places of theta."""
    values, vectors = np.linalg.eigh(covariance)
    some = values > 1e-12 * values.max(initial=0.0)
    steps = np.zeros((int(some.sum()), size))
    steps[:, np.asarray(places, dtype=np.int64)] = (vectors[:, some] * np.sqrt(values[some])).T
    return steps


_CHUNK = 1000
"""Samples that are solved together: with all covariances of a humanoid some 200 MB."""


class RecordedMotion(NamedTuple):
    """Positions and velocities (T, n_joints), and the twist (T, 6) of a root that floats."""

    q: Array
    dq: Array
    base_twist: Array | None


class LogChunk(NamedTuple):
    """Samples in a row.

    Attributes:
        first: place of the first of them in the recording.
        t: (T,) times [s].
        posterior: of these samples.
        consistency: of the sensors, if it was asked for.
        motion: at these samples, as recorded or as estimated.
        troubles: times [s] of samples that were not solved well, and why.
    """

    first: int
    t: Array
    posterior: Posterior
    consistency: SensorConsistency | None
    motion: RecordedMotion
    troubles: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class LogEstimate:
    """The estimates of a log, computed as they are asked for.

    Attributes:
        setup: sensors and priors.
        problem: the estimator.
        recording: its samples.
        parameters: what errors of the robot's parameters do, if that is to be considered.
    """

    setup: EstimationSetup
    problem: MapDynamics
    recording: Recording
    parameters: ConsideredParameters | None = None

    def __repr__(self) -> str:
        return f"<LogEstimate: {self.summary()}>"

    @property
    def t(self) -> Array:
        """(T,) times [s]."""
        return self.recording.t

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know."""
        unused = [
            f"{sensor.who} is not used: it tells about positions, which the log has"
            for sensor in self.setup.unused
        ]
        return (*self.setup.notes, *unused, *self.recording.notes)

    @property
    def variables(self) -> NamedSlices:
        """Names ↔ slices of what is estimated."""
        return self.problem.variables

    @property
    def considers_parameters(self) -> bool:
        """Whether errors of the robot's parameters widen the bands."""
        return self.parameters is not None

    def summary(self) -> str:
        """The recording and the problem in a line."""
        t, r = self.recording.t, self.recording
        left = f"; left out: {r.left_out}" if r.left_out else ""
        return (
            f"{t.size} samples over {t[-1] - t[0]:.4g} s, {len(self.problem.sensors)} sensors with "
            f"{self.problem.layout.size} readings, {self.variables.size} unknowns{left}"
        )

    def chunks(
        self, samples: int = _CHUNK, *, detail: Detail = "variances", judge: bool = False
    ) -> Iterator[LogChunk]:
        """Solve the log, so many samples at a time.

        Args:
            samples: in a chunk.
            detail: how much to compute.
            judge: whether to hold sensors against each other as well.
        """
        for first in range(0, self.t.size, samples):
            where = slice(first, min(first + samples, self.t.size))
            posterior = self._solved(where, detail)
            judged = None
            if judge:
                here = self.samples(where)
                with threadpool_limits(1, "blas"):  # matrices so small that threads only wait
                    judged = consistency(self.log_problem, here, biases=self._biases)
            r = self.recording
            motion = RecordedMotion(r.q[where], r.dq[where], self._twist(where))
            yield LogChunk(first, self.t[where], posterior, judged, motion)

    def posterior(self, *, detail: Detail = "variances") -> Posterior:
        """All samples at once: for logs that fit into memory."""
        return self._solved(slice(0, self.t.size), detail)

    @cached_property
    def log_problem(self) -> MapDynamics:
        """The estimator for `consistency` and `estimate_covariances`: sensors keep their biases."""
        if all(sensor.bias_sigma is None for sensor in self.setup.used):
            return self.problem
        return self.setup.problem_of_log(self.problem.robot)

    def samples(self, where: slice = slice(None)) -> Samples:
        """Samples of the log, for `log_problem`; by default all."""
        r = self.recording
        return self.log_problem.samples(
            r.q[where],
            r.dq[where],
            r.readings[where],
            base_twist=self._twist(where),
            gravity=self.setup.gravity,
        )

    def _solved(self, where: slice, detail: Detail) -> Posterior:
        result = self._with(self.problem, where, detail)
        if self.parameters is None or result.variance is None:
            return result
        added = self.parameters.variance(
            result.mean, lambda other: self._with(other, where, "means").mean
        )
        blocks = {
            name: block + _diagonal(added[:, result.variables[name]])
            for name, block in result.blocks.items()
        }
        return replace(result, variance=result.variance + added, blocks=blocks)

    def _with(self, problem: MapDynamics, where: slice, detail: Detail) -> Posterior:
        r = self.recording
        return problem.estimate(
            r.q[where],
            r.dq[where],
            r.readings[where],
            base_twist=self._twist(where),
            gravity=self.setup.gravity,
            detail=detail,
        )

    @cached_property
    def _biases(self) -> Biases | None:
        """Of the sensors, from samples all over the log."""
        return Biases.of(self.log_problem, thinned(self.log_problem, self.samples(), _CHUNK))

    def _twist(self, where: slice) -> Array | None:
        twist = self.recording.base_twist
        return None if twist is None else twist[where]


def _diagonal(values: Array) -> Array:
    """(T, k, k) from (T, k)."""
    return values[:, :, None] * np.eye(values.shape[1])
