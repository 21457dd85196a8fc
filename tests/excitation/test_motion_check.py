from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.excitation.criterion import Determinant
from bodysense.excitation.limits import MotionLimits, limit_breaches
from bodysense.excitation.motion_check import Check
from bodysense.excitation.motion_family import FourierFamily
from bodysense.excitation.motion_problem import MotionProblem
from bodysense.excitation.motion_setup import moving_base_parameters
from bodysense.robot import Collisions, Robot, inverse_dynamics


@pytest.fixture
def problem(robot_of) -> MotionProblem:
    robot: Robot = robot_of("tx40")
    limits, moving = MotionLimits.of(robot), np.arange(6)
    base = moving_base_parameters(robot, moving, limits.middle)
    return MotionProblem(
        robot,
        moving,
        base,
        FourierFamily(4.0, False, 5),
        np.array(limits.middle),
        limits,
        np.ones(6),
        Determinant().measure(base, np.ones(base.size)),
        np.zeros((base.size, base.size)),
        1,
        10.0,
    )


def motion_of(problem: MotionProblem, rng: np.random.Generator, use: float):
    x = rng.normal(size=problem.shape)
    x[:, :, 0] = 0.0
    return x * (use / problem.linear_use(x).reshape(problem.shape[:2]))[:, :, np.newaxis]


def check_of(problem: MotionProblem, **changes) -> Check:
    return replace(Check(problem.robot, problem.limits, None, None, 1000.0), **changes)


def free(problem: MotionProblem) -> MotionLimits:
    return replace(problem.limits, effort=np.full(6, np.inf))


def test_a_motion_within_limits_is_left_alone(problem, rng):
    x = motion_of(problem, rng, 0.7)
    motions, checked, scale = check_of(problem, limits=free(problem)).repaired(problem, x)
    assert (checked.kept, scale) == (True, 1.0)
    t = np.linspace(0.0, 4.0, 9)
    np.testing.assert_array_equal(motions[0](t)[0], problem.motions(x)[0](t)[0])


def test_a_joint_beyond_its_limits_is_shrunk_alone(problem, rng):
    x = motion_of(problem, rng, 0.9)
    x[:, 2] *= 1.05 / 0.9
    motions, checked, scale = check_of(problem, limits=free(problem)).repaired(problem, x)
    assert checked.kept
    assert 0.9 < scale < 0.96
    assert limit_breaches(problem.robot, motions[0], 1000.0) == ()
    t = np.linspace(0.0, 4.0, 9)
    others = [0, 1, 3, 4, 5]
    before, after = problem.motions(x)[0](t)[0], motions[0](t)[0]
    np.testing.assert_allclose(after[:, others], before[:, others], atol=1e-12)


def test_too_much_torque_shrinks_all(problem, rng):
    x = motion_of(problem, rng, 0.9)
    _, q, v, a = problem.motions(x)[0].sample(1000.0)
    peak = np.abs(inverse_dynamics(problem.robot, q, v, a)).max(axis=0)
    limits = replace(problem.limits, effort=0.97 * peak)
    motions, checked, scale = check_of(problem, limits=limits).repaired(problem, x)
    assert checked.kept
    assert scale < 1.0
    _, q, v, a = motions[0].sample(1000.0)
    assert (np.abs(inverse_dynamics(problem.robot, q, v, a)) <= limits.effort * (1 + 1e-8)).all()


def test_what_cannot_be_kept_is_told(problem, rng):
    limits = replace(problem.limits, effort=np.full(6, 1e-3))
    _, checked, _ = check_of(problem, limits=limits).repaired(problem, motion_of(problem, rng, 0.5))
    assert not checked.kept


def test_the_closest_pair_and_its_time(robot_of, rng):
    robot = robot_of("example:ur5")
    collisions = Collisions.from_robot(robot, margin=-1.0)  # nothing counts as a collision
    limits = MotionLimits.of(robot)
    from bodysense.excitation import FourierTrajectory

    motions = [
        FourierTrajectory.for_robot(robot, rng=rng, duration=2.0, harmonics=4, fraction=f)
        for f in (0.2, 0.8)
    ]
    checked = Check(robot, limits, collisions, None, 100.0).of(motions)
    distances = [collisions.distances(motion.sample(100.0)[1]).min(axis=1) for motion in motions]
    nearest = int(np.argmin([d.min() for d in distances]))
    assert checked.closest is not None
    assert checked.closest.distance == pytest.approx(distances[nearest].min())
    time, index = checked.closest_time
    assert index == nearest
    assert distances[nearest][round(100.0 * time)] == pytest.approx(checked.closest.distance)
    assert checked.workspace_margin == np.inf
