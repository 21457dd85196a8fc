"""Writing a robot back into the URDF file it came from, or into a new one (`urdf_fresh`).

In the file it came from, only <inertial> and <dynamics> change, and of these only what differs;
every other byte stays: comments, quotes, line ends, encoding.

A link may carry others on fixed joints, and the robot knows their sum alone. These others stay as
they are and the link itself gets the rest, sum minus others, if that is feasible; otherwise
the link gets the whole sum and the others lose their <inertial>.

URDF has no place for gears, couplings, the shape of a friction law and terms of laws of your own:
they belong into the actuator file (see `actuator_writer`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bodysense.errors import InconsistentInertiaError, RobotFileError
from bodysense.files import write_atomically
from bodysense.robot.io.urdf import build_model, moving_joints
from bodysense.robot.io.urdf_elements import (
    DYNAMICS,
    UrdfDescription,
    UrdfJoint,
    UrdfLink,
    inertia_attributes,
    parse_urdf,
)
from bodysense.robot.io.urdf_fresh import fresh_urdf
from bodysense.robot.io.urdf_xml import Edits, format_numbers
from bodysense.robot.model import require_feasible_links
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import inertia_at_com, physical_consistency, transform_pi

# Relative differences of values that count as unchanged.
_LINK_ROUNDING = 1e-13  # of pi, after a detour over Pinocchio's model
_VALUE_ROUNDING = 1e-14  # of mass, centre of mass and inertia, after a detour over the robot


def write_urdf(robot: Robot, path: str | os.PathLike[str]) -> Path:
    """Write the robot's URDF with its present parameters; see `urdf_bytes`.

    The file is replaced in one step: a failure leaves the old one untouched.
    """
    return write_atomically(path, urdf_bytes(robot))


def urdf_bytes(robot: Robot) -> bytes:
    """Return the URDF file behind a robot with the robot's present parameters.

    A robot that was not read from a URDF file gets a new one, see `urdf_fresh`.

    Raises:
        RobotFileError: the file has other joints, or a name cannot be written.
        InconsistentInertiaError: a link or a rotor inertia is infeasible.
    """
    _require_physical(robot)
    if robot.source is None or robot.source.format != "urdf":
        return fresh_urdf(robot)
    description = parse_urdf(robot.source.data, robot.source.path)
    model = build_model(description, floating_base=robot.floating_base, where=robot.source.path)
    joints = moving_joints(model, description)
    if joints != robot.joint_names:
        raise RobotFileError(
            f"robot {robot.name!r} has other joints than its file {robot.source.path}: load it "
            "again from the file that it belongs to."
        )
    edits = Edits(description.document)
    for k, name in enumerate(_main_links(description, robot)):
        if not _same(robot.pi(k), model.inertias[k + 1].toDynamicParameters()):
            _write_link(edits, description, name, robot.pi(k))
    for k, name in enumerate(joints):
        _write_dynamics(edits, description.joints[name], _coefficients(robot, k))
    return description.document.encode(edits.apply())


def _require_physical(robot: Robot) -> None:
    where = f"robot {robot.name!r} cannot be written"
    require_feasible_links(
        robot, where, "Change mass, centre of mass and inertia together, as robot.with_link does."
    )
    rotor = robot.theta[robot.layout.rotor]
    for name, value in zip(robot.joint_names, rotor, strict=True):
        if value < 0.0:
            raise InconsistentInertiaError(
                f"{where}: the rotor inertia of joint {name!r} is {value:g}; it must be zero or "
                "positive: identify it with a consistent method (pc-wls), or correct it."
            )


def _main_links(description: UrdfDescription, robot: Robot) -> list[str]:
    """Name of the link in whose frame each of the robot's links is given."""
    moved = [description.joints[name].child for name in robot.joint_names]
    if not robot.floating_base:
        return moved
    own = description.floating_joint
    return [description.joints[own].child if own else description.root, *moved]


