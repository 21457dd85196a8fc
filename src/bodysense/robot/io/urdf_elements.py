"""Content of a URDF file, read and checked: links, joints and the tree they form.

Every mistake is reported with file, line and element before Pinocchio sees anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from bodysense.errors import (
    InconsistentInertiaError,
    RobotFileError,
    UnsupportedJointError,
    listing,
)
from bodysense.robot.io.urdf_xml import Document, Element, UrdfReader, parse_document
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import pi_from_mass_com_inertia

_MOVING_TYPES = ("revolute", "continuous", "prismatic")
_INERTIA_ENTRIES = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
_VALID_TYPES = (*_MOVING_TYPES, "fixed")
_LIMITS = ("lower", "upper", "effort", "velocity")

DYNAMICS = {
    "damping": "Fv",
    "friction": "Fc",
    "static_friction": "Fs",
    "offset": "Fo",
    "armature": "Ia",
}
"""Attributes of <dynamics> and the parameters they hold; all but the first two are our own."""


@dataclass(frozen=True, eq=False)
class UrdfInertial:
    """An <inertial>: mass, centre of mass, and the (3, 3) tensor about it in the link's axes."""

    mass: float
    com: Array
    tensor: Array
    R_link_file: Array  # the axes in which the file gives the tensor

    @property
    def pi(self) -> Array:
        """(10,) inertial parameters about the link's origin."""
        return pi_from_mass_com_inertia(self.mass, self.com, self.tensor)


@dataclass(frozen=True, eq=False)
class UrdfLink:
    """A <link>; `inertial` is `None` where the file gives none."""

    name: str
    element: Element
    inertial: UrdfInertial | None


@dataclass(frozen=True, eq=False)
class UrdfJoint:
    """A <joint>; `limits` holds lower, upper, effort, velocity as far as the file gives them."""

    name: str
    kind: str
    element: Element
    parent: str
    child: str
    xyz: Array
    rpy: Array
    axis: Array
    limits: Mapping[str, float]
    dynamics: Mapping[str, float]
    mimics: bool

    @property
    def moves(self) -> bool:
        return self.kind != "fixed"

    @property
    def placement(self) -> pin.SE3:
        """T_parent_child at q = 0."""
        return pin.SE3(pin.rpy.rpyToMatrix(*self.rpy), self.xyz)


def _inertial(link: Element, read: UrdfReader) -> UrdfInertial | None:
    inertial = read.only_child(link, "inertial")
    if inertial is None:
        return None
    mass_element = read.required_child(inertial, "mass", link)
    tensor_element = read.required_child(inertial, "inertia", link)
    mass = read.number(mass_element, "value", link)
    if mass < 0.0:
        raise InconsistentInertiaError(
            f"{read.place(mass_element, link)}: the mass is {mass:g} kg; it must be positive (zero "
            "only for a link without inertia)."
        )
    com, rpy = read.origin(inertial, link)
    xx, xy, xz, yy, yz, zz = (read.number(tensor_element, key, link) for key in _INERTIA_ENTRIES)
    R = pin.rpy.rpyToMatrix(*rpy) if rpy.any() else np.eye(3)
    tensor = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    return UrdfInertial(mass, com, 0.5 * (tensor + tensor.T), R)


def _read_joint(element: Element, links: Collection[str], read: UrdfReader) -> UrdfJoint:
    name = read.name(element)
    if name == "universe":
        read.fail(element, "the name 'universe' is Pinocchio's own; rename the joint.")
    kind = _joint_type(element, read)
    parent, child = (_joint_end(element, end, links, read) for end in ("parent", "child"))
    if parent == child:
        read.fail(element, f"its parent and its child are the same link {child!r}.")
    xyz, rpy = read.origin(element, element)
    return UrdfJoint(
        name=name,
        kind=kind,
        element=element,
        parent=parent,
        child=child,
        xyz=xyz,
        rpy=rpy,
        axis=_axis(element, kind, read),
        limits=_limits(element, kind, read),
        dynamics=_dynamics(element, read),
        mimics=bool(element.all("mimic")),
    )


