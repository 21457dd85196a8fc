from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import ShapeError, TrajectoryError
from bodysense.excitation.limits import MotionLimits
from bodysense.excitation.problem_setup import motion_problem_of
from bodysense.robot import Collisions, Workspace

SHORT = {"duration": 4.0, "harmonics": 5}


def test_it_is_the_problem_that_was_asked_for(robot_of):
    robot = robot_of("example:panda")
    collisions = Collisions.from_robot(robot)
    setup = motion_problem_of(
        robot,
        collisions=collisions,
        workspace=Workspace(lower=(-np.inf, -np.inf, 0.0)),
        trajectories=2,
        rate=500.0,
        noise=0.5,
        **SHORT,
    )
    problem = setup.problem
    assert problem.shape == (2, 7, 9)
    assert problem.row_rate == 500.0
    assert len(problem.clearances) == 2
    np.testing.assert_array_equal(problem.noise, 0.5)
    assert setup.sizes.shape == (problem.base.size,)
    assert not collisions.in_collision(setup.centres).any()
    assert any("hold" in note for note in setup.notes)


def test_what_is_known_may_be_a_function_of_the_base_parameters(robot_of):
    robot = robot_of("tx40")
    asked = []

    def told(smooth, base, noise):
        asked.append((smooth, base, noise))
        return np.diag(np.arange(1.0, base.size + 1.0))

    setup = motion_problem_of(robot, known=told, noise=0.3, **SHORT)
    problem = setup.problem
    ((smooth, base, noise),) = asked
    assert smooth is problem.robot
    assert base is problem.base
    np.testing.assert_array_equal(noise, problem.noise)
    np.testing.assert_allclose(np.diag(problem.known), np.arange(1.0, base.size + 1.0) ** 2)


def test_a_function_that_gives_another_size(robot_of):
    with pytest.raises(ShapeError, match="known has shape"):
        motion_problem_of(robot_of("tx40"), known=lambda *_: np.eye(3), **SHORT)


def test_a_held_joint_outside_its_range(robot_of):
    robot = robot_of("tx40")
    start = np.array(MotionLimits.of(robot).middle)
    start[1] = robot.position_limits[1][1] + 0.5
    names = robot.joint_names
    with pytest.raises(TrajectoryError, match=f"{names[1]}, which holds, at .* hold it inside"):
        motion_problem_of(robot, joints=names[3:], start=start, **SHORT)


def test_a_held_joint_that_cannot_carry_its_load(robot_of):
    robot = robot_of("tx40")
    effort = np.full(6, np.inf)
    effort[1] = 1e-6
    limits = MotionLimits.of(robot, effort=effort)
    name = robot.joint_names[1]
    start = np.array(limits.middle) + 0.3
    with pytest.raises(TrajectoryError, match=f"{name} needs .* hold the start pose"):
        motion_problem_of(robot, joints=robot.joint_names[3:], start=start, limits=limits, **SHORT)
    with pytest.raises(TrajectoryError, match=f"{name}, which holds, needs"):
        motion_problem_of(robot, joints=robot.joint_names[3:], limits=limits, **SHORT)
