"""What a URDF file says, checked: links, joints and the tree they form.

Every mistake is reported with file, line and element before Pinocchio sees anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pinocchio as pin

from bodysense.errors import RobotFileError, UnsupportedJointError
from bodysense.robot.urdf_elements import UrdfJoint, UrdfLink, listing, read_joint, read_link
from bodysense.robot.urdf_numbers import UrdfReader
from bodysense.robot.urdf_xml import Document, Element, parse_document


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
        found, waiting = [], [(link, pin.SE3.Identity())]
        fixed: dict[str, list[UrdfJoint]] = {}
        for joint in self.joints.values():
            if not joint.moves:
                fixed.setdefault(joint.parent, []).append(joint)
        while waiting:
            name, placement = waiting.pop()
            for joint in fixed.get(name, ()):
                found.append((joint.child, placement * joint.placement))
                waiting.append(found[-1])
        return found


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
        link = read_link(element, read)
        if link.name in links:
            first = links[link.name].element.line
            read.fail(element, f"this name is taken by the link of line {first}; rename one.")
        links[link.name] = link
    if not links:
        read.fail(root, "there is no <link> in it; a robot needs at least one.")
    joints: dict[str, UrdfJoint] = {}
    for element in root.all("joint"):
        joint = read_joint(element, links, read)
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
    children: dict[str, list[str]] = {}
    for joint in joints.values():
        other = parent_joint.get(joint.child)
        if other is not None:
            read.fail(
                joint.element,
                f"link {joint.child!r} is the child of joint {other.name!r} too; closed loops are "
                "not supported: cut one of them open.",
            )
        parent_joint[joint.child] = joint
        children.setdefault(joint.parent, []).append(joint.child)
    roots = [name for name in links if name not in parent_joint]
    if len(roots) > 1:
        read.fail(
            robot,
            f"{len(roots)} links have no parent ({listing(roots)}); a robot is one tree: connect "
            "them, by fixed joints for example.",
        )
    reached, waiting = set(roots), list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            reached.add(child)
            waiting.append(child)
    loop = [name for name in links if name not in reached]
    if loop:
        read.fail(robot, f"the links {listing(loop)} form a loop; cut it open.")
    return roots[0]


def _floating_joint(root: str, joints: Mapping[str, UrdfJoint], read: UrdfReader) -> str:
    """Name of the file's own floating joint; it must be the only way from the root."""
    floating = [joint for joint in joints.values() if joint.kind == "floating"]
    if not floating:
        return ""
    static, size = {root}, 0
    while len(static) != size:
        size = len(static)
        static |= {j.child for j in joints.values() if not j.moves and j.parent in static}
    first = [joint.name for joint in joints.values() if joint.moves and joint.parent in static]
    for joint in floating:
        if first != [joint.name]:
            raise UnsupportedJointError(
                f"{read.place(joint.element)}: a floating joint has six axes; it is supported only "
                "between the root and the whole robot. Make it fixed, or split the robot in two."
            )
    return floating[0].name
