"""A new URDF file, for robots that were not read from one.

One link per joint, with its frame on the joint, and a root link in the place of the world:

- Gravity points along -z in URDF. A robot with another gravity is turned as a whole, by a joint
  between a root "world" and the base, until its gravity points there too.
- Readers order the joints of one link by name. Where that is not the robot's order, such joints
  hang on empty links, whose names keep it.
- A floating base is the root, without a joint of its own; it is loaded with floating_base=True.
  Only where the base does not start at the origin of the world, a joint of type "floating" says so.
- Other named frames become empty links on fixed joints.

All numbers are written in full. What URDF cannot hold stands in a comment, see `urdf_notes`.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping

import numpy as np
import pinocchio as pin

from bodysense.errors import RobotFileError
from bodysense.robot.frames import named_frames
from bodysense.robot.io.urdf_xml import DYNAMICS, add_joint, format_numbers, inertial_element
from bodysense.robot.model import one_axis_joints
from bodysense.robot.mounting import GRAVITY
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import inertia_at_com

_NO_LIMIT = float(np.finfo(float).max)  # URDF asks for a number; Pinocchio takes this for none
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def fresh_urdf(robot: Robot) -> bytes:
    """Return the robot as a new URDF file; `urdf_bytes` checks its bodies first.

    Raises:
        RobotFileError: a name that XML or URDF cannot hold.
    """
    _require_names(robot)
    names = _Names(robot)
    root = ET.Element("robot", name=robot.name.strip() or "robot")
    root.append(ET.Comment(_comment(robot)))
    parents = _add_base(root, robot, names)
    for k, name in enumerate(robot.link_names):
        parents[k + 1] = name
        link, pi = ET.SubElement(root, "link", name=name), robot.pi(k)
        if pi[0] != 0.0:
            link.append(inertial_element(pi[0], pi[1:4] / pi[0], inertia_at_com(pi)))
    _add_joints(root, robot, parents, names)
    _add_frames(root, robot, parents, names)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _add_base(root: ET.Element, robot: Robot, names: _Names) -> dict[int, str]:
    """Add the world and a fixed base; return the link by Pinocchio's joint, 0 for the base."""
    parents: dict[int, str] = {}
    if robot.floating_base:
        T_world_base, kind = _turn(robot) * robot.model.jointPlacements[1], "floating"
    else:
        T_world_base, kind = _turn(robot), "fixed"
        parents[0] = names.new_link((*_base_frames(robot), "base_link")[0])
    base = parents.get(0, robot.link_names[0] if robot.link_names else "")
    if not np.array_equal(T_world_base.homogeneous, np.eye(4)):
        world = names.new_link("world")
        ET.SubElement(root, "link", name=world)
        _add_joint(root, names.new_joint("world_joint"), kind, (world, base), T_world_base)
        if robot.floating_base:
            parents[0] = world
    if not robot.floating_base:
        ET.SubElement(root, "link", name=base)
    return parents


def _add_joints(root: ET.Element, robot: Robot, parents: dict[int, str], names: _Names) -> None:
    model, mounts = robot.model, _mounts(robot, parents, names)
    for j, i in enumerate(one_axis_joints(model)):
        parent = parents[int(model.parents[i])]
        if i in mounts:
            mount = mounts[i]
            _add_empty_link(root, names, parent, mount, pin.SE3.Identity())
            parent = mount
        kind = _kind(robot, j)
        links, placement = (parent, parents[i]), model.jointPlacements[i]
        element = _add_joint(root, model.names[i], kind, links, placement)
        ET.SubElement(element, "axis", xyz=format_numbers(robot.tree.axis[j]))
        _add_limits(element, robot, j, kind)
        _add_dynamics(element, robot, j)


def _add_frames(root: ET.Element, robot: Robot, parents: dict[int, str], names: _Names) -> None:
    base = _base_frames(robot)[:1]
    for frame in named_frames(robot):
        names_the_base = frame.parentJoint == 0 and frame.name in base
        if names_the_base or frame.parentJoint not in parents:  # a floating base has no world
            continue
        parent, link = parents[frame.parentJoint], names.new_link(frame.name)
        _add_empty_link(root, names, parent, link, frame.placement)


