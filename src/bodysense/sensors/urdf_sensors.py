"""Sensors of a URDF file, as robotology's iCub files and Gazebo's carry them.

Robotology's stand beside the links:

    <sensor name="…" type="force_torque | accelerometer | gyroscope">
      <parent joint="…"/> or <parent link="…"/>
      <origin xyz="…" rpy="…"/>
      <force_torque>
        <frame>child | parent | sensor</frame>
        <measure_direction>parent_to_child | child_to_parent</measure_direction>
      </force_torque>
    </sensor>

Gazebo's are the same in <gazebo reference="joint or link">, with <pose>x y z roll pitch yaw</pose>
for an origin. What <force_torque> leaves out is child and child_to_parent, as in Gazebo.

Files say where a sensor is, not how well it measures (what Gazebo has under <noise> is the noise
to simulate): standard deviations are given here by kind, or typical ones are taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, UnknownNameError, listing, unknown_name
from bodysense.files import read_robot_file
from bodysense.robot.io.urdf_elements import UrdfDescription, UrdfJoint
from bodysense.robot.io.urdf_xml import Document, Element
from bodysense.robot.model import check_sensors
from bodysense.robot.robot import Robot, require_robot
from bodysense.sensors.motion_sensors import Accelerometer, Gyroscope
from bodysense.sensors.sensor import Mount, Sensor, variances
from bodysense.sensors.wrench_sensors import ForceTorque
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import transform_pi

_FRAMES = ("child", "parent", "sensor")
_DIRECTIONS = ("child_to_parent", "parent_to_child")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


class _SensorTag(NamedTuple):
    """One <sensor>; its parent is a joint if it reads wrenches, else a link, and "" if it has none.

    `frame` and `direction` are those of a wrench, `gazebo` says whether it stands in a <gazebo>.
    """

    name: str
    type: str
    element: Element
    gazebo: bool
    parent: str
    xyz: Array
    rpy: Array
    frame: str
    direction: str


def _sensor_tags(document: Document) -> list[_SensorTag]:
    """All tags of a file, robotology's first."""
    root = document.root
    tags = [_tag(sensor, "", document) for sensor in root.all("sensor")]
    for gazebo in root.all("gazebo"):
        reference = gazebo.attributes.get("reference", "")
        tags += [_tag(sensor, reference, document) for sensor in gazebo.all("sensor")]
    return tags


def _tag(sensor: Element, reference: str, document: Document) -> _SensorTag:
    kind = sensor.attributes.get("type", "").strip()
    parent, pose = sensor.only_child("parent"), sensor.only_child("pose")
    xyz, rpy = sensor.origin() if pose is None else _pose(pose, document)
    wrench = sensor.only_child("force_torque")
    chosen = []
    for key, options in (("frame", _FRAMES), ("measure_direction", _DIRECTIONS)):
        element = None if wrench is None else wrench.only_child(key)
        chosen.append(options[0] if element is None else _text(element, document))
        if element is not None and chosen[-1] not in options:
            element.fail(f"{chosen[-1]!r} is none of {', '.join(options)}; choose one.")
    place = reference
    if parent is not None and not reference:
        place = parent.attributes.get(_parent_kind(kind), "").strip()
    return _SensorTag(sensor.text("name"), kind, sensor, bool(reference), place, xyz, rpy, *chosen)


def _parent_kind(kind: str) -> str:
    return "joint" if kind == "force_torque" else "link"


def _pose(pose: Element, document: Document) -> tuple[Array, Array]:
    words = _text(pose, document).split()
    try:
        six = np.array([float(word) for word in words])
    except ValueError:
        six = np.full(6, np.nan)
    if six.shape != (6,) or not np.isfinite(six).all():
        pose.fail("expected six numbers: x y z roll pitch yaw.")
    return six[:3], six[3:]


def _text(element: Element, document: Document) -> str:
    """What stands between the tags of an element, without comments."""
    return _COMMENT.sub("", document.text[element.inner : element.close].decode("utf-8")).strip()


def _force_torque(
    tag: _SensorTag, robot: Robot, description: UrdfDescription, covariance: Array
) -> ForceTorque:
    """Place the sensor of a tag on a robot.

    On a moving joint the sensor reads what the joint transmits. A fixed joint is inside a link of
    the robot, which is made of all bodies on fixed joints: the bodies between the moving joint and
    the sensor are the sub-link of `ForceTorque`.

    Raises:
        MismatchError: the sensor reads something that no single joint transmits.
    """
    joint = description.joints[tag.parent]
    mount = Mount(joint.parent) if tag.frame == "parent" else Mount(joint.child)
    if tag.frame == "sensor":
        mount = Mount.from_xyz_rpy(joint.child, tag.xyz, tag.rpy)
    moving = joint.name in robot.joint_names
    on_child = tag.direction == "parent_to_child"
    on_mount = on_child == (tag.frame != "parent") if moving else on_child
    return ForceTorque(
        name=tag.name,
        covariance=covariance,
        joint=joint.name if moving else None,
        mount=mount,
        sign=1 if on_mount else -1,
        sub_link=None if moving else _sub_link(joint, robot, description),
    )


