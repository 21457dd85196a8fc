from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import ShapeError
from bodysense.robot import Robot
from bodysense.robot.frames import LinkPoses, sample_poses, supporting_joints

ROBOTS = ("serial", "branched", "floating", "example:panda", "example:solo12")


def base_pose(robot: Robot, data: pin.Data) -> pin.SE3:
    return data.oMi[1] if robot.floating_base else pin.SE3.Identity()


@pytest.mark.parametrize("name", ROBOTS)
def test_poses_are_pinocchios_seen_from_the_base(robot_of, states_of, rng, name):
    robot = robot_of(name)
    q = states_of(robot, rng, 5)[0]
    poses = LinkPoses.from_robot(robot, q)
    data = robot.model.createData()
    base = int(robot.floating_base)
    for t in range(5):
        pin.forwardKinematics(robot.model, data, q[t])
        for j in range(-1, robot.n_joints):
            T = base_pose(robot, data).actInv(data.oMi[j + 1 + base])
            np.testing.assert_allclose(poses.R[j + 1, t], T.rotation, atol=1e-10)
            np.testing.assert_allclose(poses.p[j + 1, t], T.translation, atol=1e-10)


@pytest.mark.parametrize("name", ROBOTS)
def test_velocities_of_points_are_those_of_finite_differences(robot_of, states_of, rng, name):
    robot = robot_of(name)
    q, h = states_of(robot, rng, 3)[0], 1e-6
    local = rng.normal(size=3)
    poses, t = LinkPoses.from_robot(robot, q), np.arange(3)
    moves = supporting_joints(robot)
    for j in range(robot.n_joints):
        step = np.zeros(robot.nq)
        step[robot.nq - robot.n_joints + j] = h
        up, down = LinkPoses.from_robot(robot, q + step), LinkPoses.from_robot(robot, q - step)
        for row in range(robot.n_joints + 1):
            change = (up.R[row] @ local + up.p[row] - down.R[row] @ local - down.p[row]) / (2 * h)
            x = poses.R[row] @ local + poses.p[row]
            for axis in np.eye(3):
                slopes = poses.slopes(moves[row], t, x, axis)
                np.testing.assert_allclose(change @ axis, slopes[:, j], atol=1e-8)


@pytest.mark.parametrize("name", ["example:panda", "example:ur5", "floating", "serial"])
def test_sample_poses_keep_to_the_limits_and_fill_them(robot_of, name):
    robot = robot_of(name)
    q = sample_poses(robot, 500)
    joints = q[:, robot.nq - robot.n_joints :]
    lower, upper = robot.position_limits
    assert (joints >= lower).all()
    assert (joints <= upper).all()
    assert (np.ptp(joints, axis=0) > 0.9 * np.minimum(upper - lower, 1.0)).all()
    if robot.floating_base:
        np.testing.assert_array_equal(q[:, :7], np.broadcast_to([0, 0, 0, 0, 0, 0, 1], (500, 7)))
    np.testing.assert_array_equal(q, sample_poses(robot, 500))


def test_a_pose_of_the_wrong_length_is_refused(robot_of):
    with pytest.raises(ShapeError, match=r"q of panda has shape \(2, 3\)"):
        LinkPoses.from_robot(robot_of("example:panda"), np.zeros((2, 3)))
