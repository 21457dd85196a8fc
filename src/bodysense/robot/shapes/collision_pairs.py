"""Pairs of bodies of a robot that may collide, and their distances for many relative poses.

Bodies are made of convex pieces. Boxes round the pieces give lower bounds of their distance; coal's
GJK and EPA measure what may be within reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

import coal
import numpy as np
from numpy.typing import NDArray

from bodysense.errors import ShapeError, unknown_name
from bodysense.robot.frames import supporting_joints
from bodysense.robot.io.urdf_elements import UrdfDescription, UrdfJoint
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.hull import Hull, principal_box
from bodysense.robot.shapes.link_shapes import Body
from bodysense.spatial.arrays import Array


def candidate_pairs(
    robot: Robot, bodies: tuple[Body, ...], ignore: Iterable[tuple[str, str]]
) -> tuple[NDArray[np.intp], dict[tuple[str, str], str]]:
    """Pairs of bodies (n, 2) whose links no joint connects; and why others are ignored."""
    unwanted = [_groups(robot, bodies, pair) for pair in ignore]
    mimics, moves = _mimics(robot), supporting_joints(robot)
    ignored: dict[tuple[str, str], str] = {}
    places: list[tuple[int, int]] = []
    for a, b in combinations(range(len(bodies)), 2):
        first, second = bodies[a], bodies[b]
        if _adjacent(robot, first.joint, second.joint):
            continue
        joints = np.flatnonzero(moves[first.joint + 1] ^ moves[second.joint + 1])
        leaders = {mimics.get(int(j), "") for j in joints}
        reason = ""
        if any(_matches(a, b, groups) for groups in unwanted):
            reason = "as asked for"
        elif len(leaders) == 1 and leaders != {""}:
            reason = f"moved only by joint {leaders.pop()!r} and what mimics it, as a gripper is"
        if reason:
            ignored[first.name, second.name] = reason
        else:
            places.append((a, b))
    return np.array(places, dtype=np.intp).reshape(-1, 2), ignored


def _matches(a: int, b: int, groups: tuple[frozenset[int], frozenset[int]]) -> bool:
    one, two = groups
    return (a in one and b in two) or (b in one and a in two)


def _adjacent(robot: Robot, a: int, b: int) -> bool:
    """Whether links are the same or connected by a joint."""
    parent = robot.tree.parent
    return a == b or (b >= 0 and int(parent[b]) == a) or (a >= 0 and int(parent[a]) == b)


def _groups(
    robot: Robot, bodies: tuple[Body, ...], pair: tuple[str, str]
) -> tuple[frozenset[int], frozenset[int]]:
    names = tuple(pair)
    if len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise ShapeError(f"ignore holds {pair!r}: give pairs of names, [('hand', 'link1')].")
    return _bodies_named(robot, bodies, names[0]), _bodies_named(robot, bodies, names[1])


def _bodies_named(robot: Robot, bodies: tuple[Body, ...], name: str) -> frozenset[int]:
    """Bodies of a name, or of a link of that name."""
    base = int(robot.floating_base)
    links = {link: k - base for k, link in enumerate(robot.link_names)}
    result = frozenset(
        k for k, body in enumerate(bodies) if name == body.name or links.get(name) == body.joint
    )
    if not result:
        names = dict.fromkeys((*(body.name for body in bodies), *robot.link_names))
        raise unknown_name("body", name, names)
    return result


def _mimics(robot: Robot) -> dict[int, str]:
    """For every joint that mimics another or is mimicked, the name of the one they all follow."""
    if robot.source is None or robot.source.format != "urdf":
        return {}
    groups = _mimic_groups(UrdfDescription.from_bytes(robot.source.data, robot.source.path).joints)
    return {j: groups[name] for j, name in enumerate(robot.joint_names) if name in groups}


def _mimic_groups(joints: Mapping[str, UrdfJoint]) -> dict[str, str]:
    leader = {
        joint.name: mimic.attributes["joint"]
        for joint in joints.values()
        for mimic in joint.element.all("mimic")
        if mimic.attributes.get("joint") in joints
    }
    groups: dict[str, str] = {}
    for name in leader:
        chain = [name]
        while chain[-1] in leader and leader[chain[-1]] not in chain:
            chain.append(leader[chain[-1]])
        groups.update(dict.fromkeys(chain, chain[-1]))
    return groups


_Box = tuple[Array, Array, Array]
"""Middle (3,), half lengths (3,) and axes as columns (3, 3) of a box [m]."""


@dataclass(frozen=True, eq=False)
class PairDistances:
    """Distances of a pair of bodies, in the frame of the first one's link.

    Attributes:
        sample: (m,) which poses.
        distance: (m,) [m], negative inside each other.
        normal: (m, 3) unit vector from the first body to the second.
        first: (m, 3) closest point of the first body [m].
        second: (m, 3) closest point of the second body [m].
    """

    sample: NDArray[np.intp]
    distance: Array
    normal: Array
    first: Array
    second: Array

    def select(self, chosen: NDArray[np.bool_]) -> PairDistances:
        """Those of the chosen poses."""
        floats = (self.distance, self.normal, self.first, self.second)
        return PairDistances(self.sample[chosen], *(column[chosen] for column in floats))


@dataclass(frozen=True, eq=False)
class ConvexPieces:
    """A body as coal sees it: the box round it all, its pieces, and the boxes round these."""

    box: _Box
    pieces: tuple[coal.Convex, ...]
    boxes: tuple[_Box, ...]

    @classmethod
    def from_hulls(cls, hull: Hull, pieces: tuple[Hull, ...]) -> ConvexPieces:
        """Hand a body's hulls to coal."""
        return cls(
            principal_box(hull.vertices),
            tuple(_convex(piece) for piece in pieces),
            tuple(principal_box(piece.vertices) for piece in pieces),
        )

    def distances_to(
        self, other: ConvexPieces, R_a_b: Array, p_a_b: Array, reach: float
    ) -> tuple[PairDistances, Array]:
        """Measure this body and another wherever they may be within reach [m].

        The distance of bodies is that of their closest pieces. Those whose boxes are closest are
        measured first, all others only where their boxes are closer than that. Poses of their links
        are R_a_b (n_t, 3, 3) and p_a_b (n_t, 3) [m].

        Returns:
            What is within reach, and a lower bound of the distance (n_t,) [m]: the distance itself
            within reach, and no less than the reach beyond.
        """
        bound = _lower_bound(self.box, other.box, R_a_b, p_a_b)
        t = np.flatnonzero(bound < reach)
        R, p = R_a_b[t], p_a_b[t]
        couples = [(i, k) for i in range(len(self.pieces)) for k in range(len(other.pieces))]
        if len(couples) == 1:
            bounds = bound[None, t]
        else:
            bounds = np.array(
                [_lower_bound(self.boxes[i], other.boxes[k], R, p) for i, k in couples]
            )
        best = PairDistances(t, np.full(t.size, np.inf), *np.zeros((3, t.size, 3)))
        likely = np.argmin(bounds, axis=0)
        for first in (True, False):
            for c, (i, k) in enumerate(couples):
                chosen = (likely == c) == first
                todo = np.flatnonzero(chosen & (bounds[c] < np.minimum(best.distance, reach)))
                if todo.size:
                    bounds[c, todo] = _measure(self.pieces[i], other.pieces[k], R, p, todo, best)
        bound[t] = bounds.min(axis=0)
        return best.select(best.distance < reach), bound


