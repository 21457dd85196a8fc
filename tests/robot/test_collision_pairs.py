from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import ShapeError, UnknownNameError
from bodysense.robot import Collisions, Robot, link_hulls
from bodysense.robot.shapes.collision_pairs import candidate_pairs


def names(
    robot: Robot, ignore: tuple[tuple[str, str], ...] = (), shapes: str = "auto"
) -> set[frozenset[str]]:
    bodies = link_hulls(robot, shapes).bodies
    places, _ = candidate_pairs(robot, bodies, ignore)
    return {frozenset((bodies[a].name, bodies[b].name)) for a, b in places}


def test_links_that_a_joint_connects_are_no_pair(robot_of):
    found = names(robot_of("example:panda"))
    assert frozenset(("panda_link2", "panda_link3")) not in found
    assert frozenset(("panda_link6", "panda_hand")) not in found  # fixed to link 7
    assert frozenset(("panda_link7", "panda_hand")) not in found
    assert frozenset(("panda_link2", "panda_link4")) in found
    assert frozenset(("panda_link0", "panda_hand")) in found
    # 11 bodies, 55 pairs: 13 on one link or a joint apart, and the fingers of the gripper.
    assert len(found) == 41


def test_the_fingers_of_a_gripper_may_touch(robot_of):
    bodies = link_hulls(robot_of("example:panda")).bodies
    _, ignored = candidate_pairs(robot_of("example:panda"), bodies, ())
    (fingers,) = ignored
    assert fingers.pair == ("panda_leftfinger", "panda_rightfinger")
    assert "'panda_finger_joint1' and what mimics it" in fingers.reason


def test_links_on_branches_of_a_floating_robot_are_pairs(robot_of):
    robot = robot_of("example:solo12")
    found = names(robot, shapes="boxes")
    assert frozenset(("FL_LOWER_LEG", "FR_LOWER_LEG")) in found
    assert frozenset(("base_link", "FL_SHOULDER")) not in found
    assert frozenset(("base_link", "FL_UPPER_LEG")) in found


@pytest.mark.parametrize(
    ("pair", "gone"),
    [
        (("panda_hand", "panda_link0"), 1),
        (("panda_link0", "panda_hand"), 1),
        (("panda_link7", "panda_link0"), 2),  # the link with all its bodies, the hand too
    ],
)
def test_the_caller_may_ignore_pairs(robot_of, pair, gone):
    robot = robot_of("example:panda")
    assert len(names(robot)) - len(names(robot, (pair,))) == gone
    collisions = Collisions.from_robot(robot, ignore=[pair])
    assert sum(found.reason == "as asked for" for found in collisions.ignored) == gone


def test_a_name_that_is_no_body_is_refused(robot_of):
    with pytest.raises(UnknownNameError, match="did you mean 'panda_hand'"):
        Collisions.from_robot(robot_of("example:panda"), ignore=[("panda_hnd", "panda_link0")])


def test_what_is_no_pair_is_refused(robot_of):
    with pytest.raises(ShapeError, match="give pairs of names"):
        Collisions.from_robot(robot_of("example:panda"), ignore=["panda_hand"])  # type: ignore[list-item]


def test_boxes_round_links_without_mass_are_no_bodies(robot_of):
    robot = robot_of("tx40")
    theta = robot.theta.copy()
    theta[robot.layout.link(4)] = 0.0
    collisions = Collisions.from_robot(robot.with_parameters(theta))
    assert "link5" in {body.name for body in Collisions.from_robot(robot).bodies}
    assert "link5" not in {body.name for body in collisions.bodies}


def test_bodies_that_are_never_apart_are_told(robot_of):
    collisions = Collisions.from_robot(robot_of("tx40"))
    never = {found.pair: found.reason for found in collisions.ignored}
    assert "all of 400 random poses" in never["link4", "link6"]  # their boxes overlap at the wrist
    assert not set(never) & set(collisions.pairs)
    q = np.random.default_rng(1).uniform(-2.0, 2.0, (300, 6))
    assert (collisions.distances(q) > 0.01).any(axis=0).all()


def test_boxes_that_hardly_ever_part_are_told(robot_of):
    never = {found.pair: found.reason for found in Collisions.from_robot(robot_of("rv2sq")).ignored}
    assert never["link1", "link3"] == "boxes, in contact in 98 % of 400 random poses"
