"""Content of a URDF file, read and checked: links, joints and the tree they form.

Every mistake is reported with file, line and element before Pinocchio sees anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pinocchio as pin

from bodysense.errors import (
    InconsistentInertiaError,
    RobotFileError,
    UnsupportedJointError,
    listing,
)
from bodysense.robot.io.urdf_xml import DYNAMICS, INERTIA_ENTRIES, Document, Element
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import pi_from_mass_com_inertia

_MOVING_TYPES = ("revolute", "continuous", "prismatic")
_VALID_TYPES = (*_MOVING_TYPES, "fixed")
_LIMITS = ("lower", "upper", "effort", "velocity")

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class _Inertial:
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
    inertial: _Inertial | None


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

    @property
    def moves(self) -> bool:
        return self.kind != "fixed"

    @property
    def placement(self) -> pin.SE3:
        """T_parent_child at q = 0."""
        return pin.SE3(pin.rpy.rpyToMatrix(*self.rpy), self.xyz)


def _read_link(link: Element) -> UrdfLink:
    name, inertial = link.text("name"), link.only_child("inertial")
    if inertial is None:
        return UrdfLink(name, link, None)
    mass_element = inertial.required_child("mass")
    tensor_element = inertial.required_child("inertia")
    mass = mass_element.number("value")
    if mass < 0.0:
        raise InconsistentInertiaError(
            f"{mass_element.place}: the mass is {mass:g} kg; it must be positive (zero only for a "
            "link without inertia)."
        )
    com, rpy = inertial.origin()
    xx, xy, xz, yy, yz, zz = (tensor_element.number(key) for key in INERTIA_ENTRIES)
    R = pin.rpy.rpyToMatrix(*rpy) if rpy.any() else np.eye(3)
    tensor = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    return UrdfLink(name, link, _Inertial(mass, com, 0.5 * (tensor + tensor.T), R))


def _read_joint(element: Element, links: Collection[str]) -> UrdfJoint:
    name = element.text("name")
    if name == "universe":
        element.fail("the name 'universe' is Pinocchio's own; rename the joint.")
    kind = _joint_type(element)
    parent, child = (_joint_end(element, end, links) for end in ("parent", "child"))
    if parent == child:
        element.fail(f"its parent and its child are the same link {child!r}.")
    xyz, rpy = element.origin()
    return UrdfJoint(
        name=name,
        kind=kind,
        element=element,
        parent=parent,
        child=child,
        xyz=xyz,
        rpy=rpy,
        axis=_axis(element, kind),
        limits=_limits(element, kind),
        dynamics=_dynamics(element),
    )


def _joint_type(joint: Element) -> str:
    kind = joint.attributes.get("type", "")
    if kind not in (*_VALID_TYPES, "floating", "planar"):
        raise UnsupportedJointError(
            f"{joint.place}: unknown joint type {kind!r}; valid: {', '.join(_VALID_TYPES)}, and "
            "floating between the root and the robot."
        )
    return kind


def _joint_end(joint: Element, end: str, links: Collection[str]) -> str:
    tag = joint.required_child(end)
    link = tag.text("link")
    if link not in links:
        valid = listing(map(repr, links))
        tag.fail(f"{end} link {link!r} does not exist; links are {valid}.")
    return link


def _dynamics(joint: Element) -> dict[str, float]:
    element = joint.only_child("dynamics")
    if element is None:
        return {}
    values = {key: element.number(key) for key in DYNAMICS if key in element.attributes}
    if values.get("armature", 0.0) < 0.0:
        element.fail("armature is negative; an inertia is zero or positive.")
    return values


def _axis(joint: Element, kind: str) -> Array:
    element = joint.only_child("axis")
    if element is None or kind not in _MOVING_TYPES:
        return np.array([1.0, 0.0, 0.0])  # what URDF says
    axis = element.vector("xyz")
    if np.linalg.norm(axis) < 1e-9:
        element.fail(f"the axis {axis} has no length; give a direction, e.g. 0 0 1.")
    return axis


def _limits(joint: Element, kind: str) -> dict[str, float]:
    element = joint.only_child("limit")
    if kind not in _MOVING_TYPES:
        return {}
    if element is None:
        if kind != "continuous":
            hint = "; a joint without limits is continuous." if kind == "revolute" else "."
            needs = "<limit lower=… upper=… effort=… velocity=…>"
            joint.fail(f"a {kind} joint needs {needs}{hint}")
        return {}
    for key in ("effort", "velocity"):
        if key not in element.attributes:
            element.fail(f"the attribute {key} is missing; URDF requires it.")
    present = [key for key in _LIMITS if key in element.attributes]
    limits = {key: element.number(key, most=np.inf) for key in present}
    lower, upper = limits.get("lower", 0.0), limits.get("upper", 0.0)
    if kind != "continuous" and lower > upper:
        element.fail(f"lower limit {lower:g} exceeds upper limit {upper:g}; swap them.")
    return limits


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

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> UrdfDescription:
        """Parse and check the bytes of a URDF file; `where` names it in messages.

        Raises:
            RobotFileError: anything that URDF does not allow.
            UnsupportedJointError: a joint type that is unknown, or has several axes.
            InconsistentInertiaError: a negative mass.
        """
        document = Document.from_bytes(data, where)
        root = document.root
        _refuse_other_formats(root)
        links = _by_name(root.all("link"), _read_link)
        if not links:
            root.fail("there is no <link> in it; a robot needs at least one.")
        joints = _by_name(root.all("joint"), lambda element: _read_joint(element, links))
        top = _root_of_tree(root, links, joints)
        _require_planar_base(top, joints)
        return cls(root.text("name"), document, links, joints, top, _floating_joint(top, joints))

    def merged(self, link: str) -> list[tuple[str, pin.SE3]]:
        """Links that hang on `link` by fixed joints alone, with T_link_other of each."""
        placements = {link: pin.SE3.Identity()}
        for joint in _below({link}, [j for j in self.joints.values() if not j.moves]):
            placements[joint.child] = placements[joint.parent] * joint.placement
        del placements[link]
        return list(placements.items())


def _by_name(elements: list[Element], read: Callable[[Element], _T]) -> dict[str, _T]:
    """Links or joints by name, in the order of the file."""
    result: dict[str, _T] = {}
    lines: dict[str, int] = {}
    for element in elements:
        item, name = read(element), element.text("name")
        if name in result:
            element.fail(
                f"this name is taken by the {element.tag} of line {lines[name]}; rename one."
            )
        result[name], lines[name] = item, element.line
    return result


def _refuse_other_formats(root: Element) -> None:
    if root.tag != "robot":
        formats = {
            "mujoco": "an MJCF file: load it as MJCF",
            "sdf": "an SDF file: convert it to URDF",
        }
        raise RobotFileError(
            f"{root.where}, line {root.line}: the root element is <{root.tag}>, not <robot>; this "
            f"is {formats.get(root.tag, 'no URDF file')}."
        )
    waiting = [root]
    while waiting:
        element = waiting.pop()
        if element.tag.startswith("xacro:"):
            raise RobotFileError(
                f"{root.where}, line {element.line}: <{element.tag}> is a xacro macro, not URDF; "
                "run `xacro file.xacro > file.urdf` first and load its output."
            )
        waiting.extend(element.children)


def _root_of_tree(robot: Element, links: Collection[str], joints: Mapping[str, UrdfJoint]) -> str:
    parent_joint: dict[str, UrdfJoint] = {}
    for joint in joints.values():
        other = parent_joint.setdefault(joint.child, joint)
        if other is not joint:
            joint.element.fail(
                f"link {joint.child!r} is the child of joint {other.name!r} too; closed loops are "
                "not supported: cut one of them open."
            )
    roots = [name for name in links if name not in parent_joint]
    if len(roots) > 1:
        robot.fail(
            f"{len(roots)} links have no parent ({listing(map(repr, roots))}); a robot is one "
            "tree: connect them, by fixed joints for example."
        )
    reached = {joint.child for joint in _below(roots, joints.values())}
    loop = [name for name in links if name not in reached and name not in roots]
    if loop:
        robot.fail(f"the links {listing(map(repr, loop))} form a loop; cut it open.")
    return roots[0]


def _below(start: Collection[str], joints: Collection[UrdfJoint]) -> list[UrdfJoint]:
    """Joints that hang below some links, each after the one that carries it."""
    children: dict[str, list[UrdfJoint]] = {}
    for joint in joints:
        children.setdefault(joint.parent, []).append(joint)
    result, waiting = [], list(start)
    while waiting:
        carried = children.get(waiting.pop(), [])
        result += carried
        waiting += [joint.child for joint in carried]
    return result


def _require_planar_base(root: str, joints: Mapping[str, UrdfJoint]) -> None:
    """Refuse planar joints but those of a mobile base, which is taken as standing still."""
    held = [joint for joint in joints.values() if joint.kind in ("fixed", "planar", "floating")]
    ground = {root, *(joint.child for joint in _below([root], held))}
    for joint in joints.values():
        if joint.kind == "planar" and joint.parent not in ground:
            raise UnsupportedJointError(
                f"{joint.element.place}: a planar joint has three axes; replace it by two "
                "prismatic joints and a revolute one."
            )


def _floating_joint(root: str, joints: Mapping[str, UrdfJoint]) -> str:
    """Name of the file's own floating joint; it must be the only way from the root."""
    floating = [joint for joint in joints.values() if joint.kind == "floating"]
    if not floating:
        return ""
    fixed = _below([root], [joint for joint in joints.values() if not joint.moves])
    static = {root, *(joint.child for joint in fixed)}
    first = [joint.name for joint in joints.values() if joint.moves and joint.parent in static]
    wrong = next((joint for joint in floating if first != [joint.name]), None)
    if wrong is not None:
        raise UnsupportedJointError(
            f"{wrong.element.place}: a floating joint has six axes; it is supported only between "
            "the root and the whole robot. Make it fixed, or split the robot in two."
        )
    return floating[0].name
