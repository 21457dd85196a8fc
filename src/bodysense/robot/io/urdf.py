"""Loading URDF files.

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
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from xml.sax.saxutils import quoteattr

import numpy as np
import pinocchio as pin

from bodysense.errors import RobotFileError, listing
from bodysense.files import read_robot_file
from bodysense.robot.friction import friction_model
from bodysense.robot.io.actuator_file import load_actuation, parse_actuation
from bodysense.robot.io.source import Source
from bodysense.robot.io.urdf_elements import (
    DYNAMICS,
    UrdfDescription,
    UrdfJoint,
    inertia_attributes,
    parse_urdf,
)
from bodysense.robot.io.urdf_xml import format_numbers
from bodysense.robot.model import has_floating_base
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array


def load_urdf(
    path: str | PathLike[str],
    *,
    floating_base: bool | None = None,
    friction: str | None = None,
    allow_inconsistent: bool = False,
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
    description = parse_urdf(data, str(path))
    model = build_model(description, floating_base=floating_base, where=str(path))
    names = moving_joints(model, description)
    joints = [description.joints[name] for name in names]
    own = {
        term: np.array([joint.dynamics.get(key, 0.0) for joint in joints])
        for key, term in DYNAMICS.items()
    }
    actuation = (
        parse_actuation({}, names, str(path), friction=friction, own=own)
        if actuators is None
        else load_actuation(actuators, names, friction=friction, own=own)
    )
    return Robot.from_pinocchio(
        model,
        **vars(actuation),
        source=Source("urdf", str(path), data),
        notes=_notes(description, model, joints, own, actuation.friction.model.name),
        allow_inconsistent=allow_inconsistent,
    )


def build_model(
    description: UrdfDescription, *, floating_base: bool | None, where: str
) -> pin.Model:
    """Let Pinocchio build the model of a checked description."""
    floats_by_file = bool(description.floating_joint) and floating_base is not False
    xml = _minimal_urdf(description, hold=not floats_by_file)
    moving = (j.moves for j in description.joints.values() if j.name != description.floating_joint)
    if not (floating_base or floats_by_file or any(moving)):
        raise RobotFileError(
            f"{where} has no moving joint, so nothing moves while its base is fixed: load it with "
            "a floating base."
        )
    base = []
    if floating_base and not floats_by_file:
        taken = "root_joint" in description.joints
        base = [pin.JointModelFreeFlyer(), "floating_base_joint" if taken else "root_joint"]
    try:
        return pin.buildModelFromXML(xml, *base)
    except (ValueError, RuntimeError) as error:
        raise RobotFileError(
            f"Pinocchio cannot build a model from {where}: {error}. Check the file with check_urdf."
        ) from error


def moving_joints(model: pin.Model, description: UrdfDescription) -> tuple[str, ...]:
    """Names of the one-axis joints, in the order of the model."""
    floating = description.floating_joint
    return tuple(n for n in model.names if n in description.joints and n != floating)


def _minimal_urdf(description: UrdfDescription, *, hold: bool) -> str:
    """A URDF of what the description knows; `hold` fixes the file's own floating joint."""
    lines = [f"<robot name={quoteattr(description.name)}>"]
    for link in description.links.values():
        lines.append(f"<link name={quoteattr(link.name)}>")
        if link.inertial is not None:
            entries = inertia_attributes(link.inertial.tensor)
            lines.append(
                f'<inertial><origin xyz="{format_numbers(link.inertial.com)}" rpy="0 0 0"/>'
                f'<mass value="{link.inertial.mass!r}"/><inertia{_attributes(entries)}/>'
                "</inertial>"
            )
        lines.append("</link>")
    for joint in description.joints.values():
        kind = "fixed" if hold and joint.kind == "floating" else joint.kind
        limits = f"<limit{_attributes(joint.limits)}/>" if joint.limits else ""
        lines.append(
            f'<joint name={quoteattr(joint.name)} type="{kind}">'
            f'<origin xyz="{format_numbers(joint.xyz)}" rpy="{format_numbers(joint.rpy)}"/>'
            f"<parent link={quoteattr(joint.parent)}/><child link={quoteattr(joint.child)}/>"
            f'<axis xyz="{format_numbers(joint.axis)}"/>{limits}</joint>'
        )
    return "\n".join([*lines, "</robot>"])


def _attributes(values: Mapping[str, float]) -> str:
    return "".join(f' {key}="{float(value)!r}"' for key, value in values.items())


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
    mimicking = [joint.name for joint in joints if joint.mimics]
    if mimicking:
        notes.append(f"mimic joints are treated as independent: {listing(mimicking, 6)}")
    massless = _massless_links(model, joints)
    if massless:
        notes.append(f"moving links without mass: {listing(massless, 6)}")
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
