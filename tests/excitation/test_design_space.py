from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.errors import TrajectoryError
from bodysense.excitation import MotionLimits
from bodysense.excitation.design_space import DesignSpace, _boxes_in_the_way
from bodysense.excitation.limits import CollisionClearance
from bodysense.robot import Collisions, Workspace


def test_joints_that_carry_next_to_nothing_hold(robot_of):
    space = DesignSpace.from_robot(robot_of("example:panda"))
    assert list(space.moving) == list(range(7))
    assert "panda_finger_joint2" in space.notes[0]


def test_all_joints_of_an_arm_move(robot_of):
    space = DesignSpace.from_robot(robot_of("tx40"))
    assert (list(space.moving), space.notes) == (list(range(6)), ())


def test_named_joints_in_the_order_of_the_robot(robot_of):
    names = robot_of("tx40").joint_names
    space = DesignSpace.from_robot(robot_of("tx40"), joints=[names[3], names[1], names[3]])
    assert list(space.moving) == [1, 3]
    assert space.joints == (names[1], names[3])


def test_free_poses_are_free(robot_of):
    robot = robot_of("example:panda")
    collisions = Collisions.from_robot(robot)
    walls = Workspace(lower=(-np.inf, -np.inf, 0.1))
    space = DesignSpace.from_robot(robot, collisions=collisions, workspace=walls)
    q = space.central_poses()
    assert not collisions.in_collision(q).any()
    assert (space.margins.margins(q) > 0.0).all()
    assert space.free(q).all()
    np.testing.assert_array_equal(q[:, 7:], np.tile(space.limits.middle[7:], (q.shape[0], 1)))


def test_no_pose_can_be_held(robot_of):
    robot = robot_of("tx40")
    limits = MotionLimits.from_robot(robot, effort=1e-3)
    with pytest.raises(TrajectoryError, match="times its limit"):
        DesignSpace.from_robot(robot, limits=limits).central_poses()


def test_a_margin_that_leaves_no_pose_free(robot_of):
    robot = robot_of("tx40")

    def poses(margin: float):
        collisions = Collisions.from_robot(robot, margin=margin)
        # Without margins of their own for pairs that are built close.
        strict = replace(collisions, farthest=np.full(len(collisions.pairs), np.inf))
        return DesignSpace.from_robot(robot, collisions=strict).central_poses()

    with pytest.raises(TrajectoryError, match="with a margin of 500 mm: base and link3") as told:
        poses(0.5)
    largest = float(str(told.value).split("Take a margin of ")[1].split(" mm")[0])
    assert poses(1e-3 * largest).shape[0] > 0
    with pytest.raises(TrajectoryError, match="Take a margin of"):
        poses(1e-3 * largest + 2e-4)


def test_boxes_that_stand_for_shapes_are_in_the_way_where_they_are_near(robot_of, rng):
    collisions = Collisions.from_robot(robot_of("tx40"), margin=0.01)  # of which no shape is known
    q = rng.uniform(-2.0, 2.0, (300, 6))
    room = (collisions.distances(q) - CollisionClearance(collisions).kept).min(axis=1)
    free = q[room > 0.01]
    assert len(free) > 20
    assert _boxes_in_the_way(collisions, free) == ()
    tight = q[np.argmin(room)][None]
    pair = collisions.pairs[int(np.argmin(collisions.distances(tight)[0]))]
    assert set(_boxes_in_the_way(collisions, tight)) >= set(pair) - {"base"}
    real = Collisions.from_robot(robot_of("example:ur5"), margin=0.03)
    assert _boxes_in_the_way(real, q) == ()  # its shapes are its own