def _same(pi: Array, other: Array) -> bool:
    """Whether two links differ by no more than the rounding of a detour over their models."""
    parts = (slice(0, 1), slice(1, 4), slice(4, 10))  # kg, kg·m, kg·m²
    return all(
        np.abs(pi[part] - other[part]).max() <= _LINK_ROUNDING * np.abs(other[part]).max()
        for part in parts
    )


def _coefficients(robot: Robot, joint: int) -> dict[str, float]:
    """Attributes of <dynamics> that the robot has a say about."""
    terms = ("Ia", *robot.layout.friction_terms)
    return {
        key: float(robot.theta[robot.layout.places(term)[joint]])
        for key, term in DYNAMICS.items()
        if term in terms
    }


def _write_link(edits: Edits, description: UrdfDescription, name: str, total: Array) -> None:
    others = [
        (description.links[other], placement)
        for other, placement in description.merged(name)
        if description.links[other].inertial is not None
    ]
    own = total.copy()
    for other, T_link_other in others:
        if other.inertial is not None:
            own -= transform_pi(other.inertial.pi, T_link_other.homogeneous)
    link = description.links[name]
    if not others or physical_consistency(own).feasible:
        _write_inertial(edits, link, own)
        return
    _write_inertial(edits, link, total)
    for other, _ in others:
        edits.remove(other.element.all("inertial")[0])


def _write_inertial(edits: Edits, link: UrdfLink, pi: Array) -> None:
    com, I = pi[1:4] / pi[0], inertia_at_com(pi)
    if link.inertial is None:
        entries = {key: format_numbers(value) for key, value in inertia_attributes(I).items()}
        lines = [
            "<inertial>",
            f"  <origin{_attributes({'xyz': format_numbers(com), 'rpy': '0 0 0'})}/>",
            f"  <mass{_attributes({'value': format_numbers(pi[0])})}/>",
            f"  <inertia{_attributes(entries)}/>",
            "</inertial>",
        ]
        edits.insert(link.element, lines, first=True)
        return
    old, element = link.inertial, link.element.all("inertial")[0]
    if not _near(pi[0], old.mass, old.mass):
        edits.set_attributes(element.all("mass")[0], {"value": format_numbers(pi[0])})
    R, size = old.R_link_file, np.abs(old.tensor).max()
    before = inertia_attributes(R.T @ old.tensor @ R)
    changed = {
        key: format_numbers(new)
        for key, new in inertia_attributes(R.T @ I @ R).items()
        if not _near(new, before[key], size)
    }
    edits.set_attributes(element.all("inertia")[0], changed)
    if _near(com, old.com, np.abs(old.com).max()):
        return
    if element.all("origin"):
        edits.set_attributes(element.all("origin")[0], {"xyz": format_numbers(com)})
    else:
        origin = {"xyz": format_numbers(com), "rpy": "0 0 0"}
        edits.insert(element, [f"<origin{_attributes(origin)}/>"], first=True)


def _near(value: Array | float, other: Array | float, size: float) -> bool:
    """Whether a value differs by no more than the rounding of a detour over the robot."""
    return bool(np.abs(np.subtract(value, other)).max() <= _VALUE_ROUNDING * size)


def _write_dynamics(edits: Edits, joint: UrdfJoint, values: Mapping[str, float]) -> None:
    changed = {
        key: format_numbers(value)
        for key, value in values.items()
        if value != joint.dynamics.get(key, 0.0)
    }
    if not changed:
        return
    # URDF readers refuse a <dynamics> with neither of the two standard attributes.
    if not ({"damping", "friction"} & {*changed, *joint.dynamics}):
        changed = {"damping": "0.0", **changed}
    elements = joint.element.all("dynamics")
    if elements:
        edits.set_attributes(elements[0], changed)
    else:
        edits.insert(joint.element, [f"<dynamics{_attributes(changed)}/>"])


def _attributes(values: Mapping[str, str]) -> str:
    return "".join(f' {key}="{value}"' for key, value in values.items())
