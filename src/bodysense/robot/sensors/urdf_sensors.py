"""Sensors that a URDF file carries, as robotology's iCub files and Gazebo's do.

Files say where a sensor is, not how well it measures (what Gazebo has under <noise> is the noise
to simulate): standard deviations are given here by kind, or typical ones are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from types import MappingProxyType
from typing import NamedTuple

from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, UnknownNameError, unknown_name
from bodysense.robot.reading import read_robot_file
from bodysense.robot.robot import Robot
from bodysense.robot.sensors.accelerometer import Accelerometer
from bodysense.robot.sensors.covariance import variances
from bodysense.robot.sensors.gyroscope import Gyroscope
from bodysense.robot.sensors.kinds import SENSORS
from bodysense.robot.sensors.mount import Mount
from bodysense.robot.sensors.mounting import mounted_sensors
from bodysense.robot.sensors.sensor import Sensor
from bodysense.robot.sensors.urdf_force_torque import urdf_force_torque
from bodysense.robot.sensors.urdf_sensor_tags import SensorTag, sensor_tags
from bodysense.robot.urdf_description import UrdfDescription, parse_urdf
from bodysense.robot.urdf_elements import listing
from bodysense.robot.urdf_numbers import UrdfReader
from bodysense.spatial.arrays import Array

TYPICAL_STD: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "gyroscope": (0.005,) * 3,
        "accelerometer": (0.05,) * 3,
        "force_torque": (0.5,) * 3 + (0.02,) * 3,
    }
)
"""Standard deviations of a sensor in good order: rad/s and m/s² of a micromechanical IMU at 100 Hz
to 1 kHz, N and N·m of a strain-gauge sensor as large as a wrist."""

_TYPES = {
    "gyroscope": ("gyroscope",),
    "accelerometer": ("accelerometer",),
    "imu": ("gyroscope", "accelerometer"),
    "force_torque": ("force_torque",),
}
_IMU_NAMES = {"gyroscope": "gyro", "accelerometer": "acc"}  # as logs call their channels


class UrdfSensors(NamedTuple):
    """Sensors of a file, and what was left out or renamed, in words."""

    sensors: tuple[Sensor, ...]
    notes: tuple[str, ...]


def urdf_sensors(
    source: str | PathLike[str] | bytes,
    robot: Robot,
    *,
    std: Mapping[str, ArrayLike] | None = None,
) -> UrdfSensors:
    """Read the sensors of a URDF file for the robot that it describes.

    Accelerometers, gyroscopes and force/torque sensors become sensors of that name; an IMU becomes
    "gyro.<name>" and "acc.<name>". Everything else is left out with a note.

    Args:
        source: path or bytes of the file; of a loaded robot, `robot.source.data`.
        robot: loaded from it.
        std: standard deviations by kind, one number or one a reading, before `TYPICAL_STD`.

    Raises:
        RobotFileError: the file or a tag cannot be understood, or names a missing joint or link.
        UnknownNameError: a kind in `std` that files do not have.
    """
    for kind in std or {}:
        if kind not in TYPICAL_STD:
            raise unknown_name("kind of sensor in URDF files", kind, TYPICAL_STD)
    deviations: dict[str, ArrayLike] = {**TYPICAL_STD, **(std or {})}
    covariances = {
        kind: variances(value, len(SENSORS[kind].components), f"std of {kind}")
        for kind, value in deviations.items()
    }
    where = f"the URDF of {robot.name!r}" if isinstance(source, bytes) else str(source)
    data = source if isinstance(source, bytes) else read_robot_file(source)
    description, read = parse_urdf(data, where), UrdfReader(where)
    sensors: dict[str, Sensor] = {}
    at_joint: dict[str, str] = {}
    notes: list[str] = []
    foreign: dict[str, list[str]] = {}
    for tag in sensor_tags(description.document, read):
        if tag.type not in _TYPES:
            foreign.setdefault(tag.type, []).append(tag.name)
            continue
        reason = _unknown_place(tag, description, read)
        if tag.type == "force_torque" and tag.joint in at_joint:
            reason = f"joint {tag.joint!r} has {at_joint[tag.joint]!r} already"
        found: tuple[Sensor, ...] = ()
        try:
            if not reason:
                found = mounted_sensors(robot, _sensors(tag, robot, description, covariances))
        except (MismatchError, UnknownNameError) as error:
            reason = str(error)
        if reason:
            notes.append(f"sensor {tag.name!r} of line {tag.element.line} is left out: {reason}")
        elif tag.type == "force_torque":
            at_joint[tag.joint] = tag.name
        for sensor in found:
            name = sensor.name
            if name in sensors:  # files may call an accelerometer and a gyroscope the same
                name = f"{name}.{sensor.kind}.{tag.element.line}"
                notes.append(f"a second sensor {sensor.name!r} is called {name!r}")
            sensors[name] = replace(sensor, name=name, channels=())
    for kind, names in foreign.items():
        what = f"of type {kind!r}" if kind else "without a type"
        notes.append(f"sensors {what} are left out: {listing(names)}")
    return UrdfSensors(tuple(sensors.values()), tuple(notes))


def _unknown_place(tag: SensorTag, description: UrdfDescription, read: UrdfReader) -> str:
    """Why the file has no such place; beside the links, a wrong name is an error."""
    what = "joint" if tag.type == "force_torque" else "link"
    name = tag.joint if what == "joint" else tag.link
    known = list(description.joints if what == "joint" else description.links)
    if name in known:
        return ""
    missing = f"{what} {name!r} does not exist" if name else f"it has no parent {what}"
    if not tag.gazebo:
        read.fail(tag.element, f"{missing}; {what}s are {listing(known)}.")
    return missing


def _sensors(
    tag: SensorTag, robot: Robot, description: UrdfDescription, covariances: Mapping[str, Array]
) -> list[Sensor]:
    if tag.type == "force_torque":
        return [urdf_force_torque(tag, robot, description, covariances["force_torque"])]
    mount = Mount.of(tag.link, tag.xyz, tag.rpy)
    sensors: list[Sensor] = []
    for kind in _TYPES[tag.type]:
        name = f"{_IMU_NAMES[kind]}.{tag.name}" if tag.type == "imu" else tag.name
        cls = Gyroscope if kind == "gyroscope" else Accelerometer
        sensors.append(cls(name=name, covariance=covariances[kind], mount=mount))
    return sensors
