from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike

from bodysense.excitation import FourierTrajectory, MotionLimits, limit_breaches
from bodysense.excitation.design import repair_motions
from bodysense.excitation.design_space import DesignSpace
from bodysense.excitation.motion_problem import MotionProblem
from bodysense.robot import Collisions, inverse_dynamics

RATE = 1000.0


@pytest.fixture
def problem(robot_of, problem_of) -> MotionProblem:
    return problem_of(robot_of("tx40"))


def limited(problem: MotionProblem, effort: ArrayLike) -> MotionProblem:
    """The problem with other limits of torque."""
    limits = replace(problem.space.limits, effort=np.broadcast_to(effort, 6))
    return replace(problem, space=replace(problem.space, limits=limits))


def test_a_motion_within_limits_is_left_alone(problem, motion_of, rng):
    x = motion_of(problem, rng, 0.7)
    motions, checked, scale = repair_motions(limited(problem, np.inf), x, RATE)
    assert (checked.kept, scale) == (True, 1.0)
    t = np.linspace(0.0, 4.0, 9)
    np.testing.assert_array_equal(motions[0](t)[0], problem.motions(x)[0](t)[0])


def test_a_joint_beyond_its_limits_is_shrunk_alone(problem, motion_of, rng):
    x = motion_of(problem, rng, 0.9)
    x[:, 2] *= 1.05 / 0.9
    motions, checked, scale = repair_motions(limited(problem, np.inf), x, RATE)
    assert checked.kept
    assert 0.9 < scale < 0.96
    assert limit_breaches(problem.space.robot, motions[0], 1000.0) == ()
    t = np.linspace(0.0, 4.0, 9)
    others = [0, 1, 3, 4, 5]
    before, after = problem.motions(x)[0](t)[0], motions[0](t)[0]
    np.testing.assert_allclose(after[:, others], before[:, others], atol=1e-12)


def test_too_much_torque_shrinks_all(problem, motion_of, rng):
    x = motion_of(problem, rng, 0.9)
    _, q, v, a = problem.motions(x)[0].sample(1000.0)
    peak = np.abs(inverse_dynamics(problem.space.robot, q, v, a)).max(axis=0)
    effort = 0.97 * peak
    motions, checked, scale = repair_motions(limited(problem, effort), x, RATE)
    assert checked.kept
    assert scale < 1.0
    _, q, v, a = motions[0].sample(1000.0)
    assert (np.abs(inverse_dynamics(problem.space.robot, q, v, a)) <= effort * (1 + 1e-8)).all()


def test_what_cannot_be_kept_is_told(problem, motion_of, rng):
    x = motion_of(problem, rng, 0.5)
    _, checked, _ = repair_motions(limited(problem, 1e-3), x, RATE)
    assert not checked.kept


def test_the_closest_pair_and_its_time(robot_of, rng):
    robot = robot_of("example:ur5")
    collisions = Collisions.from_robot(robot, margin=-1.0)  # nothing counts as a collision
    limits = MotionLimits.from_robot(robot)
    motions = [
        FourierTrajectory.for_robot(robot, rng=rng, duration=2.0, harmonics=4, fraction=f)
        for f in (0.2, 0.8)
    ]
    checked = DesignSpace(robot, np.arange(6), limits, collisions).check(motions, 100.0)
    distances = [collisions.distances(motion.sample(100.0)[1]).min(axis=1) for motion in motions]
    nearest = int(np.argmin([d.min() for d in distances]))
    assert checked.closest is not None
    assert checked.closest.distance == pytest.approx(distances[nearest].min())
    time, index = checked.closest_time
    assert index == nearest
    assert distances[nearest][round(100.0 * time)] == pytest.approx(checked.closest.distance)
    assert checked.workspace_margin == np.inf
