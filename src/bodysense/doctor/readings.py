"""Readings of sensors in another unit, as the readings themselves show.

An accelerometer at rest reads 9.81 m/s² whatever its direction, joints stay below their efforts,
and a gyroscope of a robot on a fixed base turns as the joints do. A reading that is off by the
ratio of two usual units is most likely in the other one. None of this is certain enough to refuse a
recording: all findings are warnings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bodysense.doctor.diagnosis import Finding
from bodysense.robot.robot import Robot
from bodysense.sensors.inertial_sensors import Accelerometer
from bodysense.sensors.joint_sensors import JointTorque
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

_GRAVITY = 9.81  # m/s²
# What a reading is in another unit, as a multiple of what it is in the right one.
_ACCELERATIONS = {"g": 1.0 / _GRAVITY, "cm/s²": 100.0, "mm/s²": 1000.0}
_SPEEDS = {"deg/s": 180.0 / np.pi, "rpm": 60.0 / (2.0 * np.pi), "rev/s": 1.0 / (2.0 * np.pi)}
_UNIT_TOLERANCE = 1.25  # factor within which a ratio is that of another unit
_MOST_EFFORT = 10.0  # times the effort limit of a joint, beyond which no torque is in N·m
_LEAST_SPEED = 0.02  # rad/s, rms: below, there is nothing to compare with
_SAMPLES = 200  # that are looked at: enough to see a unit
_MOST_BROKEN = 0.01  # share of quaternions that may be invalid without a finding


def sensor_findings(
    robot: Robot, sensors: Sequence[Sensor], readings: Mapping[str, Array]
) -> list[Finding]:
    """Sensors without any reading, or in another unit.

    Args:
        robot: that carries them.
        sensors: to look at.
        readings: (T, m) by sensor, NaN where there is none.
    """
    findings = []
    for sensor in sensors:
        y = readings[sensor.name]
        y = y[np.isfinite(y).all(axis=1)]
        if not len(y):
            findings.append(_dead(sensor))
            continue
        y = y[some_samples(len(y))]
        if isinstance(sensor, Accelerometer):
            ratio = float(np.median(np.linalg.norm(y, axis=1))) / _GRAVITY
            seen = f"its median is {ratio * _GRAVITY:.3g}, where 9.81 m/s² is expected"
            findings += _other_unit(sensor, ratio, _ACCELERATIONS, seen)
        elif isinstance(sensor, JointTorque):
            findings += _beyond_effort(robot, sensor, y)
    return findings


def speed_findings(sensor: Sensor, read: Array, expected: Array) -> list[Finding]:
    """A gyroscope or a joint velocity against what the joints do, (T, m) each."""
    good = np.isfinite(read - expected).all(axis=1)
    read, expected = read[good], expected[good]
    size = float(np.sqrt(np.mean(expected**2))) if expected.size else 0.0
    if size < _LEAST_SPEED:
        return []
    ratio = float(np.sum(read * expected) / np.sum(expected**2))
    seen = f"it reads {ratio:.3g} times what the joints do"
    return _other_unit(sensor, ratio, _SPEEDS, seen)


def quaternion_findings(sensor: Sensor, recorded: int, valid: int, rows: int) -> list[Finding]:
    """Recorded quaternions of which many are no rotation."""
    if not valid or recorded - valid <= _MOST_BROKEN * rows:
        return []
    return [
        Finding(
            "invalid-quaternion",
            "warning",
            sensor.who,
            f"{recorded - valid} quaternions have a length far from 1",
            "left out; check that its channels are x, y, z, w",
        )
    ]


def some_samples(T: int) -> Array:
    """Indices of a few of T samples, all over the recording."""
    return np.unique(np.linspace(0, T - 1, min(T, _SAMPLES)).astype(np.int64))


def _dead(sensor: Sensor) -> Finding:
    return Finding(
        "dead-channel",
        "warning",
        sensor.who,
        "it has no reading at all in this recording",
        "check its channels in the layout file",
    )


def _beyond_effort(robot: Robot, sensor: JointTorque, y: Array) -> list[Finding]:
    limit = float(robot.effort_limit[sensor.joint_index(robot)])
    most = float(np.percentile(np.abs(y), 99.0))
    if not np.isfinite(limit) or limit <= 0.0 or most <= _MOST_EFFORT * limit:
        return []
    return [
        Finding(
            "wrong-scale",
            "warning",
            sensor.who,
            f"it reads up to {most:.4g}, {most / limit:.3g} times the effort limit of the joint",
            "correct its unit or gain in the layout file",
        )
    ]


def _other_unit(
    sensor: Sensor, ratio: float, units: Mapping[str, float], seen: str
) -> list[Finding]:
    return [
        Finding(
            "sensor-unit",
            "warning",
            sensor.who,
            f"it looks as if it were in {unit}: {seen}",
            f"write `unit: {unit}` for its channels into the layout file",
        )
        for unit, factor in units.items()
        if factor / _UNIT_TOLERANCE < ratio < factor * _UNIT_TOLERANCE
    ]
