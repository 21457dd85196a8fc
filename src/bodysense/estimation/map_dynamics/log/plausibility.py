"""Units that cannot be right, seen in the readings themselves.

An accelerometer at rest reads 9.81 m/s² whatever its direction; joints stay within their limits;
a gyroscope of a robot on a fixed base turns as the joints say. A reading that is off by the ratio
of two usual units is most likely in the other one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.sensors.inertial_sensors import Accelerometer, Gyroscope
from bodysense.sensors.joint_sensors import JointTorque, JointVelocity
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

_GRAVITY = 9.81
_ACCELERATIONS = {"g": 1.0 / _GRAVITY, "cm/s²": 100.0, "mm/s²": 1000.0}
_SPEEDS = {"deg/s": 180.0 / np.pi, "rpm": 60.0 / (2.0 * np.pi), "rev/s": 1.0 / (2.0 * np.pi)}
_NEAR = 1.25  # factor within which a reading is what another unit would give
_BEYOND = 3.0  # times a position limit: limits in files are rough
_ANY_ANGLE = 8.0 * np.pi  # where there is no limit
_EFFORT = 10.0  # times an effort limit
_MOMENTS = 200  # enough to see a unit
_SLOW = 0.02  # rad/s: below, there is nothing to compare with


def doubtful_units(problem: MapDynamics, q: Array, dq: Array, readings: Array) -> list[str]:
    """Warnings by name, with the remedy; see `Recording` for the arguments."""
    some = _some(q.shape[0])
    notes = doubtful_positions(problem, q) + doubtful_readings(problem, readings)
    return notes + _speeds(problem, q[some], dq[some], readings[some])


def doubtful_readings(problem: MapDynamics, readings: Array) -> list[str]:
    """Those warnings for which positions need not be known."""
    notes: list[str] = []
    for sensor in problem.sensors:
        y = readings[:, problem.layout.slices[sensor.name]]
        y = y[np.isfinite(y).all(axis=1)]
        if not len(y):
            notes.append(f"{sensor.who} has no reading at all in this log: is its channel dead?")
            continue
        y = y[_some(len(y))]
        if isinstance(sensor, Accelerometer):
            ratio = float(np.median(np.linalg.norm(y, axis=1))) / _GRAVITY
            seen = f"its median is {ratio * _GRAVITY:.3g}, where 9.81 m/s² is expected"
            notes += _other_unit(sensor, ratio, _ACCELERATIONS, seen)
        elif isinstance(sensor, JointTorque):
            notes += _torque(problem, sensor, y)
    return notes


def _some(T: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, T - 1, min(T, _MOMENTS)).astype(np.int64))


def doubtful_positions(problem: MapDynamics, q: Array) -> list[str]:
    """Joints that seem to go far beyond their limits."""
    robot = problem.robot
    lower, upper = robot.position_limits
    bound = np.maximum(np.abs(lower), np.abs(upper))
    bound = np.where(np.isfinite(bound), bound, _ANY_ANGLE)
    furthest = np.percentile(np.abs(q[_some(q.shape[0])]), 99.0, axis=0)
    slides = np.array([kind == "prismatic" for kind in robot.joint_types], dtype=bool)
    beyond = np.flatnonzero(~slides & (furthest > _BEYOND * bound))
    return [
        f"q.{robot.joint_names[j]} reaches {furthest[j]:.4g} rad, and its limit is {bound[j]:.3g}: "
        "is it in degrees? Write `unit: deg` for it into the layout file"
        for j in beyond
    ]


def _torque(problem: MapDynamics, sensor: JointTorque, y: Array) -> list[str]:
    limit = float(problem.robot.effort_limit[sensor.joint_index(problem.robot)])
    most = float(np.percentile(np.abs(y), 99.0))
    if not np.isfinite(limit) or limit <= 0.0 or most <= _EFFORT * limit:
        return []
    return [
        f"{sensor.who} reads up to {most:.4g}, {most / limit:.3g} times what the joint can do: "
        "correct its unit or gain in the layout file"
    ]


def _speeds(problem: MapDynamics, q: Array, dq: Array, readings: Array) -> list[str]:
    """Gyroscopes and velocities against the motion of the joints, on a root that stands."""
    compared = [s for s in problem.sensors if isinstance(s, Gyroscope | JointVelocity)]
    if problem.tree.floating or not compared:
        return []
    robot_only = problem.with_sensors(compared)
    places = [np.arange(readings.shape[1])[problem.layout.slices[s.name]] for s in compared]
    y = readings[:, np.concatenate(places)]
    result = robot_only.estimate(q, dq, y, gravity=np.zeros(3), detail="means")
    notes = []
    for sensor in compared:
        residual = result.residual[sensor.name]
        good = np.isfinite(residual).all(axis=1)
        read = y[:, robot_only.layout.slices[sensor.name]][good]
        expected = read - residual[good]
        size = float(np.sqrt(np.mean(expected**2))) if expected.size else 0.0
        if size < _SLOW:
            continue
        ratio = float(np.sum(read * expected) / np.sum(expected**2))
        seen = f"it reads {ratio:.3g} times what the joints do"
        notes += _other_unit(sensor, ratio, _SPEEDS, seen)
    return notes


def _other_unit(sensor: Sensor, ratio: float, units: Mapping[str, float], seen: str) -> list[str]:
    return [
        f"{sensor.who} looks as if it were in {unit}: {seen}. Write `unit: {unit}` for its "
        "channels into the layout file"
        for unit, factor in units.items()
        if factor / _NEAR < ratio < factor * _NEAR
    ]
