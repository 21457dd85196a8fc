"""Writing a robot as MJCF, so that MuJoCo computes the same dynamics.

The frame of a body is that of the link, and its joint passes through the origin: mass matrix and
bias forces agree with the robot's. MuJoCo refuses moving bodies without mass. A massless link
between two joints is therefore folded into the link behind it, which then has several joints:

    P_1 J_1(q_1) P_2 J_2(q_2) = (P_1 P_2) (P_2⁻¹ J_1(q_1) P_2) J_2(q_2)

that is, joint 1 keeps its axis and anchor, given in the frame of link 2.

Capsules show the links in a viewer. They have no mass and collide with nothing.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pinocchio as pin

from bodysense.errors import BodysenseError, InconsistentInertiaError
from bodysense.files import write_atomically
from bodysense.robot.frames import named_frames
from bodysense.robot.io.urdf_fresh import lost_drives
from bodysense.robot.io.urdf_xml import format_numbers
from bodysense.robot.model import one_axis_joints, require_rotor_inertias
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import inertia_at_com, physical_consistency

_ATTRIBUTES = {"Ia": "armature", "Fv": "damping", "Fc": "frictionloss"}
_MOST_JOINTS_OF_A_BODY = 6  # that MuJoCo takes
_SMALLEST_MOMENT = 1e-15  # mjMINVAL: MuJoCo refuses moving bodies below it
_SMALLEST_LENGTH = 1e-3  # m, of a capsule


@dataclass(frozen=True, eq=False)
class _Body:
    """A link as a body of the MJCF file, and the joints (of the Pinocchio model) that move it.

    The massless links' joints come first, T_body_joint of each at q = 0. `parent` is the joint of
    the link that carries it, 0 for the world, and `placement` is T_parent_body at q = 0.
    """

    joints: tuple[int, ...]
    parent: int
    placement: pin.SE3
    T_body_joint: tuple[pin.SE3, ...]

    @property
    def link(self) -> int:
        return self.joints[-1]


def write_mjcf(robot: Robot, path: str | os.PathLike[str]) -> Path:
    """Write `robot` to an MJCF file; see `mjcf_text`.

    The file is replaced in one step: a failure leaves the old one untouched.
    """
    require_robot(robot)
    return write_atomically(path, mjcf_text(robot))


def mjcf_text(robot: Robot) -> str:
    """Return the robot as MJCF.

    Ia becomes armature, Fv damping, Fc frictionloss, and every joint gets a motor with gear 1.
    What `mjcf_notes` says of the robot stands in a comment.

    Raises:
        InconsistentInertiaError: a link or a rotor inertia is infeasible.
        BodysenseError: a link has the name that MuJoCo keeps for the world.
    """
    robot = robot.unlocked()
    bodies = _bodies(robot)
    _require_writable(robot)
    root = ET.Element("mujoco", model=robot.name)
    notes = mjcf_notes(robot)
    if notes:
        lines = "\n    ".join(("bodysense: what MJCF cannot express of this robot", *notes))
        root.append(ET.Comment(f" {lines}\n  ".replace("--", "- -")))
    ET.SubElement(
        root,
        "compiler",
        angle="radian",
        autolimits="true",
        inertiafromgeom="false",
        balanceinertia="false",
        boundmass="0",
        boundinertia="0",
    )
    ET.SubElement(root, "option", gravity=format_numbers(robot.model.gravity.linear))
    default = ET.SubElement(ET.SubElement(root, "default"), "default", {"class": "display"})
    ET.SubElement(
        default, "geom", type="capsule", mass="0", contype="0", conaffinity="0", group="1"
    )
    elements = {0: ET.SubElement(root, "worldbody")}
    for body in bodies:
        attributes = {"name": robot.link_names[body.link - 1], **_pose(body.placement)}
        element = ET.SubElement(elements[body.parent], "body", attributes)
        elements[body.link] = element
        _add_inertia(element, robot.pi(body.link - 1))
        for joint, placement in zip(body.joints, body.T_body_joint, strict=True):
            _add_joint(element, robot, joint, placement)
        _add_capsules(element, robot, body, bodies)
    for frame in _sites(robot):
        attributes = {"name": frame.name, **_pose(frame.placement)}
        ET.SubElement(elements[frame.parentJoint], "site", attributes)
    actuators = ET.SubElement(root, "actuator")
    for name, limit in zip(robot.joint_names, robot.effort_limit, strict=True):
        motor = ET.SubElement(actuators, "motor", name=name, joint=name, gear="1")
        if np.isfinite(limit):
            motor.set("ctrlrange", format_numbers([-limit, limit]))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def mjcf_notes(robot: Robot) -> tuple[str, ...]:
    """What MJCF cannot express of a robot, in words."""
    require_robot(robot)
    notes = [*lost_drives(robot, _ATTRIBUTES)]
    lower, upper = robot.position_limits
    for j in np.flatnonzero(lower >= upper):
        notes.append(f"position limits of {robot.joint_names[j]} left out: they leave no room")
    if np.isfinite(robot.velocity_limit).any():
        notes.append("left out: velocity limits")
    if robot.floating_base and not robot.model.jointPlacements[1].isIdentity(1e-12):
        notes.append("base: MuJoCo counts its pose from the world, the robot from its placement")
    folded = _folded(robot)
    massless = [frame.name for frame in named_frames(robot) if frame.parentJoint in folded]
    if massless:
        notes.append(f"frames of massless links left out: {', '.join(massless)}")
    return tuple(notes)


def _require_writable(robot: Robot) -> None:
    where = f"robot {robot.name!r} cannot be written to MJCF"
    require_rotor_inertias(robot, where)
    if "world" in robot.link_names:
        raise BodysenseError(
            f"{where}: a link is called 'world', a name that MuJoCo keeps for itself. Rename the "
            "link."
        )


def _folded(robot: Robot) -> set[int]:
    """Joints of the massless links that carry exactly one other link."""
    parents = [int(parent) for parent in robot.model.parents][1:]
    return {
        i
        for i in one_axis_joints(robot.model)
        if not robot.pi(i - 1).any() and parents.count(i) == 1
    }


def _bodies(robot: Robot) -> list[_Body]:
    """All bodies, parents first; massless links folded into what they carry.

    Raises:
        InconsistentInertiaError: a link with infeasible inertia that cannot be folded.
    """
    model, folded = robot.model, _folded(robot)
    bodies = []
    for i in range(1, model.njoints):
        if i in folded:
            continue
        where = (
            f"link {robot.link_names[i - 1]!r} of robot {robot.name!r} cannot be written to MJCF"
        )
        check = physical_consistency(robot.pi(i - 1))
        # MuJoCo takes a plate, but no rod and no point.
        if not check.feasible or check.smallest_moment <= _SMALLEST_MOMENT:
            raise InconsistentInertiaError(
                f"{where}: {check.reason}. Make its parameters physically consistent first."
            )
        joints, frames = [i], [pin.SE3.Identity()]
        placement = model.jointPlacements[i]
        while int(model.parents[joints[0]]) in folded:
            joints.insert(0, int(model.parents[joints[0]]))
            frames.insert(0, placement.inverse())
            placement = model.jointPlacements[joints[0]] * placement
        if len(joints) > _MOST_JOINTS_OF_A_BODY:
            raise InconsistentInertiaError(
                f"{where}: {len(joints) - 1} massless links precede it, and MuJoCo takes "
                f"{_MOST_JOINTS_OF_A_BODY - 1}; give one of them a mass."
            )
        bodies.append(_Body(tuple(joints), int(model.parents[joints[0]]), placement, tuple(frames)))
    return bodies


def _add_inertia(body: ET.Element, pi: Array) -> None:
    """Principal moments and axes: from a full tensor, older MuJoCo finds them to 1e-6 only."""
    moments, axes = np.linalg.eigh(inertia_at_com(pi))
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    attributes = {
        "pos": format_numbers(pi[1:4] / pi[0]),
        "mass": format_numbers(pi[:1]),
        "diaginertia": format_numbers(moments),
    }
    attributes.update(_quaternion(axes))
    ET.SubElement(body, "inertial", attributes)


def _add_joint(body: ET.Element, robot: Robot, joint: int, T_body_joint: pin.SE3) -> None:
    model = robot.model
    first = one_axis_joints(model).start
    if joint < first:
        ET.SubElement(body, "freejoint", name=model.names[joint])
        return
    j = joint - first
    values = {
        "name": model.names[joint],
        "type": "slide" if robot.joint_types[j] == "prismatic" else "hinge",
        "axis": format_numbers(T_body_joint.rotation @ robot.tree.axis[j]),
    }
    if T_body_joint.translation.any():
        values["pos"] = format_numbers(T_body_joint.translation)
    lower, upper = (limits[j] for limits in robot.position_range)
    if np.isfinite([lower, upper]).any():
        values["range"] = format_numbers([lower, upper])
    for term, attribute in _ATTRIBUTES.items():
        if term in ("Ia", *robot.layout.friction_terms):
            values[attribute] = format_numbers(robot.theta[robot.layout.places(term)[j]])
    ET.SubElement(body, "joint", values)


def _add_capsules(element: ET.Element, robot: Robot, body: _Body, bodies: list[_Body]) -> None:
    """From the link's origin to those of the links it carries, or to its centre of mass."""
    ends = [other.placement.translation for other in bodies if other.parent == body.link]
    pi = robot.pi(body.link - 1)
    for end in ends or [pi[1:4] / pi[0]]:
        length = float(np.linalg.norm(end))
        if length > _SMALLEST_LENGTH:
            ET.SubElement(
                element,
                "geom",
                {"class": "display"},
                fromto=format_numbers([0.0, 0.0, 0.0, *end]),
                size=format_numbers([min(0.1 * length, 0.03)]),
            )


def _sites(robot: Robot) -> list[pin.Frame]:
    folded = _folded(robot)
    return [frame for frame in named_frames(robot) if frame.parentJoint not in folded]


def _pose(placement: pin.SE3) -> dict[str, str]:
    position = placement.translation
    return {
        **({"pos": format_numbers(position)} if position.any() else {}),
        **_quaternion(placement.rotation),
    }


def _quaternion(R: Array) -> dict[str, str]:
    if np.array_equal(R, np.eye(3)):
        return {}
    x, y, z, w = pin.Quaternion(R).normalized().coeffs()
    return {"quat": format_numbers([w, x, y, z])}
