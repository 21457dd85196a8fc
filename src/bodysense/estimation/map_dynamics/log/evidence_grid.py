"""`EvidenceGrid`: evidence that a recording has about links, at samples whose noise is independent.

They are half a period of the cut-off apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d

from bodysense.estimation.contact.detector import (
    WINDOWS,
    Scales,
)
from bodysense.estimation.contact.evidence import Evidence
from bodysense.estimation.friction_spread import coulomb_friction
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.model_error import fitted_variance, reversal
from bodysense.estimation.map_dynamics.log.reading_noise import ReadingNoise
from bodysense.estimation.map_dynamics.log.recording import Recording
from bodysense.estimation.map_dynamics.log.torque_noise import innovations, torque_sensors
from bodysense.estimation.map_dynamics.priors import GaussianPrior
from bodysense.robot.dynamics import inverse_dynamics, mass_matrix
from bodysense.sensors.motion_sensors import JointAcceleration, JointTorque
from bodysense.spatial.arrays import Array

_SHARE = 1e-7  # of a prior's variance that links have while each is looked at by itself
_LOOKS = 60  # samples at which it is seen which links are in contact most of the time
_HELD = 0.2  # of a static friction: by how much more it may be than is known


def open_links(problem: MapDynamics) -> tuple[str, ...]:
    """Links whose external wrench is not assumed to be known."""
    links = [problem.tree.names[i] for i in problem.tree.with_unknowns]
    return tuple(x for x in links if problem.assumptions.wrench_of(x).covariance.any())


@dataclass(frozen=True, eq=False)
class EvidenceGrid:
    """Samples of a recording that are as far apart as its filter remembers."""

    problem: MapDynamics
    recording: Recording
    noise: ReadingNoise
    gravity: Array | None
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    step: int

    @classmethod
    def of(cls, problem: MapDynamics, recording: Recording, gravity: Array | None) -> EvidenceGrid:
        noise = recording.noise
        assert noise is not None  # which the caller has asked for
        step = max(1, round(noise.rate / (2.0 * noise.cutoff)))
        ends = [*recording.starts[1:], recording.t.size]
        parts = [np.arange(a, b, step) for a, b in zip(recording.starts, ends, strict=True)]
        starts = np.cumsum([0, *(part.size for part in parts[:-1])])
        rows = np.concatenate(parts)
        return cls(problem, recording, noise, gravity, rows, starts, step)

    @property
    def period(self) -> float:
        """Between samples [s]."""
        return self.step / self.noise.rate

    def scales(
        self,
        tested: tuple[str, ...],
        lasting: tuple[str, ...],
        noise: ReadingNoise,
        *,
        beyond_friction: bool = False,
    ) -> Scales:
        """Evidence of all windows about the tested links, while others that last are open."""
        readings = self.recording.readings[self.rows]
        windows = [1, *(w for w in WINDOWS if w * 4 <= self.rows.size)]
        at = self.rows
        evidence = {
            w: self.evidence(
                tested,
                lasting,
                *(
                    self.beyond_friction(readings, noise.part(at).scale(w, self.step), at)
                    if beyond_friction
                    else (readings, noise.part(at).scale(w, self.step))
                ),
                at,
            ).averaged(self.starts, w)
            for w in windows
        }
        return Scales(evidence, self.starts, self.period)

    def evidence(
        self,
        tested: tuple[str, ...],
        lasting: tuple[str, ...],
        readings: Array,
        scale: Mapping[str, Array],
        at: NDArray[np.int64],
    ) -> Evidence:
        """Of single samples."""
        assumptions, r = self.problem.assumptions, self.recording
        nothing = GaussianPrior.zero(6)
        wrenches = dict.fromkeys(open_links(self.problem), nothing)
        for link in lasting:
            wrenches[link] = assumptions.wrench_of(link)
        for link in tested:
            prior = assumptions.wrench_of(link)
            wrenches[link] = GaussianPrior(prior.mean, _SHARE * prior.covariance)
        known = replace(assumptions, wrench=nothing, wrenches=wrenches)
        result = self.problem.with_assumptions(known).estimate(
            r.q[at],
            r.dq[at],
            readings,
            base_twist=None if r.base_twist is None else r.base_twist[at],
            gravity=self.gravity,
            noise_scale=scale,
            detail="blocks",
        )
        priors = {link: assumptions.wrench_of(link) for link in tested}
        return Evidence.from_posteriors(
            r.t[at],
            {link: prior.covariance for link, prior in priors.items()},
            {link: result[f"fx.{link}"] - prior.mean for link, prior in priors.items()},
            {link: result.covariance(f"fx.{link}") for link in tested},
            share=_SHARE,
        )

    def beyond_friction(
        self, readings: Array, scale: Mapping[str, Array], at: NDArray[np.int64]
    ) -> tuple[Array, dict[str, Array]]:
        """Readings and noise scales without what friction may hold of joints that stand.

        Whatever the innovation of a drive is up to its static friction, friction may be all of it;
        what is beyond is none. For a Gaussian the one would be as little surprising as the other.
        """
        sensors = [s for s in torque_sensors(self.problem) if s.side == "drive"]
        robot, result, adjusted = self.problem.robot, dict(scale), readings.copy()
        standing = {s.name: self.noise.standing[at, s.joint_index(robot)] for s in sensors}
        if not any(mask.any() for mask in standing.values()):
            return readings, result
        r = self.recording
        inn = innovations(self.problem, r.q[at], r.dq[at], readings, self.gravity)
        names = [s.name for s in torque_sensors(self.problem)]
        for sensor in sensors:
            mask = standing[sensor.name].astype(bool)
            stated = float(np.sqrt(sensor.covariance[0, 0]))
            held = np.sqrt(3.0) * stated * self.noise.lasting[sensor.name][at]
            excess = np.clip(inn[:, names.index(sensor.name)], -held, held)
            place = self.problem.layout.slices[sensor.name].start
            adjusted[mask, place] -= excess[mask]
            known = (1.0 - 3.0 * _HELD**2) * self.noise.lasting[sensor.name][at] ** 2
            left = np.sqrt(np.maximum(scale[sensor.name] ** 2 - known, 0.0))
            result[sensor.name] = np.where(mask, left, scale[sensor.name])
        return adjusted, result

    def model_error(
        self, noise: ReadingNoise, quiet: NDArray[np.bool_], kept: float = 1.0
    ) -> dict[str, Array]:
        """By torque sensor, (T,) standard deviation at all samples of what the model leaves.

        In stated deviations; as seen at quiet samples of the grid, or a share `kept` of them.
        """
        sensors = torque_sensors(self.problem)
        if not sensors or quiet.sum() < _LOOKS:
            return {}
        r, at = self.recording, self.rows[quiet]
        squares = innovations(self.problem, r.q[at], r.dq[at], r.readings[at], self.gravity) ** 2
        own = self._expected(sensors, noise.part(at).scale(), at)
        result = {}
        for k, sensor in enumerate(sensors):
            features = self._features(sensor)
            moves = ~noise.standing[at, sensor.joint_index(self.problem.robot)].astype(bool)
            c = fitted_variance(squares[moves, k], own[moves, k], features[at][moves], kept)
            stated = float(np.sqrt(sensor.covariance[0, 0]))
            if c.any() and stated:
                result[sensor.name] = np.sqrt(features @ c) / stated
        return result

    @cached_property
    def _torques(self) -> tuple[Array, Array, Array]:
        """(T, n) torques without acceleration, those of acceleration, and how fast both change.

        Of the latter two the largest sizes within the memory of the filter.
        """
        robot, r = self.problem.robot, self.recording
        load = inverse_dynamics(robot, r.q, r.dq, np.zeros_like(r.dq))
        inertial, rate = np.zeros_like(load), np.zeros_like(load)
        for first, last in pairwise([*r.starts, r.t.size]):
            part = slice(first, last)
            a = np.gradient(r.dq[part], r.t[part], axis=0)
            torque = inverse_dynamics(robot, r.q[part], r.dq[part], a) - load[part]
            change = np.gradient(torque + load[part], r.t[part], axis=0)
            reach = 2 * self.step + 1
            inertial[part] = maximum_filter1d(np.abs(torque), reach, axis=0)
            rate[part] = maximum_filter1d(np.abs(change), reach, axis=0)
        return load, inertial, rate

    def _features(self, sensor: JointTorque) -> Array:
        """(T, k) of all samples: see `model_error`."""
        robot, r = self.problem.robot, self.recording
        j = sensor.joint_index(robot)
        v = r.dq[:, j]
        load, inertial, rate = (torques[:, j] for torques in self._torques)
        friction = coulomb_friction(robot)[j] if sensor.side == "drive" else 0.0
        near = np.where(r.noise.standing[:, j], 0.0, reversal(v, friction)) if r.noise else v
        columns = [np.ones_like(v), v, load, inertial, rate, near]
        return np.stack(columns, axis=1) ** 2

    def _expected(
        self, sensors: tuple[JointTorque, ...], scale: Mapping[str, Array], at: NDArray[np.int64]
    ) -> Array:
        """(T, k) variances of innovations: of the sensors, and of accelerations by the masses."""
        robot = self.problem.robot
        M2 = mass_matrix(robot, self.recording.q[at]) ** 2
        S = np.zeros((at.size, robot.n_joints))
        for sensor in self.problem.sensors:
            if isinstance(sensor, JointAcceleration):
                S[:, sensor.joint_index(robot)] = sensor.covariance[0, 0] * scale[sensor.name] ** 2
        own = np.stack([s.covariance[0, 0] * scale[s.name] ** 2 for s in sensors], axis=1)
        joints = [sensor.joint_index(robot) for sensor in sensors]
        variances: Array = own + np.einsum("tjk,tk->tj", M2[:, joints], S)
        return variances