def _sub_link(joint: UrdfJoint, robot: Robot, description: UrdfDescription) -> Array | None:
    """(10,) parameters of the bodies of the link that come before a fixed joint."""
    first = _first_body(joint, robot, description)
    beyond = {name for name, _ in description.merged(joint.child)} | {joint.child}
    bodies = {first: np.eye(4)}
    bodies |= {name: T.homogeneous for name, T in description.merged(first) if name not in beyond}
    moving = [description.joints[name] for name in robot.joint_names]
    others = [other.name for other in moving if other.parent in bodies]
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


def _first_body(joint: UrdfJoint, robot: Robot, description: UrdfDescription) -> str:
    """The body of the link that its moving joint carries."""
    carrier = {other.child: other for other in description.joints.values()}
    body = joint.parent
    while body in carrier and carrier[body].name not in robot.joint_names:
        body = carrier[body].parent
    if body not in carrier:
        raise MismatchError(
            f"joint {joint.name!r} is fixed to the base, which no joint moves, so that no joint "
            "transmits what the sensor reads"
        )
    return body


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
    source: str | PathLike[str] | bytes, robot: Robot, *, std: Mapping[str, ArrayLike] | None = None
) -> UrdfSensors:
    """Read the sensors of a URDF file for the robot that it describes.

    Accelerometers, gyroscopes and force/torque sensors become sensors of that name; an IMU becomes
    "gyro.<name>" and "acc.<name>". Everything else is left out with a note.

    Args:
        source: path or bytes of the file; of a loaded robot, `robot.source.data`.
        robot: loaded from it.
        std: standard deviations by kind, one number or one per reading, before `TYPICAL_STD`.

    Raises:
        RobotFileError: the file or a tag is invalid, or names a missing joint or link.
        UnknownNameError: a kind in `std` that files do not have.
    """
    require_robot(robot)
    covariances = _covariances(std or {})
    if isinstance(source, bytes):
        where, data = f"the URDF of {robot.name!r}", source
    else:
        where, data = str(source), read_robot_file(source)
    description = UrdfDescription.from_bytes(data, where)
    sensors: dict[str, Sensor] = {}
    at_joint: dict[str, str] = {}
    notes: list[str] = []
    foreign: dict[str, list[str]] = {}
    for tag in _sensor_tags(description.document):
        if tag.type not in _TYPES:
            foreign.setdefault(tag.type, []).append(tag.name)
            continue
        try:
            _require_place(tag, description)
            if tag.type == "force_torque" and tag.parent in at_joint:
                raise MismatchError(f"joint {tag.parent!r} has {at_joint[tag.parent]!r} already")
            tagged = check_sensors(robot, _sensors(tag, robot, description, covariances))
        except (MismatchError, UnknownNameError) as error:
            notes.append(f"sensor {tag.name!r} of line {tag.element.line} is left out: {error}")
            continue
        if tag.type == "force_torque":
            at_joint[tag.parent] = tag.name
        for sensor in tagged:
            name = sensor.name
            if name in sensors:  # files may call an accelerometer and a gyroscope the same
                name = f"{name}.{sensor.kind}.{tag.element.line}"
                notes.append(f"a second sensor {sensor.name!r} is called {name!r}")
            sensors[name] = replace(sensor, name=name, channels=())
    for kind, names in foreign.items():
        what = f"of type {kind!r}" if kind else "without a type"
        notes.append(f"sensors {what} are left out: {listing(map(repr, names))}")
    return UrdfSensors(tuple(sensors.values()), tuple(notes))


def _covariances(std: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """(m, m) by kind, from standard deviations that count before the typical ones."""
    for kind in std:
        if kind not in TYPICAL_STD:
            raise unknown_name("kind of sensor in URDF files", kind, TYPICAL_STD)
    return {
        kind: variances(std.get(kind, typical), len(typical), f"std of {kind}")
        for kind, typical in TYPICAL_STD.items()
    }


def _require_place(tag: _SensorTag, description: UrdfDescription) -> None:
    """Raise `MismatchError` if the file has no such place; beside the links it is an error."""
    what = _parent_kind(tag.type)
    valid = list(description.joints if what == "joint" else description.links)
    if tag.parent in valid:
        return
    problem = f"{what} {tag.parent!r} does not exist" if tag.parent else f"it has no parent {what}"
    if not tag.gazebo:
        tag.element.fail(f"{problem}; {what}s are {listing(map(repr, valid))}.")
    raise MismatchError(problem)


def _sensors(
    tag: _SensorTag, robot: Robot, description: UrdfDescription, covariances: Mapping[str, Array]
) -> list[Sensor]:
    if tag.type == "force_torque":
        return [_force_torque(tag, robot, description, covariances["force_torque"])]
    mount = Mount.from_xyz_rpy(tag.parent, tag.xyz, tag.rpy)
    sensors: list[Sensor] = []
    for kind in _TYPES[tag.type]:
        name = f"{_IMU_NAMES[kind]}.{tag.name}" if tag.type == "imu" else tag.name
        cls = Gyroscope if kind == "gyroscope" else Accelerometer
        sensors.append(cls(name=name, covariance=covariances[kind], mount=mount))
    return sensors