def _lower_bound(a: _Box, b: _Box, R_a_b: Array, p_a_b: Array) -> Array:
    """(n_t,) a lower bound of the distance of what is in two boxes [m], negative where they meet.

    The widest gap between the boxes along the line of their middles and their own axes.
    """
    center_a, half_a, axes_a = a
    center_b, half_b, axes_b = b
    turned = axes_a.T @ R_a_b @ axes_b  # axes of B in those of A
    shift = (R_a_b @ center_b + p_a_b - center_a) @ axes_a
    size = np.abs(turned)
    gaps = np.abs(shift) - half_a - size @ half_b
    others = np.abs((shift[:, None, :] @ turned)[:, 0]) - half_b - half_a @ size
    length = np.linalg.norm(shift, axis=1)
    line = shift / np.maximum(length, 1e-12)[:, None]
    along = np.abs(line) @ half_a + np.abs((line[:, None, :] @ turned)[:, 0]) @ half_b
    bound: Array = np.maximum(np.maximum(gaps.max(axis=1), others.max(axis=1)), length - along)
    return bound


def _measure(
    first: coal.Convex,
    second: coal.Convex,
    R_a_b: Array,
    p_a_b: Array,
    todo: NDArray[np.intp],
    best: PairDistances,
) -> Array:
    """Measure two pieces in some poses, (m,) [m], and keep in `best` what is closer."""
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.enable_signed_distance = True
    # Gradients need the closest points, and these need more digits than the distance does.
    request.gjk_tolerance = request.epa_tolerance = 1.0e-9
    request.gjk_max_iterations = request.epa_max_iterations = 512
    at_a, at_b = coal.Transform3s(), coal.Transform3s()
    measure = coal.ComputeDistance(first, second)
    distances = np.empty(todo.size)
    for m, i in enumerate(todo):
        at_b.setTransform(R_a_b[i], p_a_b[i])
        result.clear()
        distances[m] = distance = measure(at_a, at_b, request, result)
        if distance < best.distance[i]:
            best.distance[i] = distance
            best.normal[i] = result.normal
            best.first[i] = result.getNearestPoint1()
            best.second[i] = result.getNearestPoint2()
    return distances


def _convex(hull: Hull) -> coal.Convex:
    points = coal.StdVec_Vec3s()
    for vertex in hull.vertices:
        points.append(vertex)
    return coal.Convex.convexHull(points, True, None)
