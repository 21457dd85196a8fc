"""`LiveInputs`: which channels of a stream an estimator takes, and how."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import MismatchError
from bodysense.estimation.map_dynamics.base_motion import root_twist
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.recording import position_channels
from bodysense.estimation.map_dynamics.setup import EstimationSetup
from bodysense.logs.live import StreamFaults
from bodysense.sensors.motion_sensors import Encoder, Gyroscope, JointAcceleration
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

_TURN = 6.5  # rad: positions beyond this and beyond their limits by
_BEYOND = 1.0  # rad are rather in degrees


class LiveInputs:
    """Channels of an estimator.

    Attributes:
        positions: channel of the position of each joint.
        others: channels of velocities and of readings.
        channels: of readings alone.
        derivable: channels that positions can stand for: velocities, and accelerations of joints.
        velocities: (n,) places of the channels of velocities among `positions` and `others`.
        derivable_places: places of `derivable`.
        encoder_std: (n,) of the noise of positions [rad or m]; `None` if it is not stated of all.
    """

    def __init__(self, problem: MapDynamics, setup: EstimationSetup) -> None:
        robot = problem.robot
        self.problem, self.gravity, self._feet = problem, setup.gravity, setup.standing
        self.positions = tuple(position_channels(robot, setup.sensors).values())
        speeds = [f"v.{joint}" for joint in robot.joint_names]
        self.channels = tuple(c for sensor in problem.sensors for c in sensor.channels)
        self.others = tuple(dict.fromkeys((*speeds, *self.channels)))
        place = {c: k for k, c in enumerate(dict.fromkeys((*self.positions, *self.others)))}
        self.velocities = np.array([place[c] for c in speeds], dtype=np.int64)
        accelerations = [s for s in problem.sensors if isinstance(s, JointAcceleration)]
        self.derivable = {*speeds, *(c for s in accelerations for c in s.channels)}
        self.derivable_places = np.array([place[c] for c in self.derivable], dtype=np.int64)
        self._others: list[tuple[slice, Sensor, NDArray[np.int64]]] = []
        rows, columns = list[int](), list[int]()
        for sensor in problem.sensors:
            where = problem.layout.slices[sensor.name]
            here = [place[c] for c in sensor.channels]
            if sensor.constant is None:
                rows += range(where.start, where.stop)
                columns += here
            else:
                self._others.append((where, sensor, np.array(here, dtype=np.int64)))
        self._rows, self._columns = (np.array(p, dtype=np.int64) for p in (rows, columns))
        self._q, self._t = np.full((2, robot.n_joints), np.nan)
        self.encoder_std = _encoder_std(problem)
        self._floats = problem.tree.floating
        if self._floats and not any(isinstance(s, Gyroscope) for s in problem.sensors):
            raise MismatchError(
                f"{problem.tree.names[0]!r} floats, and no gyroscope measures how it turns: give "
                "one in the sensors file, or fix the root with --fixed."
            )

    def forget(self) -> None:
        """Forget the last positions."""
        self._t[:] = np.nan

    def motion(self, t: float, values: Array, *, derives: bool) -> tuple[Array, Array]:
        """(n,) positions and velocities; these are differences of positions where they are missing.

        Differences are not taken unless the stream `derives` what its source does not have.
        """
        q, dq = values[: len(self.positions)], values[self.velocities]
        if derives:
            there = np.isfinite(q)
            missing = there & np.isnan(dq)
            dq[missing] = (q[missing] - self._q[missing]) / (t - self._t[missing])
            self._q[there], self._t[there] = q[there], t
        return q, dq

    def readings(self, values: Array) -> Array:
        """(m,) readings from channels."""
        y = np.full(self.problem.layout.size, np.nan)
        y[self._rows] = values[self._columns]
        for where, sensor, places in self._others:
            y[where] = sensor.reading(values[places])
        return y

    def base_twist(self, q: Array, dq: Array, y: Array) -> Array | None:
        """(6,) of a floating root, from gyroscopes and feet that stand."""
        if not self._floats:
            return None
        result = root_twist(self.problem, q[None], dq[None], y[None], feet=self._feet)
        return np.where(result.known, result.mean[0], np.nan)

    def judge_positions(self, values: Array, faults: StreamFaults) -> None:
        """Name positions that are rather in degrees, among the values of all channels (n,)."""
        robot, q = self.problem.robot, values[: len(self.positions)]
        model, first = robot.model, robot.nq - robot.n_joints
        reach = np.maximum(abs(model.lowerPositionLimit), abs(model.upperPositionLimit))[first:]
        turning = np.array([kind != "prismatic" for kind in robot.joint_types])
        beyond = turning & (abs(q) > np.maximum(reach + _BEYOND, _TURN))
        if beyond.any():
            worst = int(np.argmax(np.where(beyond, abs(q), 0.0)))
            faults.report(
                "positions far beyond their limits",
                f"{self.positions[worst]} is {q[worst]:.4g} rad, far beyond its limit. Is it in "
                "degrees? Give a layout file with `channels: {q: {unit: deg}}` (--layout).",
            )


def _encoder_std(problem: MapDynamics) -> Array | None:
    encoders = {s.joint: s for s in problem.sensors if isinstance(s, Encoder)}
    joints = problem.robot.joint_names
    if not all(joint in encoders for joint in joints):
        return None
    return np.array([float(np.sqrt(encoders[joint].covariance[0, 0])) for joint in joints])
