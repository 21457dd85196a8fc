"""A force/torque sensor that a URDF file puts at a joint, moving or fixed.

On a moving joint the sensor reads what the joint transmits. A fixed joint is inside a link of the
robot, which is made of all bodies on fixed joints: the bodies between the moving joint and the
sensor are the sub-link of `ForceTorque`.
"""

from __future__ import annotations

import numpy as np

from bodysense.errors import MismatchError
from bodysense.robot.robot import Robot
from bodysense.robot.sensors.force_torque import ForceTorque
from bodysense.robot.sensors.mount import Mount
from bodysense.robot.sensors.urdf_sensor_tags import SensorTag
from bodysense.robot.urdf_description import UrdfDescription
from bodysense.robot.urdf_elements import UrdfJoint
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import transform_pi


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
        mount = Mount.of(joint.child, tag.xyz, tag.rpy)
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