def urdf_notes(robot: Robot) -> tuple[str, ...]:
    """What URDF cannot express of a robot, in words; the actuator file holds most of it."""
    require_robot(robot)
    law, notes = robot.friction.model, []
    if law.name != "coulomb":
        notes.append(f"the friction law {law.name!r}: readers take 'coulomb' unless told otherwise")
    if (robot.friction.shape != law.defaults).any():
        notes.append(f"shape of the friction law left out: {', '.join(law.shape)}")
    notes += lost_drives(robot, {term: key for key, term in DYNAMICS.items()})
    lower, upper = robot.position_limits
    for j in np.flatnonzero(lower > upper):
        notes.append(f"position limits of {robot.joint_names[j]} left out: they leave no room")
    gravity = float(np.linalg.norm(robot.model.gravity.linear))
    if abs(gravity - GRAVITY) > 1e-12:
        notes.append(f"gravity of {gravity!r} m/s²: readers of URDF take {GRAVITY}")
    return tuple(notes)


def lost_drives(robot: Robot, attributes: Mapping[str, str]) -> Iterator[str]:
    """What a file of links and joints does not hold of drives and friction, in words.

    `attributes` are the names that the file has for rotor inertia and friction terms.
    """
    layout, actuators = robot.layout, robot.actuators
    terms = [term for term in layout.friction_terms if term not in attributes]
    if terms:
        yield f"friction {robot.friction.model.name!r}: {', '.join(terms)} left out"
    for k in actuators.coupled_motors:
        others = [robot.joint_names[j] for j in np.flatnonzero(actuators.coupling[k]) if j != k]
        parameters = [f"{prefix}{m + 1}" for prefix, m in layout.coupled if m == k]
        values = f", with {', '.join(parameters)}" if parameters else ""
        motor = f"the motor of {robot.joint_names[k]}"
        yield f"{motor} also moves {', '.join(others)}; left out{values}"
    for term in robot.friction.model.dissipative_terms:
        if term in attributes:
            for j in np.flatnonzero(robot.theta[layout.friction(term)] < 0.0):
                name = robot.joint_names[j]
                yield f"{attributes[term]} of {name} is negative: simulators may fail"
    extras = {
        "gear ratios": (actuators.gear_ratio != 1.0).any(),
        "drive gains": (actuators.drive_gain != 1.0).any(),
        "controller": robot.controller is not None,
        "acceleration limits": np.isfinite(robot.acceleration_limit).any(),
    }
    present = [name for name, is_present in extras.items() if is_present]
    if present:
        yield f"left out: {', '.join(present)}"


class _Names:
    """Names of links and joints that are taken; each new one is made different from all."""

    def __init__(self, robot: Robot) -> None:
        self._links, self._joints = set(robot.link_names), {*robot.joint_names, "universe"}

    def new_link(self, wanted: str) -> str:
        return self._free(self._links, wanted, "_frame")

    def new_joint(self, of_link: str) -> str:
        return self._free(self._joints, f"{of_link.removesuffix('_joint')}_joint", "_")

    @staticmethod
    def _free(taken: set[str], wanted: str, suffix: str) -> str:
        while wanted in taken:
            wanted += suffix
        taken.add(wanted)
        return wanted


def _require_names(robot: Robot) -> None:
    where = f"robot {robot.name!r} cannot be written as URDF"
    frames = tuple(frame.name for frame in named_frames(robot))
    kinds = {"link": robot.link_names, "joint": robot.joint_names, "frame": frames}
    for kind, names in kinds.items():
        for name in names:
            if not name or name != name.strip() or _NOT_XML.search(name):
                raise RobotFileError(
                    f"{where}: the {kind} name {name!r} is empty, has blanks at its ends or "
                    "characters that XML does not know; rename it."
                )
    if _NOT_XML.search(robot.name):
        raise RobotFileError(f"{where}: its name has characters that XML does not know; rename it.")


def _comment(robot: Robot) -> str:
    lines = ["Written by bodysense."]
    if robot.floating_base:
        lines.append("The base floats: load it with floating_base=True.")
    limits = (*robot.position_limits, robot.velocity_limit, robot.effort_limit)
    if np.isinf(limits).any():
        lines.append(f"A limit of {_NO_LIMIT!r} means that there is none.")
    notes = urdf_notes(robot)
    if notes:
        lines += ["What URDF cannot express (the actuator file can hold drives and friction):"]
        lines += [f"- {note}" for note in notes]
    text = "\n    ".join(lines)
    return f" {_NOT_XML.sub('?', text)}\n  ".replace("--", "- -")


