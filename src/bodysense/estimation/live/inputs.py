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
from bodysense.sensors.motion_sensors import Gyroscope, JointAcceleration
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
    """

    def __init__(self, problem: MapDynamics, setup: EstimationSetup) -> None:
        robot = problem.robot
        self.problem, self.gravity = problem, setup.gravity
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
        rows, columns, derived, joints = (list[int]() for _ in range(4))
        for sensor in problem.sensors:
            where = problem.layout.slices[sensor.name]
            here = [place[c] for c in sensor.channels]
            if sensor.constant is None:
                rows += range(where.start, where.stop)
                columns += here
                if isinstance(sensor, JointAcceleration):
                    derived.append(where.start)
                    joints.append(sensor.joint_index(robot))
            else:
                self._others.append((where, sensor, np.array(here, dtype=np.int64)))
        self._rows, self._columns, self._derived, self._joints = (
            np.array(places, dtype=np.int64) for places in (rows, columns, derived, joints)
        )
        self._floats = problem.tree.floating
        if self._floats and not any(isinstance(s, Gyroscope) for s in problem.sensors):
            raise MismatchError(
                f"{problem.tree.names[0]!r} floats, and no gyroscope measures how it turns: give "
                "one in the sensors file, or fix the root with --fixed."
            )

    def readings(self, values: Array, ddq: Array) -> Array:
        """(m,) readings from channels, and accelerations (n,) where these have no channel."""
        y = np.full(self.problem.layout.size, np.nan)
        y[self._rows] = values[self._columns]
        if self._derived.size:
            given = y[self._derived]
            y[self._derived] = np.where(np.isnan(given), ddq[self._joints], given)
        for where, sensor, places in self._others:
            y[where] = sensor.reading(values[places])
        return y

    def base_twist(self, q: Array, dq: Array, y: Array) -> Array | None:
        """(6,) of a floating root, from gyroscopes."""
        if not self._floats:
            return None
        result = root_twist(self.problem, q[None], dq[None], y[None])
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
