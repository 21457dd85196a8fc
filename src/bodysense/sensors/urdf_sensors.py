"""Sensors that a URDF file carries, as robotology's iCub files and Gazebo's do.

Files say where a sensor is, not how well it measures (what Gazebo has under <noise> is the noise
to simulate): standard deviations are given here by kind, or typical ones are taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, UnknownNameError, unknown_name
from bodysense.files import read_robot_file
from bodysense.robot.io.urdf_elements import UrdfDescription, UrdfJoint, listing, parse_urdf
from bodysense.robot.io.urdf_xml import Document, Element, UrdfReader
from bodysense.robot.model import check_sensors
from bodysense.robot.robot import Robot
from bodysense.sensors.inertial_sensors import Accelerometer, Gyroscope
from bodysense.sensors.sensor import Mount, Sensor, variances
from bodysense.sensors.sensor_file import SENSORS
from bodysense.sensors.wrench_sensors import ForceTorque
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import transform_pi

# <sensor> tags of a URDF file, read and checked, in the two dialects that robots carry.
#
# Robotology's, beside the links:
#
#     <sensor name="…" type="force_torque | accelerometer | gyroscope">
#       <parent joint="…"/> or <parent link="…"/>
#       <origin xyz="…" rpy="…"/>
#       <force_torque>
#         <frame>child | parent | sensor</frame>
#         <measure_direction>parent_to_child | child_to_parent</measure_direction>
#       </force_torque>
#     </sensor>
#
# Gazebo's, the same in <gazebo reference="joint or link">, with <pose>x y z roll pitch yaw</pose>
# for an origin. What <force_torque> leaves out is child and child_to_parent, as Gazebo has it.

FRAMES = ("child", "parent", "sensor")
DIRECTIONS = ("child_to_parent", "parent_to_child")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, eq=False)
class SensorTag:
    """One <sensor>.

    Attributes:
        name: of the sensor.
        type: as the file has it, "" where it has none.
        element: for messages.
        gazebo: whether it stands in a <gazebo>.
        joint: that it is at, "" if it is on a link.
        link: that it is on, "" if it is at a joint; for Gazebo both are the reference.
        xyz: (3,) origin [m].
        rpy: (3,) roll, pitch, yaw of the origin [rad].
        frame: in which a wrench is given, one of `FRAMES`.
        direction: of the wrench, one of `DIRECTIONS`.
    """

    name: str
    type: str
    element: Element
    gazebo: bool
    joint: str
    link: str
    xyz: Array
    rpy: Array
    frame: str
    direction: str


def sensor_tags(document: Document, read: UrdfReader) -> list[SensorTag]:
    """All tags of a file, robotology's first.

    Raises:
        RobotFileError: a tag that cannot be understood.
    """
    root = document.root
    tags = [_tag(sensor, "", document, read) for sensor in root.all("sensor")]
    for gazebo in root.all("gazebo"):
        reference = gazebo.attributes.get("reference", "")
        tags += [_tag(sensor, reference, document, read) for sensor in gazebo.all("sensor")]
    return tags


def _tag(sensor: Element, reference: str, document: Document, read: UrdfReader) -> SensorTag:
    joint = link = reference
    parent = read.only_child(sensor, "parent")
    if parent is not None and not reference:
        joint, link = (parent.attributes.get(key, "").strip() for key in ("joint", "link"))
    xyz, rpy = read.origin(sensor, sensor)
    pose = read.only_child(sensor, "pose")
    if pose is not None:
        xyz, rpy = _pose(pose, sensor, document, read)
    wrench = read.only_child(sensor, "force_torque")
    choices = {"frame": FRAMES, "measure_direction": DIRECTIONS}
    chosen = {key: options[0] for key, options in choices.items()}
    for key, options in choices.items():
        element = None if wrench is None else read.only_child(wrench, key, sensor)
        if element is not None:
            chosen[key] = _text(element, document)
            if chosen[key] not in options:
                read.fail(
                    element, f"{chosen[key]!r} is none of {', '.join(options)}; choose one.", sensor
                )
    return SensorTag(
        name=read.name(sensor),
        type=sensor.attributes.get("type", "").strip(),
        element=sensor,
        gazebo=bool(reference),
        joint=joint,
        link=link,
        xyz=xyz,
        rpy=rpy,
        frame=chosen["frame"],
        direction=chosen["measure_direction"],
    )


def _pose(
    pose: Element, sensor: Element, document: Document, read: UrdfReader
) -> tuple[Array, Array]:
    words = _text(pose, document).split()
    try:
        six = np.array([float(word) for word in words])
    except ValueError:
        six = np.full(6, np.nan)
    if six.shape != (6,) or not np.isfinite(six).all():
        read.fail(pose, "expected six numbers: x y z roll pitch yaw.", sensor)
    return six[:3], six[3:]


def _text(element: Element, document: Document) -> str:
    """What stands between the tags of an element, without comments."""
    return _COMMENT.sub("", document.text[element.inner : element.close].decode("utf-8")).strip()


# A force/torque sensor that a URDF file puts at a joint, moving or fixed.
#
# On a moving joint the sensor reads what the joint transmits. A fixed joint is inside a link of the
# robot, which is made of all bodies on fixed joints: the bodies between the moving joint and the
# sensor are the sub-link of `ForceTorque`.


def urdf_force_torque(
    tag: SensorTag, robot: Robot, description: UrdfDescription, covariance: Array
) -> ForceTorque:
    """Place the sensor of a tag on a robot.

    Raises:
        MismatchError: the sensor reads something that no single joint transmits.
    """
    joint = description.joints[tag.joint]
    mount = Mount(joint.parent) if tag.frame == "parent" else Mount(joint.child)
    if tag.frame == "sensor":
        mount = Mount.from_xyz_rpy(joint.child, tag.xyz, tag.rpy)
    on_child = tag.direction == "parent_to_child"
    if joint.name in robot.joint_names:
        on_mount = on_child == (tag.frame != "parent")
        return ForceTorque(
            name=tag.name,
            covariance=covariance,
            joint=joint.name,
            mount=mount,
            sign=1 if on_mount else -1,
        )
    return ForceTorque(
        name=tag.name,
        covariance=covariance,
        mount=mount,
        sign=1 if on_child else -1,
        sub_link=_before(joint, robot, description),
    )


def _before(joint: UrdfJoint, robot: Robot, description: UrdfDescription) -> Array | None:
    """(10,) parameters of the bodies of the link that come before a fixed joint."""
    carrier = {other.child: other for other in description.joints.values()}
    first = joint.parent
    while first in carrier and carrier[first].name not in robot.joint_names:
        first = carrier[first].parent
    if first not in carrier:
        raise MismatchError(
            f"joint {joint.name!r} is fixed to the base, which no joint moves, so that no joint "
            "transmits what the sensor reads"
        )
    beyond = {name for name, _ in description.merged(joint.child)} | {joint.child}
    bodies = {first: np.eye(4)}
    bodies |= {name: T.homogeneous for name, T in description.merged(first) if name not in beyond}
    others = [
        other.name
        for other in description.joints.values()
        if other.name in robot.joint_names and other.parent in bodies
    ]
    if others:
        raise MismatchError(
            f"joint {joint.name!r} shares its link with {', '.join(others)}, which hang before it, "
            "so that no single joint transmits what the sensor reads"
        )
    pi = np.zeros(10)
    for name, T_link_body in bodies.items():
        inertial = description.links[name].inertial
        if inertial is not None:
            pi += transform_pi(inertial.pi, T_link_body)
    return pi if pi.any() else None


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
        result: tuple[Sensor, ...] = ()
        try:
            if not reason:
                result = check_sensors(robot, _sensors(tag, robot, description, covariances))
        except (MismatchError, UnknownNameError) as error:
            reason = str(error)
        if reason:
            notes.append(f"sensor {tag.name!r} of line {tag.element.line} is left out: {reason}")
        elif tag.type == "force_torque":
            at_joint[tag.joint] = tag.name
        for sensor in result:
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
    mount = Mount.from_xyz_rpy(tag.link, tag.xyz, tag.rpy)
    sensors: list[Sensor] = []
    for kind in _TYPES[tag.type]:
        name = f"{_IMU_NAMES[kind]}.{tag.name}" if tag.type == "imu" else tag.name
        cls = Gyroscope if kind == "gyroscope" else Accelerometer
        sensors.append(cls(name=name, covariance=covariances[kind], mount=mount))
    return sensors
