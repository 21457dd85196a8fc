"""One <link> and one <joint> of a URDF file, read and checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from bodysense.errors import InconsistentInertiaError, UnsupportedJointError
from bodysense.robot.urdf_numbers import UrdfReader
from bodysense.robot.urdf_xml import Element
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import pi_from_mass_com_inertia

MOVING_TYPES = ("revolute", "continuous", "prismatic")
INERTIA_ENTRIES = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
_VALID_TYPES = (*MOVING_TYPES, "fixed")
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
        """Whether it has any axis."""
        return self.kind != "fixed"

    @property
    def placement(self) -> pin.SE3:
        """T_parent_child at q = 0."""
        return pin.SE3(pin.rpy.rpyToMatrix(*self.rpy), self.xyz)


def read_link(element: Element, read: UrdfReader) -> UrdfLink:
    """Read a <link>.

    Raises:
        RobotFileError: a part is missing or not a number.
        InconsistentInertiaError: a negative mass.
    """
    return UrdfLink(read.name(element), element, _inertial(element, read))


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
    xx, xy, xz, yy, yz, zz = (read.number(tensor_element, key, link) for key in INERTIA_ENTRIES)
    R = pin.rpy.rpyToMatrix(*rpy) if rpy.any() else np.eye(3)
    tensor = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    return UrdfInertial(mass, com, 0.5 * (tensor + tensor.T), R)


def read_joint(element: Element, links: Collection[str], read: UrdfReader) -> UrdfJoint:
    """Read a <joint> between two of these links.

    Raises:
        RobotFileError: a part is missing, not a number, or out of order.
        UnsupportedJointError: an unknown type, or one with several axes.
    """
    name, kind = read.name(element), element.attributes.get("type", "")
    if name == "universe":
        read.fail(element, "the name 'universe' is Pinocchio's own; rename the joint.")
    if kind == "planar":
        raise UnsupportedJointError(
            f"{read.place(element)}: a planar joint has three axes; replace it by two prismatic "
            "joints and a revolute one."
        )
    if kind not in (*_VALID_TYPES, "floating"):
        raise UnsupportedJointError(
            f"{read.place(element)}: unknown joint type {kind!r}; valid: "
            f"{', '.join(_VALID_TYPES)}, and floating between the root and the robot."
        )
    ends = {}
    for end in ("parent", "child"):
        tag = read.required_child(element, end, element)
        ends[end] = read.text(tag, "link", element)
        if ends[end] not in links:
            read.fail(
                tag,
                f"{end} link {ends[end]!r} does not exist; links are {listing(list(links))}.",
                element,
            )
    if ends["parent"] == ends["child"]:
        read.fail(element, f"its parent and its child are the same link {ends['child']!r}.")
    xyz, rpy = read.origin(element, element)
    dynamics = read.only_child(element, "dynamics")
    found = {
        key: read.number(dynamics, key, element)
        for key in DYNAMICS
        if dynamics is not None and key in dynamics.attributes
    }
    if dynamics is not None and found.get("armature", 0.0) < 0.0:
        read.fail(dynamics, "armature is negative; an inertia is zero or positive.", element)
    return UrdfJoint(
        name=name,
        kind=kind,
        element=element,
        parent=ends["parent"],
        child=ends["child"],
        xyz=xyz,
        rpy=rpy,
        axis=_axis(element, kind, read),
        limits=_limits(element, kind, read),
        dynamics=found,
        mimics=bool(element.all("mimic")),
    )


def _axis(joint: Element, kind: str, read: UrdfReader) -> Array:
    element = read.only_child(joint, "axis")
    if element is None or kind not in MOVING_TYPES:
        return np.array([1.0, 0.0, 0.0])  # what URDF says
    axis = read.vector(element, "xyz", joint)
    length = float(np.linalg.norm(axis))
    if length < 1e-9:
        read.fail(element, f"the axis {axis} has no length; give a direction, e.g. 0 0 1.", joint)
    return axis


def _limits(joint: Element, kind: str, read: UrdfReader) -> dict[str, float]:
    element = read.only_child(joint, "limit")
    if kind not in MOVING_TYPES:
        return {}
    if element is None:
        if kind == "continuous":
            return {}
        read.fail(
            joint,
            f"a {kind} joint needs <limit lower=… upper=… effort=… velocity=…>"
            + ("; a joint without limits is continuous." if kind == "revolute" else "."),
        )
    for key in ("effort", "velocity"):
        if key not in element.attributes:
            read.fail(element, f"the attribute {key} is missing; URDF requires it.", joint)
    limits = {
        key: read.number(element, key, joint, most=np.inf)
        for key in _LIMITS
        if key in element.attributes
    }
    lower, upper = limits.get("lower", 0.0), limits.get("upper", 0.0)
    if kind != "continuous" and lower > upper:
        read.fail(
            element, f"lower limit {lower:g} exceeds upper limit {upper:g}; swap them.", joint
        )
    return limits


def listing(names: list[str], most: int = 8) -> str:
    """Some names for a message."""
    return ", ".join(map(repr, names[:most])) + (", …" if len(names) > most else "")
