"""Shapes of links: what of space a robot fills, as convex hulls.

A *body* is a link of the robot's file. Bodies on fixed joints are merged into the link that carries
them, as in `robot.model`: the hull of a link is that of all its bodies, while collisions are looked
for body by body, for the hull of an arm and the hand fixed to it fills what is free between them.

Where a file has no shapes, boxes are made from kinematics and inertia. A uniform box with mass m
and principal moments I_1, I_2, I_3 has the sides

    a_1² = 6 (I_2 + I_3 - I_1) / m     and so on in turn.

The hull of a link is that of this box, put at the centre of mass, and of bars from the link's joint
to the joints that it carries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath

import numpy as np
import pinocchio as pin

from bodysense.errors import RobotFileError, unknown_name
from bodysense.robot.robot import Robot, require_robot
from bodysense.robot.shapes.file_shapes import file_shapes
from bodysense.robot.shapes.hull import Hull, box_corners
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import inertia_at_com

# Tuning of boxes and pieces.
_THIN, _THICK = 0.01, 0.06  # m, half widths of bars
_SMALLEST_DENSITY = 300.0  # kg/m³ of a link; inertias of files may be far too large
_MOST_PIECES = 16  # of a body: more of them are taken as one hull
_SMALL_BODY = 0.1  # m; smaller bodies are one piece
_PIECES_VOLUME = 0.9  # part of the hull's volume; pieces count where they fill less


def _link_box(robot: Robot, joint: int) -> Hull:
    """The hull round the link that a joint moves, in the link's frame; -1 for the base."""
    joints = _carried_joints(robot, joint)
    pi = None
    if joint >= 0 or robot.floating_base:
        pi = robot.pi(joint + robot.floating_base)
    points, width = [], _THICK if pi is None else _THIN
    if pi is not None and pi[0] > 0.0:
        com = pi[1:4] / pi[0]
        moments, axes = np.linalg.eigh(inertia_at_com(pi))
        sides = np.sqrt(np.maximum(6.0 * (moments.sum() - 2.0 * moments) / pi[0], 0.0))
        # Inertias of files may count the rotor: no link is lighter than wood.
        shrink = np.cbrt(min(1.0, pi[0] / (_SMALLEST_DENSITY * max(float(np.prod(sides)), 1e-12))))
        half = 0.5 * shrink * sides
        points.append(box_corners(com, half, axes))
        width = float(np.clip(np.median(half), _THIN, _THICK))
    for end in (np.zeros(3), *joints):
        points.append(box_corners(end, np.full(3, width)))
    return Hull.from_points(np.vstack(points))


def _carried_joints(robot: Robot, joint: int) -> Array:
    """(n, 3) where the joints sit that a link carries, in its frame [m]; -1 for the base."""
    positions: Array = robot.tree.position[robot.tree.parent == joint]
    return positions


SHAPES = ("auto", "collision", "visual", "boxes")
"""Where shapes come from; see `link_hulls`."""


@dataclass(frozen=True, eq=False)
class Body:
    """A rigid piece of a robot.

    Attributes:
        name: of the file's link, or of the robot's where its shape is made up.
        joint: position of the joint that moves it among the robot's joints, -1 on the base.
        hull: in the frame of the robot's link that it belongs to [m].
        pieces: hulls that fill less together: of the file's single shapes, of slices of a mesh.
        shape: ``collision``, ``visual`` or ``boxes``: where the hull comes from.
    """

    name: str
    joint: int
    hull: Hull
    pieces: tuple[Hull, ...]
    shape: str


@dataclass(frozen=True, eq=False)
class LinkHulls(Mapping[str, Hull]):
    """The hull of every link of a robot by name, in the link's own frame.

    Attributes:
        hulls: by name of the link, in the order of the robot.
        bodies: what they are made of, and the bodies of a fixed base.
        notes: what had to be decided, in words.
    """

    hulls: Mapping[str, Hull]
    bodies: tuple[Body, ...]
    notes: tuple[str, ...]

    def __getitem__(self, link: str) -> Hull:
        if link not in self.hulls:
            raise unknown_name("link", link, self.hulls)
        return self.hulls[link]

    def __contains__(self, link: object) -> bool:
        return link in self.hulls

    def __iter__(self) -> Iterator[str]:
        return iter(self.hulls)

    def __len__(self) -> int:
        return len(self.hulls)


