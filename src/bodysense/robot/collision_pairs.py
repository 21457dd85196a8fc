"""Which bodies of a robot may collide, and which pairs need not be looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import ShapeError, unknown_name
from bodysense.robot.poses import moved_by
from bodysense.robot.robot import Robot
from bodysense.robot.shapes import Body
from bodysense.robot.urdf_description import parse_urdf
from bodysense.robot.urdf_shapes import mimic_groups


@dataclass(frozen=True)
class IgnoredPair:
    """Two bodies that are not checked, and why."""

    pair: tuple[str, str]
    reason: str


def candidate_pairs(
    robot: Robot, bodies: tuple[Body, ...], ignore: Iterable[tuple[str, str]]
) -> tuple[NDArray[np.intp], tuple[IgnoredPair, ...]]:
    """Pairs of bodies (n, 2) whose links no joint connects, and those of them that are ignored.

    Raises:
        UnknownNameError: a name in `ignore` that is no body or link.
        ShapeError: something in `ignore` that is no pair.
    """
    wanted = [_groups(robot, bodies, pair) for pair in ignore]
    mimics, moves = _mimics(robot), moved_by(robot)
    ignored: list[IgnoredPair] = []
    places: list[tuple[int, int]] = []
    for a, b in combinations(range(len(bodies)), 2):
        first, second = bodies[a], bodies[b]
        if _adjacent(robot, first.joint, second.joint):
            continue
        leaders = {
            mimics.get(int(j), "")
            for j in np.flatnonzero(moves[first.joint + 1] ^ moves[second.joint + 1])
        }
        leader = leaders.pop() if len(leaders) == 1 else ""
        if any((a in one and b in two) or (b in one and a in two) for one, two in wanted):
            ignored.append(IgnoredPair((first.name, second.name), "as asked for"))
        elif leader:
            reason = f"moved only by joint {leader!r} and what mimics it, as a gripper is"
            ignored.append(IgnoredPair((first.name, second.name), reason))
        else:
            places.append((a, b))
    return np.array(places, dtype=np.intp).reshape(-1, 2), tuple(ignored)


def is_made_up(robot: Robot, body: Body) -> bool:
    """Whether a body is but a box round a link without mass: there may be no body at all."""
    link = body.joint + int(robot.floating_base)
    return body.shape == "boxes" and link >= 0 and bool(robot.pi(link)[0] <= 0.0)


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
    return _of_name(robot, bodies, names[0]), _of_name(robot, bodies, names[1])


def _of_name(robot: Robot, bodies: tuple[Body, ...], name: str) -> frozenset[int]:
    """Bodies of a name, or of a link of that name."""
    base = int(robot.floating_base)
    links = {link: k - base for k, link in enumerate(robot.link_names)}
    found = frozenset(
        k for k, body in enumerate(bodies) if name == body.name or links.get(name) == body.joint
    )
    if not found:
        names = dict.fromkeys((*(body.name for body in bodies), *robot.link_names))
        raise unknown_name("body", name, names)
    return found


def _mimics(robot: Robot) -> dict[int, str]:
    """For every joint that mimics another or is mimicked, the name of the one they follow."""
    if robot.source is None or robot.source.format != "urdf":
        return {}
    groups = mimic_groups(parse_urdf(robot.source.data, robot.source.path))
    return {j: groups[name] for j, name in enumerate(robot.joint_names) if name in groups}
