from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.errors import TrajectoryError
from bodysense.excitation import MotionLimits
from bodysense.excitation.motion_setup import (
    free_mask,
    free_poses,
    moving_base_parameters,
    moving_joints,
    with_smooth_friction,
)
from bodysense.robot import (
    Collisions,
    Workspace,
    base_parameters,
    inverse_dynamics,
    link_hulls,
    torque_regressor,
)


def test_joints_that_carry_next_to_nothing_hold(robot_of):
    moving, notes = moving_joints(robot_of("example:panda"), None)
    assert list(moving) == list(range(7))
    assert "panda_finger_joint2" in notes[0]


def test_all_joints_of_an_arm_move(robot_of):
    moving, notes = moving_joints(robot_of("tx40"), None)
    assert (list(moving), notes) == (list(range(6)), ())


def test_named_joints_in_the_order_of_the_robot(robot_of):
    names = robot_of("tx40").joint_names
    moving, _ = moving_joints(robot_of("tx40"), [names[3], names[1], names[3]])
    assert list(moving) == [1, 3]


@pytest.mark.parametrize("name", ["tx40", "tx40-three", "example:ur5"])
def test_with_all_joints_moving_they_are_the_robots(name, robot_of):
    robot = robot_of(name)
    found = moving_base_parameters(robot, np.arange(6), np.zeros(6))
    expected = base_parameters(robot)
    np.testing.assert_array_equal(found.independent, expected.independent)
    np.testing.assert_allclose(found.K, expected.K, atol=1e-7)


def test_base_parameters_of_a_wrist_explain_its_torques(robot_of, rng):
    robot = robot_of("tx40")
    pose = np.array([0.3, -0.4, 1.0, 0.0, 0.0, 0.0])
    wrist = np.array([3, 4, 5])
    base = moving_base_parameters(robot, wrist, pose)
    q = np.tile(pose, (30, 1))
    v, a = np.zeros_like(q), np.zeros_like(q)
    for x in (q, v, a):
        x[:, wrist] = rng.normal(size=(30, 3))
    Y = torque_regressor(robot, q, v, a)[:, wrist].reshape(-1, robot.layout.size)
    W = Y[:, base.independent]
    assert np.linalg.matrix_rank(W) == base.size == np.linalg.matrix_rank(Y)
    tau = inverse_dynamics(robot, q, v, a)[:, wrist].ravel()
    np.testing.assert_allclose(W @ base.to_base(robot.theta), tau, atol=1e-6 * np.abs(tau).max())
    assert base.size < base_parameters(robot).size


def test_standing_still_shows_gravity_alone(robot_of):
    base = moving_base_parameters(robot_of("tx40"), np.arange(6), np.zeros(6), still=True)
    assert base.size > 0
    assert all(base.layout.names[k][:2] in ("MX", "MY", "MZ") for k in base.independent)


def test_a_sharp_sign_is_smoothed(robot_of):
    robot = robot_of("example:panda")
    smooth, notes = with_smooth_friction(robot, None)
    assert (smooth.friction.shape[:, 0] == 0.02).all()
    assert "smoothed" in notes[0]
    again, notes = with_smooth_friction(smooth, None)
    assert again is smooth
    assert notes == ()


def test_a_wide_sign_keeps_its_width(robot_of):
    robot = robot_of("example:panda").with_friction("coulomb", width=np.linspace(0.0, 0.1, 9))
    smooth, _ = with_smooth_friction(robot, None)
    np.testing.assert_allclose(smooth.friction.shape[:, 0], np.linspace(0.0, 0.1, 9).clip(0.02))


def test_another_law(robot_of):
    smooth, _ = with_smooth_friction(robot_of("tx40"), "viscous")
    assert smooth.friction.model.name == "viscous"


def test_free_poses_are_free(robot_of):
    robot = robot_of("example:panda")
    limits, moving = MotionLimits.of(robot), np.arange(7)
    collisions = Collisions.from_robot(robot)
    room = Workspace(lower=(-np.inf, -np.inf, 0.1)).around(robot, link_hulls(robot))
    q = free_poses(robot, limits, moving, limits.middle, collisions, room)
    assert not collisions.in_collision(q).any()
    assert (room.margins(q) > 0.0).all()
    assert free_mask(robot, limits, q, collisions, room).all()
    np.testing.assert_array_equal(q[:, 7:], np.tile(limits.middle[7:], (q.shape[0], 1)))


def test_no_pose_can_be_held(robot_of):
    robot = robot_of("tx40")
    limits = MotionLimits.of(robot, effort=1e-3)
    with pytest.raises(TrajectoryError, match="times its limit"):
        free_poses(robot, limits, np.arange(6), limits.middle, None, None)


def test_a_margin_that_leaves_no_pose_free(robot_of):
    robot = robot_of("tx40")
    limits, moving = MotionLimits.of(robot), np.arange(6)

    def poses(margin: float):
        collisions = Collisions.from_robot(robot, margin=margin)
        # Without margins of their own for pairs that are built close.
        strict = replace(collisions, farthest=np.full(len(collisions.pairs), np.inf))
        return free_poses(robot, limits, moving, limits.middle, strict, None)

    with pytest.raises(TrajectoryError, match="with a margin of 500 mm: base and link3") as told:
        poses(0.5)
    largest = float(str(told.value).split("Take a margin of ")[1].split(" mm")[0])
    assert poses(1e-3 * largest).shape[0] > 0
    with pytest.raises(TrajectoryError, match="Take a margin of"):
        poses(1e-3 * largest + 2e-4)
