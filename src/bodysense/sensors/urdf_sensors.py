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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, UnknownNameError, listing, unknown_name
from bodysense.files import read_robot_file
from bodysense.robot.io.urdf_elements import UrdfDescription, UrdfJoint, parse_urdf
from bodysense.robot.io.urdf_xml import Document, Element
from bodysense.robot.model import check_sensors
from bodysense.robot.robot import Robot
from bodysense.sensors.motion_sensors import Accelerometer, Gyroscope
from bodysense.sensors.sensor import Mount, Sensor, variances
from bodysense.sensors.wrench_sensors import ForceTorque
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import transform_pi

_FRAMES = ("child", "parent", "sensor")
_DIRECTIONS = ("child_to_parent", "parent_to_child")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, eq=False)
class _SensorTag:
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
        frame: in which a wrench is given, one of `_FRAMES`.
        direction: of the wrench, one of `_DIRECTIONS`.
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


def _sensor_tags(document: Document) -> list[_SensorTag]:
    """All tags of a file, robotology's first."""
    root = document.root
    tags = [_tag(sensor, "", document) for sensor in root.all("sensor")]
    for gazebo in root.all("gazebo"):
        reference = gazebo.attributes.get("reference", "")
        tags += [_tag(sensor, reference, document) for sensor in gazebo.all("sensor")]
    return tags


def _tag(sensor: Element, reference: str, document: Document) -> _SensorTag:
    joint = link = reference
    parent = sensor.only_child("parent")
    if parent is not None and not reference:
        joint, link = (parent.attributes.get(key, "").strip() for key in ("joint", "link"))
    xyz, rpy = sensor.origin()
    pose = sensor.only_child("pose")
    if pose is not None:
        xyz, rpy = _pose(pose, document)
    wrench = sensor.only_child("force_torque")
    choices = {"frame": _FRAMES, "measure_direction": _DIRECTIONS}
    chosen = {key: options[0] for key, options in choices.items()}
    for key, options in choices.items():
        element = None if wrench is None else wrench.only_child(key)
        if element is not None:
            chosen[key] = _text(element, document)
            if chosen[key] not in options:
                element.fail(f"{chosen[key]!r} is none of {', '.join(options)}; choose one.")
    return _SensorTag(
        name=sensor.text("name"),
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
        sub_link=_sub_link(joint, robot, description),
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
    pi = _merged_pi(bodies, description)
    return pi if pi.any() else None


def _merged_pi(bodies: Mapping[str, Array], description: UrdfDescription) -> Array:
    """(10,) parameters of bodies at T_link_body together."""
    pi = np.zeros(10)
    for name, T_link_body in bodies.items():
        inertial = description.links[name].inertial
        if inertial is not None:
            pi += transform_pi(inertial.pi, T_link_body)
    return pi


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
        std: standard deviations by kind, one number or one per reading, before `TYPICAL_STD`.

    Raises:
        RobotFileError: the file or a tag is invalid, or names a missing joint or link.
        UnknownNameError: a kind in `std` that files do not have.
    """
    covariances = _covariances(std or {})
    if isinstance(source, bytes):
        where, data = f"the URDF of {robot.name!r}", source
    else:
        where, data = str(source), read_robot_file(source)
    description = parse_urdf(data, where)
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
            if tag.type == "force_torque" and tag.joint in at_joint:
                raise MismatchError(f"joint {tag.joint!r} has {at_joint[tag.joint]!r} already")
            tagged = check_sensors(robot, _sensors(tag, robot, description, covariances))
        except (MismatchError, UnknownNameError) as error:
            notes.append(f"sensor {tag.name!r} of line {tag.element.line} is left out: {error}")
            continue
        if tag.type == "force_torque":
            at_joint[tag.joint] = tag.name
        notes += _add(sensors, tagged, tag)
    return UrdfSensors(tuple(sensors.values()), (*notes, *_notes_on_foreign(foreign)))


def _add(sensors: dict[str, Sensor], tagged: Iterable[Sensor], tag: _SensorTag) -> Iterator[str]:
    """Add the sensors of a tag under names of their own; say which were renamed."""
    for sensor in tagged:
        name = sensor.name
        if name in sensors:  # files may call an accelerometer and a gyroscope the same
            name = f"{name}.{sensor.kind}.{tag.element.line}"
            yield f"a second sensor {sensor.name!r} is called {name!r}"
        sensors[name] = replace(sensor, name=name, channels=())


def _notes_on_foreign(foreign: Mapping[str, list[str]]) -> Iterator[str]:
    for kind, names in foreign.items():
        what = f"of type {kind!r}" if kind else "without a type"
        yield f"sensors {what} are left out: {listing(map(repr, names))}"


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
    what = "joint" if tag.type == "force_torque" else "link"
    name = tag.joint if what == "joint" else tag.link
    valid = list(description.joints if what == "joint" else description.links)
    if name in valid:
        return
    problem = f"{what} {name!r} does not exist" if name else f"it has no parent {what}"
    if not tag.gazebo:
        tag.element.fail(f"{problem}; {what}s are {listing(map(repr, valid))}.")
    raise MismatchError(problem)


def _sensors(
    tag: _SensorTag, robot: Robot, description: UrdfDescription, covariances: Mapping[str, Array]
) -> list[Sensor]:
    if tag.type == "force_torque":
        return [_force_torque(tag, robot, description, covariances["force_torque"])]
    mount = Mount.from_xyz_rpy(tag.link, tag.xyz, tag.rpy)
    sensors: list[Sensor] = []
    for kind in _TYPES[tag.type]:
        name = f"{_IMU_NAMES[kind]}.{tag.name}" if tag.type == "imu" else tag.name
        cls = Gyroscope if kind == "gyroscope" else Accelerometer
        sensors.append(cls(name=name, covariance=covariances[kind], mount=mount))
    return sensors
