"""Shapes of links: what of space a robot fills, as convex hulls.

A *body* is a link of the robot's file. Bodies on fixed joints are merged into the link that carries
them, as in `robot.model`: the hull of a link is that of all its bodies, while collisions are looked
for body by body, for the hull of an arm and the hand fixed to it fills what is free between them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath

import numpy as np
import pinocchio as pin

from bodysense.errors import RobotFileError, unknown_name
from bodysense.robot.io.mjcf import compile_mjcf
from bodysense.robot.io.mjcf_model import body_name
from bodysense.robot.io.source import Source
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.hull import Hull, box_corners
from bodysense.robot.shapes.urdf_shapes import (
    FileShapes,
    cylinder_points,
    sliced,
    sphere_points,
    urdf_shapes,
)
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import inertia_at_com

# Boxes round the links, from kinematics and inertia alone: shapes for any robot.
#
# A uniform box with mass m and principal moments I_1, I_2, I_3 has the sides
#
#     a_1² = 6 (I_2 + I_3 - I_1) / m     and so on in turn.
#
# The hull of a link is that of this box, put at the centre of mass, and of bars from the link's
# joint to the joints that it carries.

_THIN, _THICK = 0.01, 0.06  # half widths of bars [m]
_LIGHTEST = 300.0  # density of a link [kg/m³]


def link_box(robot: Robot, joint: int) -> Hull:
    """The hull round the link that a joint moves, in the link's frame; -1 for the base."""
    joints = carried_joints(robot, joint)
    pi = None
    if joint >= 0 or robot.floating_base:
        pi = robot.pi(joint + robot.floating_base)
    points, width = [], _THICK if pi is None else _THIN
    if pi is not None and pi[0] > 0.0:
        com = pi[1:4] / pi[0]
        moments, axes = np.linalg.eigh(inertia_at_com(pi))
        sides = np.sqrt(np.maximum(6.0 * (moments.sum() - 2.0 * moments) / pi[0], 0.0))
        # Inertias of files may be far too large, or count the rotor: no link is lighter than wood.
        shrink = np.cbrt(min(1.0, pi[0] / (_LIGHTEST * max(float(np.prod(sides)), 1e-12))))
        half = 0.5 * shrink * sides
        points.append(box_corners(com, half, axes))
        width = float(np.clip(np.median(half), _THIN, _THICK))
    for end in (np.zeros(3), *joints):
        points.append(box_corners(end, np.full(3, width)))
    return Hull.from_points(np.vstack(points))


def carried_joints(robot: Robot, joint: int) -> Array:
    """(n, 3) where the joints sit that a link carries, in its frame [m]; -1 for the base."""
    positions: Array = robot.tree.position[robot.tree.parent == joint]
    return positions


# The shapes of an MJCF file: geoms as MuJoCo compiles them, as points whose hull they fill.
#
# Geoms that touch others (contype or conaffinity) are "collision" shapes, the rest "visual" ones.
# Planes and height fields have no hull and are left out.

_SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER, _BOX, _MESH = range(2, 8)  # mjtGeom


def mjcf_shapes(source: Source, kind: str) -> FileShapes:
    """Points of every body that has geoms of a kind, "collision" or "visual"."""
    compiled, _ = compile_mjcf(source.path)
    clouds: dict[str, list[Array]] = {}
    for g in range(compiled.ngeom):
        touches = bool(compiled.geom_contype[g] or compiled.geom_conaffinity[g])
        shape, size = int(compiled.geom_type[g]), np.array(compiled.geom_size[g])
        if touches != (kind == "collision"):
            continue
        if shape == _SPHERE:
            pieces = [sphere_points(size[0])]
        elif shape == _CAPSULE:
            pieces = [cylinder_points(size[0], 2.0 * size[1], rounded=True)]
        elif shape == _ELLIPSOID:
            pieces = [sphere_points(1.0) * size]
        elif shape == _CYLINDER:
            pieces = [cylinder_points(size[0], 2.0 * size[1])]
        elif shape == _BOX:
            pieces = [box_corners(np.zeros(3), size)]
        elif shape == _MESH:
            mesh = int(compiled.geom_dataid[g])
            first = int(compiled.mesh_vertadr[mesh])
            last = first + int(compiled.mesh_vertnum[mesh])
            points = np.array(compiled.mesh_vert[first:last], dtype=np.float64)
            face = int(compiled.mesh_faceadr[mesh])
            sides = compiled.mesh_face[face : face + int(compiled.mesh_facenum[mesh])]
            pieces = sliced(points, np.array(sides, dtype=np.intp))
        else:
            continue
        R = pin.Quaternion(*compiled.geom_quat[g]).matrix()
        name = body_name(compiled, int(compiled.geom_bodyid[g]))
        clouds.setdefault(name, []).extend(piece @ R.T + compiled.geom_pos[g] for piece in pieces)
    return FileShapes(clouds, {})


