"""Which sensors of a setup serve where positions are estimated too, and which joints lack one.

Encoders and gyroscopes are readings here like all others. A recorded position that the setup has no
encoder for is one with a usual noise. Accelerations that would have come from differences of
positions are left out: they are a part of the state, and would count the encoders twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bodysense.estimation.map_dynamics.estimation_setup import EstimationSetup
from bodysense.estimation.map_dynamics.log.listing import listing
from bodysense.robot.robot import Robot
from bodysense.robot.sensors.covariance import variances
from bodysense.robot.sensors.encoder import Encoder
from bodysense.robot.sensors.joint_acceleration import JointAcceleration
from bodysense.robot.sensors.sensor import Sensor
from bodysense.signals.raw_log import RawLog

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