def link_hulls(
    robot: Robot,
    shapes: str = "auto",
    *,
    package_dirs: Sequence[str | PathLike[str]] = (),
) -> LinkHulls:
    """The convex hull of every link of a robot, in the link's own frame.

    Args:
        robot: from a file, or "boxes" are all there is.
        shapes: "collision" or "visual" take the shapes of the file; "auto" takes for every body its
            collision shape, else its visual one, else a box; "boxes" are built round the links
            from kinematics and inertia alone and work for every robot.
        package_dirs: folders in which the packages of meshes (``package://…``) lie. Packages are
            looked for there, from the robot's file upward, in $ROS_PACKAGE_PATH and
            $AMENT_PREFIX_PATH.

    Raises:
        UnknownNameError: another word for `shapes`.
        RobotFileError: the file has no shape for a link with mass, or names a mesh that is not
            there. "auto" takes a box instead and says so in `notes`.
    """
    require_robot(robot)
    if shapes not in SHAPES:
        raise unknown_name("shapes", shapes, SHAPES)
    folders = [fspath(folder) for folder in package_dirs]
    bodies, problems = ([], []) if shapes == "boxes" else _bodies_of_file(robot, shapes, folders)
    boxes = _missing_boxes(robot, shapes, bodies, {joint for joint, _ in problems})
    notes = [text for _, text in problems]
    if boxes and shapes != "boxes":
        names = [robot.link_names[box.joint + int(robot.floating_base)] for box in boxes]
        notes.append(f"boxes from inertia and kinematics stand for {', '.join(names)}")
    bodies += boxes
    on_base = robot.floating_base or any(body.joint == -1 for body in bodies)
    if not on_base and np.any(_carried_joints(robot, -1)):
        bodies.append(_box(robot, "base", -1))
    first = -int(robot.floating_base)
    hulls = {link: _link_hull(k + first, bodies) for k, link in enumerate(robot.link_names)}
    return LinkHulls(hulls, tuple(sorted(bodies, key=lambda body: body.joint)), tuple(notes))


def _missing_boxes(
    robot: Robot, shapes: str, bodies: list[Body], broken: Collection[int | None]
) -> list[Body]:
    """Boxes for the links without a shape, or with a body whose shape is broken."""
    covered = {body.joint for body in bodies}
    names = {body.name for body in bodies}
    boxes = []
    for k, link in enumerate(robot.link_names):
        joint = k - int(robot.floating_base)
        if joint in covered and joint not in broken:
            continue
        if shapes in ("collision", "visual") and robot.pi(k)[0] > 0.0:
            raise RobotFileError(
                f"{_where(robot)} has no {shapes} shape for link {link!r}: give it one, or take "
                'shapes="auto" or "boxes".'
            )
        boxes.append(_box(robot, f"{link} (box)" if link in names else link, joint))
    return boxes


def _link_hull(joint: int, bodies: Sequence[Body]) -> Hull:
    hulls = [body.hull for body in bodies if body.joint == joint]
    if len(hulls) == 1:
        return hulls[0]
    return Hull.from_points(np.vstack([hull.vertices for hull in hulls]))


def _bodies_of_file(
    robot: Robot, shapes: str, folders: Sequence[str]
) -> tuple[list[Body], list[tuple[int | None, str]]]:
    """Bodies with a shape in the robot's file, and what could not be read.

    With it comes the joint of the body, unless another of the file's shapes stands for it.
    """
    if robot.source is None or robot.source.format not in ("urdf", "mjcf"):
        if shapes == "auto":
            return [], []
        raise RobotFileError(
            f"{_where(robot)} holds no {shapes} shapes, only kinematics and inertia: take "
            'shapes="boxes".'
        )
    places = body_places(robot)
    bodies: dict[str, Body] = {}
    problems: dict[str, str] = {}
    for kind in ("collision", "visual") if shapes == "auto" else (shapes,):
        points, unread = file_shapes(robot.source, kind, folders, bodies)
        for name, clouds in points.items():
            if name in places and name not in bodies:
                bodies[name] = _body(name, *places[name], clouds, kind)
        problems = {**{name: unread[name] for name in unread if name in places}, **problems}
    if problems and shapes != "auto":
        raise RobotFileError(next(iter(problems.values())))
    notes = [(None if name in bodies else places[name][0], text) for name, text in problems.items()]
    return list(bodies.values()), notes


def _body(name: str, joint: int, T_link_body: pin.SE3, clouds: list[Array], kind: str) -> Body:
    hull = Hull.from_points(np.vstack(clouds)).transform(T_link_body)
    pieces: tuple[Hull, ...] = (hull,)
    large = np.linalg.norm(np.ptp(hull.vertices, axis=0)) > _SMALL_BODY
    if large and 1 < len(clouds) <= _MOST_PIECES:
        parts = [Hull.from_points(cloud).transform(T_link_body) for cloud in clouds]
        if sum(part.volume for part in parts) < _PIECES_VOLUME * hull.volume:
            pieces = tuple(parts)
    return Body(name, joint, hull, pieces, kind)


def _box(robot: Robot, name: str, joint: int) -> Body:
    hull = _link_box(robot, joint)
    return Body(name, joint, hull, (hull,), "boxes")


def body_places(robot: Robot) -> dict[str, tuple[int, pin.SE3]]:
    """By name of a body of the file: the joint that moves it, -1 on the base, and T_link_body."""
    base = int(robot.floating_base)
    places: dict[str, tuple[int, pin.SE3]] = {}
    if not base:
        places["world"] = (-1, pin.SE3.Identity())  # MuJoCo's, where the file has no such body
    for frame in robot.model.frames:
        if frame.type == pin.FrameType.BODY and frame.parentJoint >= base:
            places[frame.name] = (frame.parentJoint - 1 - base, frame.placement)
    return places


def _where(robot: Robot) -> str:
    return robot.source.path if robot.source is not None else f"robot {robot.name!r}"
