"""A log as an estimator of the state takes it: readings as recorded, and nothing filtered.

A row without any position is as good as others here, and a reading that did not come is absent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import UnusableLogError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.plausibility import (
    doubtful_positions,
    doubtful_readings,
)
from bodysense.estimation.map_dynamics.log.recording import (
    Recording,
    listing,
    pieces,
    sensor_readings,
    usable_times,
)
from bodysense.estimation.map_dynamics.setup import EstimationSetup
from bodysense.logs.log import RawLog
from bodysense.robot.robot import Robot
from bodysense.sensors.inertial_sensors import Orientation
from bodysense.sensors.joint_sensors import Encoder, JointAcceleration
from bodysense.sensors.sensor import Sensor, variances
from bodysense.spatial.arrays import Array


def state_recording(problem: MapDynamics, log: RawLog) -> Recording:
    """Collect readings; positions are those of encoders, NaN elsewhere, velocities all NaN.

    Raises:
        MismatchError: channels are missing or in other units, as in the log of another robot.
        UnusableLogError: nothing is left of the log.
    """
    kept, counts = usable_times(log.t)
    counts["that cannot be read"] = len(log.faults)
    rows = np.flatnonzero(kept)
    readings = sensor_readings(problem, log, rows, np.zeros((rows.size, 0)))
    stretches = pieces(log.t[rows])
    if not stretches or not np.isfinite(readings).any():
        raise UnusableLogError(
            f"{log.source}: no two rows have times that ascend and readings of the sensors: check "
            "the layout."
        )
    q = np.full((rows.size, problem.robot.n_joints), np.nan)
    for sensor in problem.sensors:
        if isinstance(sensor, Encoder):
            where = problem.layout.slices[sensor.name]
            q[:, sensor.joint_index(problem.robot)] = readings[:, where.start]
    notes = doubtful_positions(problem, np.where(np.isfinite(q), q, 0.0))
    notes += doubtful_readings(problem, readings)
    notes += _no_rotations(problem, log, rows, readings)
    return Recording(
        t=log.t[rows],
        q=q,
        dq=np.full_like(q, np.nan),
        readings=readings,
        base_twist=None,
        starts=tuple(piece.start for piece in stretches),
        counts={reason: n for reason, n in counts.items() if n},
        notes=(*log.notes, *notes),
    )


def _no_rotations(
    problem: MapDynamics, log: RawLog, rows: NDArray[np.int64], readings: Array
) -> list[str]:
    """Quaternions that were recorded and are none."""
    notes = []
    for sensor in problem.sensors:
        if not isinstance(sensor, Orientation) or not sensor.channels:
            continue
        columns = [log.channels[name][rows] for name in sensor.channels]
        recorded = np.isfinite(columns).all(axis=0)
        read = np.isfinite(readings[:, problem.layout.slices[sensor.name]]).all(axis=1)
        bad = int(recorded.sum()) - int(read.sum())
        if read.any() and bad > 0.01 * recorded.size:
            notes.append(
                f"{bad} quaternions of {sensor.who} have a length far from 1 and are left out: are "
                "its channels x, y, z, w?"
            )
    return notes


# Which sensors of a setup serve where positions are estimated too, and which joints lack one.
#
# Encoders and gyroscopes are readings here like all others. A recorded position that the setup has
# no encoder for is one with a usual noise. Accelerations that would have come from differences of
# positions are left out: they are a part of the state, and would count the encoders twice.

ENCODER_STD = 1e-3
"""rad or m, of recorded positions whose noise nobody has told."""


class StateSensors(NamedTuple):
    """Sensors of the state and the dynamics.

    Attributes:
        sensors: those that are used.
        unmeasured: joints without a recorded position.
        notes: what was decided.
    """

    sensors: tuple[Sensor, ...]
    unmeasured: tuple[str, ...]
    notes: tuple[str, ...]


def unmeasured_joints(setup: EstimationSetup, robot: Robot, log: RawLog) -> tuple[str, ...]:
    """Joints of which the log holds no position at all."""
    channel = {joint: f"q.{joint}" for joint in robot.joint_names}
    for sensor in setup.sensors:
        if isinstance(sensor, Encoder) and sensor.channels:
            channel[sensor.joint] = sensor.channels[0]
    return tuple(joint for joint, name in channel.items() if not _recorded(log, name))


def state_sensors(setup: EstimationSetup, robot: Robot, log: RawLog) -> StateSensors:
    """Choose the sensors for a log."""
    missing = unmeasured_joints(setup, robot, log)
    kept: list[Sensor] = []
    differences: list[str] = []
    for sensor in setup.sensors:
        if isinstance(sensor, Encoder) and sensor.joint in missing:
            continue
        if isinstance(sensor, JointAcceleration) and not _all_there(sensor, log):
            differences.append(sensor.name)
            continue
        kept.append(sensor)
    notes = []
    if differences:
        notes.append(
            f"{listing(differences, 4)}: no channel, and not used: accelerations are estimated "
            "with the positions"
        )
    told = {sensor.joint for sensor in kept if isinstance(sensor, Encoder)}
    implied = [j for j in robot.joint_names if j not in told and j not in missing]
    if implied:
        notes.append(
            f"positions of {listing(implied, 4)} are taken with a std of {ENCODER_STD:g}: give "
            "encoders in the sensors file to say how good they are"
        )
    taken = {sensor.name for sensor in kept}
    kept += [_encoder(joint, taken) for joint in implied]
    return StateSensors(tuple(kept), missing, tuple(notes))


def _recorded(log: RawLog, channel: str) -> bool:
    return channel in log.channels and bool(np.isfinite(log.channels[channel]).any())


def _all_there(sensor: Sensor, log: RawLog) -> bool:
    return all(name in log.channels for name in sensor.channels)


def _encoder(joint: str, taken: set[str]) -> Encoder:
    name = f"encoder.{joint}"
    while name in taken:
        name += "'"
    return Encoder(name=name, joint=joint, covariance=variances(ENCODER_STD, 1))