def _joint_type(joint: Element, read: UrdfReader) -> str:
    kind = joint.attributes.get("type", "")
    if kind == "planar":
        raise UnsupportedJointError(
            f"{read.place(joint)}: a planar joint has three axes; replace it by two prismatic "
            "joints and a revolute one."
        )
    if kind not in (*_VALID_TYPES, "floating"):
        raise UnsupportedJointError(
            f"{read.place(joint)}: unknown joint type {kind!r}; valid: "
            f"{', '.join(_VALID_TYPES)}, and floating between the root and the robot."
        )
    return kind


def _joint_end(joint: Element, end: str, links: Collection[str], read: UrdfReader) -> str:
    tag = read.required_child(joint, end, joint)
    link = read.text(tag, "link", joint)
    if link not in links:
        valid = listing(map(repr, links))
        read.fail(tag, f"{end} link {link!r} does not exist; links are {valid}.", joint)
    return link


def _dynamics(joint: Element, read: UrdfReader) -> dict[str, float]:
    element = read.only_child(joint, "dynamics")
    if element is None:
        return {}
    values = {
        key: read.number(element, key, joint) for key in DYNAMICS if key in element.attributes
    }
    if values.get("armature", 0.0) < 0.0:
        read.fail(element, "armature is negative; an inertia is zero or positive.", joint)
    return values


def _axis(joint: Element, kind: str, read: UrdfReader) -> Array:
    element = read.only_child(joint, "axis")
    if element is None or kind not in _MOVING_TYPES:
        return np.array([1.0, 0.0, 0.0])  # what URDF says
    axis = read.vector(element, "xyz", joint)
    length = float(np.linalg.norm(axis))
    if length < 1e-9:
        read.fail(element, f"the axis {axis} has no length; give a direction, e.g. 0 0 1.", joint)
    return axis


def _limits(joint: Element, kind: str, read: UrdfReader) -> dict[str, float]:
    element = read.only_child(joint, "limit")
    if kind not in _MOVING_TYPES:
        return {}
    if element is None:
        if kind != "continuous":
            hint = "; a joint without limits is continuous." if kind == "revolute" else "."
            needs = "<limit lower=… upper=… effort=… velocity=…>"
            read.fail(joint, f"a {kind} joint needs {needs}{hint}")
        return {}
    for key in ("effort", "velocity"):
        if key not in element.attributes:
            read.fail(element, f"the attribute {key} is missing; URDF requires it.", joint)
    present = [key for key in _LIMITS if key in element.attributes]
    limits = {key: read.number(element, key, joint, most=np.inf) for key in present}
    _require_order(limits, kind, element, joint, read)
    return limits


def _require_order(
    limits: Mapping[str, float], kind: str, element: Element, joint: Element, read: UrdfReader
) -> None:
    lower, upper = limits.get("lower", 0.0), limits.get("upper", 0.0)
    if kind != "continuous" and lower > upper:
        read.fail(
            element, f"lower limit {lower:g} exceeds upper limit {upper:g}; swap them.", joint
        )


@dataclass(frozen=True, eq=False)
class UrdfDescription:
    """A checked URDF file: a tree of links.

    Attributes:
        name: of the robot.
        document: the XML behind it.
        links: by name, in the order of the file.
        joints: by name, in the order of the file.
        root: name of the link that no joint moves.
        floating_joint: name of the joint of type "floating" that the file itself puts between
            its root and the robot, or "".
    """

    name: str
    document: Document
    links: Mapping[str, UrdfLink]
    joints: Mapping[str, UrdfJoint]
    root: str
    floating_joint: str

    def merged(self, link: str) -> list[tuple[str, pin.SE3]]:
        """Links that hang on `link` by fixed joints alone, with T_link_other of each."""
        result, waiting = [], [(link, pin.SE3.Identity())]
        fixed: dict[str, list[UrdfJoint]] = {}
        for joint in self.joints.values():
            if not joint.moves:
                fixed.setdefault(joint.parent, []).append(joint)
        while waiting:
            name, placement = waiting.pop()
            for joint in fixed.get(name, ()):
                result.append((joint.child, placement * joint.placement))
                waiting.append(result[-1])
        return result


def inertia_attributes(I: Array) -> dict[str, float]:
    """Attributes of <inertia> that hold a tensor (3, 3)."""
    return dict(zip(_INERTIA_ENTRIES, I[np.triu_indices(3)], strict=True))