def _turn(robot: Robot) -> pin.SE3:
    """The rotation that makes the robot's gravity point along -z."""
    g = robot.model.gravity.linear
    if not g[:2].any() and g[2] <= 0.0:
        return pin.SE3.Identity()
    down = np.array([0.0, 0.0, -1.0])
    return pin.SE3(pin.Quaternion.FromTwoVectors(g, down).normalized().matrix(), np.zeros(3))


def _base_frames(robot: Robot) -> list[str]:
    """Names of bodies that are the world's own; the first one names the base link."""
    return [
        frame.name
        for frame in robot.model.frames
        if frame.parentJoint == 0
        and frame.type == pin.FrameType.BODY
        and frame.placement.isIdentity(1e-12)
    ]


def _mounts(robot: Robot, parents: dict[int, str], names: _Names) -> dict[int, str]:
    """Empty links for the joints whose order among their siblings is not that of their names."""
    model, mounts = robot.model, {}
    siblings: dict[int, list[int]] = {}
    for i in one_axis_joints(model):
        siblings.setdefault(int(model.parents[i]), []).append(i)
    for parent, children in siblings.items():
        keys = [model.names[i].encode() for i in children]
        if keys != sorted(keys):
            digits = len(str(len(keys)))
            for k, i in enumerate(children, start=1):
                mounts[i] = names.new_link(f"{parents[parent]}_mount{k:0{digits}}")
    return mounts


def _add_joint(
    root: ET.Element, name: str, kind: str, links: tuple[str, str], placement: pin.SE3
) -> ET.Element:
    rpy = _roll_pitch_yaw(placement.rotation)
    return add_joint(root, name, kind, links, placement.translation, rpy)


def _add_empty_link(
    root: ET.Element, names: _Names, parent: str, link: str, placement: pin.SE3
) -> None:
    ET.SubElement(root, "link", name=link)
    _add_joint(root, names.new_joint(link), "fixed", (parent, link), placement)


def _roll_pitch_yaw(R: Array) -> Array:
    """(3,) angles; where roll and yaw turn about the same axis, all of it is roll."""
    rpy: Array = pin.rpy.matrixToRpy(R)
    simple = np.array([rpy[0] - np.sign(rpy[1]) * rpy[2], rpy[1], 0.0])
    same = np.abs(pin.rpy.rpyToMatrix(simple) - R).max() < 1e-15
    return simple if same else rpy


def _kind(robot: Robot, j: int) -> str:
    if robot.joint_types[j] == "prismatic":
        return "prismatic"
    return "revolute" if np.isfinite(_range(robot, j)).any() else "continuous"


def _range(robot: Robot, j: int) -> tuple[float, float]:
    lower, upper = (float(limits[j]) for limits in robot.position_limits)
    return (lower, upper) if lower <= upper else (-np.inf, np.inf)


def _add_limits(element: ET.Element, robot: Robot, j: int, kind: str) -> None:
    strength = {"effort": robot.effort_limit[j], "velocity": robot.velocity_limit[j]}
    if kind == "continuous":
        if not np.isfinite(list(strength.values())).any():
            return
        values = strength
    else:
        values = dict(zip(("lower", "upper"), _range(robot, j), strict=True)) | strength
    limited = {
        key: format_numbers(np.clip(value, -_NO_LIMIT, _NO_LIMIT)) for key, value in values.items()
    }
    ET.SubElement(element, "limit", limited)


def _add_dynamics(element: ET.Element, robot: Robot, j: int) -> None:
    # URDF readers refuse a <dynamics> with neither of the two standard attributes.
    values = {
        key: format_numbers(value)
        for key, value in dynamics_values(robot, j).items()
        if value != 0.0 or key in ("damping", "friction")
    }
    if values:
        ET.SubElement(element, "dynamics", {"damping": "0.0", **values})


def dynamics_values(robot: Robot, joint: int) -> dict[str, float]:
    """Attributes of <dynamics> that the robot has a say about."""
    terms = ("Ia", *robot.layout.friction_terms)
    return {
        key: float(robot.theta[robot.layout.places(term)[joint]])
        for key, term in DYNAMICS.items()
        if term in terms
    }
