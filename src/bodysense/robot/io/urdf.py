"""Loading URDF files, and writing robots back into them.

Beyond the standard, <dynamics> may hold attributes of our own, which other readers ignore:

| attribute         | parameter                            |
|-------------------|--------------------------------------|
| `damping`         | Fv, viscous friction (standard)      |
| `friction`        | Fc, Coulomb friction (standard)      |
| `armature`        | Ia, rotor inertia seen at the joint  |
| `static_friction` | Fs, static level of a Stribeck curve |
| `offset`          | Fo, constant torque                  |

Pinocchio builds the model, from the checked links and joints alone: no meshes, no
extensions. Links on fixed joints are merged into the link that carries them.

In the file that a robot came from, only <inertial> and <dynamics> change, and of these only what
differs; every other byte stays: comments, quotes, line ends, encoding. Of links merged into
another, the robot knows the sum alone: they stay as they are and the link itself gets the rest, sum
minus others, if that is feasible; otherwise the link gets the whole sum and the others lose their
<inertial>. URDF has no place for gears, couplings, the shape of a friction law and terms of laws of
your own: they belong into the actuator file.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import numpy as np
import pinocchio as pin

from bodysense.errors import RobotFileError, listing
from bodysense.files import read_robot_file, write_atomically
from bodysense.robot.friction import friction_model
from bodysense.robot.io.actuator_file import parse_actuation
from bodysense.robot.io.urdf_elements import UrdfDescription, UrdfJoint, UrdfLink
from bodysense.robot.io.urdf_fresh import dynamics_values, fresh_urdf
from bodysense.robot.io.urdf_xml import (
    DYNAMICS,
    Edits,
    add_joint,
    format_numbers,
    inertia_attributes,
    inertial_element,
)
from bodysense.robot.model import has_floating_base, require_feasible_links, require_rotor_inertias
from bodysense.robot.mounting import gravity_in_file
from bodysense.robot.robot import Robot, require_robot
from bodysense.robot.source import Source
from bodysense.schema import read_yaml
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import inertia_at_com, physical_consistency, transform_pi

# Relative differences of values that count as unchanged.
_LINK_ROUNDING = 1e-13  # of pi, after a detour over Pinocchio's model
_VALUE_ROUNDING = 1e-14  # of mass, centre of mass and inertia, after a detour over the robot


def load_urdf(
    path: str | PathLike[str],
    *,
    floating_base: bool | None = None,
    friction: str | None = None,
    allow_inconsistent: bool = True,
    actuators: str | PathLike[str] | None = None,
) -> Robot:
    """Load a robot from a URDF file.

    Args:
        path: the file.
        floating_base: whether the root link moves freely; otherwise it is part of the world. By
            default it does where the file's root carries the robot by a joint of type "floating".
        friction: name of the friction law; by default that of the actuator file, or "coulomb".
        allow_inconsistent: accept links with infeasible inertia.
        actuators: an actuator file (see `actuator_file`), whose values count before the URDF's.

    Raises:
        RobotFileError: the file cannot be read, or breaks the rules of URDF.
        UnsupportedJointError: a joint with several axes inside the tree.
        InconsistentInertiaError: a negative mass, or a link with infeasible inertia unless allowed.
    """
    data = read_robot_file(path)
    description = UrdfDescription.from_bytes(data, str(path))
    model = _build_model(description, floating_base=floating_base, where=str(path))
    names = _moving_joints(model, description)
    joints = [description.joints[name] for name in names]
    own = {
        term: np.array([joint.dynamics.get(key, 0.0) for joint in joints])
        for key, term in DYNAMICS.items()
    }
    table = {} if actuators is None else read_yaml(actuators)
    where = str(path if actuators is None else actuators)
    actuation = parse_actuation(table, names, where, friction=friction, own=own)
    model.gravity.linear = gravity_in_file(table, where, model)
    return Robot.from_pinocchio(
        model,
        **vars(actuation),
        source=Source("urdf", str(path), data),
        notes=_notes(description, model, joints, own, actuation.friction.model.name),
        allow_inconsistent=allow_inconsistent,
    )


def _build_model(
    description: UrdfDescription, *, floating_base: bool | None, where: str
) -> pin.Model:
    """Let Pinocchio build the model of a checked description."""
    floats_by_file = bool(description.floating_joint) and floating_base is not False
    xml = _minimal_urdf(description, hold=not floats_by_file)
    moving = any(j.kind not in ("fixed", "planar", "floating") for j in description.joints.values())
    if not (floating_base or floats_by_file or moving):
        raise RobotFileError(
            f"{where} has no moving joint, so nothing moves while its base is fixed: load it with "
            "a floating base."
        )
    name = "floating_base_joint" if "root_joint" in description.joints else "root_joint"
    free = floating_base and not floats_by_file
    try:
        return pin.buildModelFromXML(xml, *((pin.JointModelFreeFlyer(), name) if free else ()))
    except (ValueError, RuntimeError) as error:
        raise RobotFileError(
            f"Pinocchio cannot build a model from {where}: {error}. Check the file with check_urdf."
        ) from error


def _moving_joints(model: pin.Model, description: UrdfDescription) -> tuple[str, ...]:
    """Names of the one-axis joints, in the order of the model."""
    floating = description.floating_joint
    return tuple(n for n in model.names if n in description.joints and n != floating)


def _minimal_urdf(description: UrdfDescription, *, hold: bool) -> str:
    """A URDF of what the description knows; `hold` fixes the file's own floating joint."""
    robot = ET.Element("robot", name=description.name)
    for link in description.links.values():
        element = ET.SubElement(robot, "link", name=link.name)
        if link.inertial is not None:
            own = link.inertial
            element.append(inertial_element(own.mass, own.com, own.tensor))
    for joint in description.joints.values():
        held = joint.kind == "planar" or (hold and joint.kind == "floating")
        kind = "fixed" if held else joint.kind
        links = (joint.parent, joint.child)
        element = add_joint(robot, joint.name, kind, links, joint.xyz, joint.rpy)
        ET.SubElement(element, "axis", xyz=format_numbers(joint.axis))
        if joint.limits:
            limits = {key: format_numbers(value) for key, value in joint.limits.items()}
            ET.SubElement(element, "limit", limits)
    return ET.tostring(robot, encoding="unicode")


