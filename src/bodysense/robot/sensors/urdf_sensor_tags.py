"""<sensor> tags of a URDF file, read and checked, in the two dialects that robots carry.

Robotology's, beside the links:

    <sensor name="…" type="force_torque | accelerometer | gyroscope">
      <parent joint="…"/> or <parent link="…"/>
      <origin xyz="…" rpy="…"/>
      <force_torque>
        <frame>child | parent | sensor</frame>
        <measure_direction>parent_to_child | child_to_parent</measure_direction>
      </force_torque>
    </sensor>

Gazebo's, the same in <gazebo reference="joint or link">, with <pose>x y z roll pitch yaw</pose> for
an origin. What <force_torque> leaves out is child and child_to_parent, as Gazebo has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from bodysense.robot.urdf_numbers import UrdfReader
from bodysense.robot.urdf_xml import Document, Element
from bodysense.spatial.arrays import Array

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