def parse_urdf(data: bytes, where: str) -> UrdfDescription:
    """Parse and check the bytes of a URDF file; `where` names it in messages.

    Raises:
        RobotFileError: anything that URDF does not allow.
        UnsupportedJointError: a joint type that is unknown, or has several axes.
        InconsistentInertiaError: a negative mass.
    """
    document = parse_document(data, where)
    root, read = document.root, UrdfReader(where)
    _refuse_other_formats(root, read)
    links: dict[str, UrdfLink] = {}
    for element in root.all("link"):
        link = UrdfLink(read.name(element), element, _inertial(element, read))
        if link.name in links:
            first = links[link.name].element.line
            read.fail(element, f"this name is taken by the link of line {first}; rename one.")
        links[link.name] = link
    if not links:
        read.fail(root, "there is no <link> in it; a robot needs at least one.")
    joints: dict[str, UrdfJoint] = {}
    for element in root.all("joint"):
        joint = _read_joint(element, links, read)
        if joint.name in joints:
            first = joints[joint.name].element.line
            read.fail(element, f"this name is taken by the joint of line {first}; rename one.")
        joints[joint.name] = joint
    top = _root_of_tree(root, links, joints, read)
    floating = _floating_joint(top, joints, read)
    return UrdfDescription(read.name(root), document, links, joints, top, floating)


def _refuse_other_formats(root: Element, read: UrdfReader) -> None:
    if root.tag != "robot":
        known = {
            "mujoco": "an MJCF file: load it as MJCF",
            "sdf": "an SDF file: convert it to URDF",
        }
        raise RobotFileError(
            f"{read.where}, line {root.line}: the root element is <{root.tag}>, not <robot>; this "
            f"is {known.get(root.tag, 'no URDF file')}."
        )
    waiting = [root]
    while waiting:
        element = waiting.pop()
        if element.tag.startswith("xacro:"):
            raise RobotFileError(
                f"{read.where}, line {element.line}: <{element.tag}> is a xacro macro, not URDF; "
                "run `xacro file.xacro > file.urdf` first and load its output."
            )
        waiting.extend(element.children)


def _root_of_tree(
    robot: Element,
    links: Mapping[str, UrdfLink],
    joints: Mapping[str, UrdfJoint],
    read: UrdfReader,
) -> str:
    parent_joint: dict[str, UrdfJoint] = {}
    for joint in joints.values():
        other = parent_joint.get(joint.child)
        if other is not None:
            read.fail(
                joint.element,
                f"link {joint.child!r} is the child of joint {other.name!r} too; closed loops are "
                "not supported: cut one of them open.",
            )
        parent_joint[joint.child] = joint
    roots = [name for name in links if name not in parent_joint]
    if len(roots) > 1:
        read.fail(
            robot,
            f"{len(roots)} links have no parent ({listing(map(repr, roots))}); a robot is one "
            "tree: connect them, by fixed joints for example.",
        )
    reached = _reached(roots, _children(joints.values()))
    loop = [name for name in links if name not in reached]
    if loop:
        read.fail(robot, f"the links {listing(map(repr, loop))} form a loop; cut it open.")
    return roots[0]


def _children(joints: Iterable[UrdfJoint]) -> dict[str, list[str]]:
    children: dict[str, list[str]] = {}
    for joint in joints:
        children.setdefault(joint.parent, []).append(joint.child)
    return children


def _reached(start: Collection[str], children: Mapping[str, list[str]]) -> set[str]:
    """Names that descend from `start`, these included."""
    reached, waiting = set(start), list(start)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            reached.add(child)
            waiting.append(child)
    return reached


def _floating_joint(root: str, joints: Mapping[str, UrdfJoint], read: UrdfReader) -> str:
    """Name of the file's own floating joint; it must be the only way from the root."""
    floating = [joint for joint in joints.values() if joint.kind == "floating"]
    if not floating:
        return ""
    static = _reached([root], _children(joint for joint in joints.values() if not joint.moves))
    first = [joint.name for joint in joints.values() if joint.moves and joint.parent in static]
    wrong = next((joint for joint in floating if first != [joint.name]), None)
    if wrong is not None:
        raise UnsupportedJointError(
            f"{read.place(wrong.element)}: a floating joint has six axes; it is supported only "
            "between the root and the whole robot. Make it fixed, or split the robot in two."
        )
    return floating[0].name