def _notes(
    description: UrdfDescription,
    model: pin.Model,
    joints: list[UrdfJoint],
    own: Mapping[str, Array],
    law: str,
) -> tuple[str, ...]:
    notes = []
    merged = sum(not joint.moves for joint in description.joints.values())
    if merged:
        links = "1 link" if merged == 1 else f"{merged} links"
        notes.append(f"{links} on fixed joints merged into the links that carry them")
    mimicking = [joint.name for joint in joints if joint.element.all("mimic")]
    if mimicking:
        notes.append(f"mimic joints are treated as independent: {listing(mimicking, 6)}")
    massless = _massless_links(model, joints)
    if massless:
        notes.append(f"moving links without mass: {listing(massless, 6)}")
    planar = [joint.name for joint in description.joints.values() if joint.kind == "planar"]
    if planar:
        notes.append(
            f"planar joints are taken as fixed where the file puts them: {listing(planar)}"
        )
    if description.floating_joint:
        floats = "is the floating base" if has_floating_base(model) else "is held, as asked for"
        notes.append(f"the file's own joint {description.floating_joint!r} {floats}")
    return (*notes, *_lost_friction(own, law))


def _massless_links(model: pin.Model, joints: list[UrdfJoint]) -> list[str]:
    masses = [model.inertias[model.getJointId(joint.name)].mass for joint in joints]
    return [joint.child for joint, mass in zip(joints, masses, strict=True) if mass == 0.0]


def _lost_friction(own: Mapping[str, Array], law: str) -> tuple[str, ...]:
    terms = ("Ia", *friction_model(law).terms)
    lost = [f"{k} ({t})" for k, t in DYNAMICS.items() if t not in terms and own[t].any()]
    if not lost:
        return ()
    return (f"the friction law {law!r} has no place for the file's {', '.join(lost)}",)


def write_urdf(robot: Robot, path: str | os.PathLike[str]) -> Path:
    """Write the robot's URDF with its present parameters; see `urdf_bytes`.

    The file is replaced in one step: a failure leaves the old one untouched.
    """
    require_robot(robot)
    return write_atomically(path, urdf_bytes(robot))


def urdf_bytes(robot: Robot) -> bytes:
    """Return the URDF file behind a robot with the robot's present parameters.

    Locked joints are in it as in the file (see `Robot.unlocked`), and so are infeasible links
    behind them that nothing has changed.

    Raises:
        RobotFileError: the file has other joints, or a name cannot be written.
        InconsistentInertiaError: a link or a rotor inertia is infeasible.
    """
    where, locked = f"robot {robot.name!r} cannot be written", robot.locked
    robot = robot.unlocked()
    fresh = robot.source is None or robot.source.format != "urdf"
    as_read = set[str]()
    if locked is not None and not fresh:
        links, whole = enumerate(robot.link_names), locked.whole
        as_read = {name for k, name in links if np.array_equal(robot.pi(k), whole.pi(k))}
    remedy = "Change mass, centre of mass and inertia together, as robot.with_link does."
    require_feasible_links(robot, where, remedy, but=as_read)
    require_rotor_inertias(robot, where)
    if robot.source is None or fresh:
        return fresh_urdf(robot)
    description = UrdfDescription.from_bytes(robot.source.data, robot.source.path)
    model = _build_model(description, floating_base=robot.floating_base, where=robot.source.path)
    joints = _moving_joints(model, description)
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
        _write_dynamics(edits, description.joints[name], dynamics_values(robot, k))
    return description.document.encode(edits.apply())


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
        edits.insert(link.element, _lines(inertial_element(pi[0], com, I)), first=True)
        return
    old, element = link.inertial, link.element.all("inertial")[0]
    if not _near(pi[0], old.mass, old.mass):
        edits.set_attributes(element.all("mass")[0], {"value": format_numbers(pi[0])})
    new, before = (old.R_link_file.T @ tensor @ old.R_link_file for tensor in (I, old.tensor))
    size, unchanged = np.abs(old.tensor).max(), inertia_attributes(before)
    changed = {
        key: format_numbers(value)
        for key, value in inertia_attributes(new).items()
        if not _near(value, unchanged[key], size)
    }
    edits.set_attributes(element.all("inertia")[0], changed)
    if _near(com, old.com, np.abs(old.com).max()):
        return
    if element.all("origin"):
        edits.set_attributes(element.all("origin")[0], {"xyz": format_numbers(com)})
    else:
        origin = ET.Element("origin", xyz=format_numbers(com), rpy="0 0 0")
        edits.insert(element, _lines(origin), first=True)


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
        edits.insert(joint.element, _lines(ET.Element("dynamics", changed)))


def _lines(element: ET.Element) -> list[str]:
    ET.indent(element)
    return ET.tostring(element, encoding="unicode").replace(" />", "/>").splitlines()