SHAPES = ("auto", "collision", "visual", "boxes")
"""Where shapes come from; see `link_hulls`."""

_MOST_PIECES = 16  # of a body: more of them are taken as one hull
_SMALL = 0.1  # bodies that are smaller are one piece [m]
_WORTH = 0.9  # pieces count where they fill less than this part of the hull


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
            from kinematics and inertia alone (see `box_shapes`) and work for every robot.
        package_dirs: folders in which the packages of meshes (``package://…``) lie. Packages are
            looked for there, from the robot's file upward, in $ROS_PACKAGE_PATH and
            $AMENT_PREFIX_PATH.

    Raises:
        UnknownNameError: another word for `shapes`.
        RobotFileError: the file has no shape for a link with mass, or names a mesh that is not
            there. "auto" takes a box instead and says so in `notes`.
    """
    if shapes not in SHAPES:
        raise unknown_name("shapes", shapes, SHAPES)
    folders = [fspath(folder) for folder in package_dirs]
    bodies, notes = ([], []) if shapes == "boxes" else _bodies_of_file(robot, shapes, folders)
    first = -int(robot.floating_base)
    covered = {body.joint for body in bodies}
    broken = {joint for joint, _ in notes if joint is not None}
    boxed = []
    for k, link in enumerate(robot.link_names):
        joint = k + first
        if joint in covered and joint not in broken:
            continue
        if shapes in ("collision", "visual") and robot.pi(k)[0] > 0.0:
            raise RobotFileError(
                f"{_where(robot)} has no {shapes} shape for link {link!r}: give it one, or take "
                'shapes="auto" or "boxes".'
            )
        boxed.append(link)
        taken = any(body.name == link for body in bodies)  # a body fixed to it is broken
        bodies.append(_box(robot, f"{link} (box)" if taken else link, joint))
    if not robot.floating_base and not covered & {-1} and np.any(carried_joints(robot, -1)):
        bodies.append(_box(robot, "base", -1))
    words = [text for _, text in notes]
    if boxed and shapes != "boxes":
        words.append(f"boxes from inertia and kinematics stand for {', '.join(boxed)}")
    hulls = {}
    for k, link in enumerate(robot.link_names):
        own = [body.hull for body in bodies if body.joint == k + first]
        hulls[link] = (
            own[0] if len(own) == 1 else Hull.from_points(np.vstack([h.vertices for h in own]))
        )
    return LinkHulls(hulls, tuple(sorted(bodies, key=lambda body: body.joint)), tuple(words))


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
    places = _places(robot)
    kinds = ("collision", "visual") if shapes == "auto" else (shapes,)
    bodies: dict[str, Body] = {}
    problems: dict[str, str] = {}
    for kind in kinds:
        result = _file_shapes(robot, kind, folders, bodies)
        for name, clouds in result.points.items():
            if name in places and name not in bodies:
                bodies[name] = _body(name, *places[name], clouds, kind)
        problems.update({k: v for k, v in result.problems.items() if k not in problems})
    problems = {name: text for name, text in problems.items() if name in places}
    if problems and shapes != "auto":
        raise RobotFileError(next(iter(problems.values())))
    notes = [(None if name in bodies else places[name][0], text) for name, text in problems.items()]
    return list(bodies.values()), notes


def _body(name: str, joint: int, T_link_body: pin.SE3, clouds: list[Array], kind: str) -> Body:
    hull = Hull.from_points(np.vstack(clouds)).moved(T_link_body)
    pieces: tuple[Hull, ...] = (hull,)
    large = np.linalg.norm(np.ptp(hull.vertices, axis=0)) > _SMALL
    if large and 1 < len(clouds) <= _MOST_PIECES:
        parts = [Hull.from_points(cloud).moved(T_link_body) for cloud in clouds]
        if sum(part.volume for part in parts) < _WORTH * hull.volume:
            pieces = tuple(parts)
    return Body(name, joint, hull, pieces, kind)


def _box(robot: Robot, name: str, joint: int) -> Body:
    hull = link_box(robot, joint)
    return Body(name, joint, hull, (hull,), "boxes")


def _file_shapes(
    robot: Robot, kind: str, folders: Sequence[str], known: Collection[str]
) -> FileShapes:
    if robot.source is None:
        return FileShapes({}, {})
    if robot.source.format == "mjcf":
        return mjcf_shapes(robot.source, kind)
    return urdf_shapes(robot.source, kind, folders, known)


def _places(robot: Robot) -> dict[str, tuple[int, pin.SE3]]:
    """By name of a body: the joint that moves it, and T_link_body."""
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
