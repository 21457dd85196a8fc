from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import ShapeError, TrajectoryError
from bodysense.excitation.criterion import ConditionNumber, Determinant, Precision
from bodysense.excitation.design_space import DesignSpace
from bodysense.excitation.limits import (
    CollisionClearance,
    MotionLimits,
    WorkspaceClearance,
    limit_uses,
)
from bodysense.excitation.motion_family import MotionFamily
from bodysense.excitation.motion_problem import MotionProblem
from bodysense.robot import Collisions, Robot, Workspace, link_hulls, torque_regressor


@pytest.fixture
def smooth(robot_of, problem_of):
    """Makes problems of a robot with smooth friction."""

    def make(name: str = "tx40", **changes) -> MotionProblem:
        robot = robot_of(name).with_friction("coulomb", width=0.1)
        settings = {"criterion": ConditionNumber(), "effort": np.inf, "rate": 20.0}
        noise = np.linspace(1.0, 2.0, robot.n_joints)
        return problem_of(robot, noise=noise, **{**settings, **changes})

    return make


def slope(f, x, rng, step=1e-6):
    d = rng.normal(size=x.shape)
    return (f(x + step * d) - f(x - step * d)) / (2.0 * step), d.ravel()


CASES = {
    "fourier": {},
    "spline": {"family": MotionFamily("spline", 4.0, False, 8)},
    "anchored": {"family": MotionFamily("fourier", 4.0, True, 6)},
    "two": {"trajectories": 2},
    "d-optimal": {"criterion": Determinant()},
    "precision": {"criterion": Precision()},
    "three joints": {"moving": (1, 2, 4)},
}


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_gradients_by_finite_differences(case, smooth, motion_of, rng):
    problem = smooth(**CASES[case])
    x = motion_of(problem, rng)
    at = problem.evaluate(x, 3.0)
    expected, d = slope(lambda y: problem.evaluate(y, 3.0).smooth, x, rng)
    assert at.gradient @ d == pytest.approx(expected, rel=1e-5, abs=1e-7)
    expected, d = slope(lambda y: problem.evaluate(y, 3.0).barrier, x, rng)
    assert at.barrier_gradient @ d == pytest.approx(expected, rel=1e-6, abs=1e-7)
    bend, d = slope(lambda y: problem.evaluate(y, 3.0).barrier_gradient, x, rng)
    np.testing.assert_allclose(at.barrier_curvature @ d, bend, atol=1e-5 * np.abs(bend).max())


def test_gradient_of_the_torque_barrier(smooth, motion_of, rng):
    free = smooth()
    x = motion_of(free, rng)
    q, v, a = free.states(x)
    peak = np.abs(free.regressor.rows(q, v, a, np.ones(6)) @ free.theta_base).max()
    problem = smooth(effort=1.03 * peak)
    at = problem.evaluate(x, 3.0)
    assert at.barrier > free.evaluate(x, 3.0).barrier
    expected, d = slope(lambda y: problem.evaluate(y, 3.0).barrier, x, rng, step=1e-7)
    assert at.barrier_gradient @ d == pytest.approx(expected, rel=1e-5)
    # The curvature is that of the nearest torques: it must see most of how the gradient bends.
    extra = at.barrier_curvature - free.evaluate(x, 3.0).barrier_curvature
    assert np.linalg.eigvalsh(extra).min() > -1e-9 * np.abs(extra).max()
    assert np.abs(extra).max() > 0.0
    assert not np.isfinite(smooth(effort=0.97 * peak).evaluate(x, 3.0).barrier)


@pytest.mark.parametrize("kind", ["collisions", "workspace"])
def test_gradient_of_clearances(kind, robot_of, smooth, motion_of, rng):
    robot = robot_of("example:ur5")
    free = smooth("example:ur5")
    x = motion_of(free, rng, use=0.3)
    q = free.states(x)[0]
    clearance: CollisionClearance | WorkspaceClearance
    if kind == "collisions":  # such that the closest pair has 2 cm left
        distance = Collisions.from_robot(robot, margin=0.0).closest(q).distance
        clearance = CollisionClearance(
            Collisions.from_robot(robot, margin=distance - 0.02), between=0.0
        )
    else:
        hulls = link_hulls(robot)
        low = Workspace(lower=(-np.inf, -np.inf, -2.0)).around(robot, hulls).margins(q).min() - 2.0
        room = Workspace(lower=(-np.inf, -np.inf, low - 0.02)).around(robot, hulls)
        clearance = WorkspaceClearance(room, between=0.0)
    assert clearance.slacks(q)[1].min() == pytest.approx(0.25)
    problem = smooth("example:ur5", clearances=(clearance,))
    at = problem.evaluate(x, 3.0)
    assert at.barrier > free.evaluate(x, 3.0).barrier
    expected, d = slope(lambda y: problem.evaluate(y, 3.0).barrier, x, rng, step=1e-7)
    assert at.barrier_gradient @ d == pytest.approx(expected, rel=1e-4)
    extra = at.barrier_curvature - free.evaluate(x, 3.0).barrier_curvature
    assert np.linalg.eigvalsh(extra).min() > -1e-9 * np.abs(extra).max()


def test_information_is_that_of_the_stacked_regressor(smooth, motion_of, rng):
    problem = smooth(moving=(0, 2, 3), trajectories=2)
    motions = problem.motions(motion_of(problem, rng))
    base, stacked = problem.regressor.base, []
    for motion in motions:
        _, q, v, a = motion.sample(100.0)
        Y = torque_regressor(problem.space.robot, q, v, a, columns=base.independent)
        stacked.append((Y / problem.noise[:, np.newaxis])[:, [0, 2, 3]].reshape(-1, base.size))
    W = np.sqrt(20.0 / 100.0) * np.vstack(stacked)
    found = problem.information(motions, 100.0)
    np.testing.assert_allclose(found, W.T @ W, atol=1e-10 * np.abs(found).max())


def test_few_samples_tell_as_much_as_many(smooth, motion_of, rng):
    problem = smooth()
    x = motion_of(problem, rng)
    fine = problem.measure(problem.information(problem.motions(x), 1000.0), 1.0)[0]
    assert problem.evaluate(x, 1.0).value == pytest.approx(fine, rel=0.05)


def test_use_and_longest_step_agree_with_the_trajectory(smooth, motion_of, rng):
    problem = smooth()
    x, d = motion_of(problem, rng), motion_of(problem, rng)
    step = problem.longest_step(x, d)
    assert problem.linear_use(x + step * d).max() == pytest.approx(1.0)
    uses = limit_uses(problem.space.robot, problem.space.limits, problem.motions(x), 1000.0)
    peak = max(use.ratio for use in uses if use.quantity != "torque")
    assert problem.linear_use(x).max() == pytest.approx(peak, rel=0.02)


def test_joints_that_hold_do_not_move(smooth, motion_of, rng):
    problem = smooth(moving=(1, 3))
    _, q, v, _ = problem.motions(motion_of(problem, rng))[0].sample(50.0)
    assert np.ptp(q[:, [0, 2, 4, 5]], axis=0).max() == 0.0
    assert (np.ptp(v[:, [1, 3]], axis=0) > 0.0).all()


def test_outside_the_limits_the_barrier_is_infinite(smooth, motion_of, rng):
    problem = smooth()
    x = motion_of(problem, rng, use=1.01)
    assert problem.evaluate(x, 1.0).barrier == np.inf
    assert not problem.feasible(x)
    assert problem.feasible(motion_of(problem, rng, use=0.5))


# -- from a space ---------------------------------------------------------------------------


def set_up(robot: Robot, start=None, **settings) -> MotionProblem:
    names = ("joints", "limits", "collisions", "workspace")
    space = DesignSpace.from_robot(robot, **{k: settings.pop(k, None) for k in names})
    family = MotionFamily("fourier", 4.0, start is not None, 5)
    return MotionProblem.from_space(space, family, start=start, **settings)


def test_it_is_the_problem_that_was_asked_for(robot_of):
    robot = robot_of("example:panda")
    collisions = Collisions.from_robot(robot)
    problem = set_up(
        robot,
        collisions=collisions,
        workspace=Workspace(lower=(-np.inf, -np.inf, 0.0)),
        trajectories=2,
        rate=500.0,
        noise=0.5,
    )
    assert problem.shape == (2, 7, 9)
    assert problem.row_rate == 500.0
    assert len(problem.space.clearances) == 2
    np.testing.assert_array_equal(problem.noise, 0.5)
    assert problem.sizes.shape == (problem.theta_base.size,)
    assert not collisions.in_collision(problem.centres).any()
    assert any("hold" in note for note in problem.notes)


def test_what_is_known_may_be_a_function_of_the_base_parameters(robot_of):
    robot = robot_of("tx40")
    asked = []

    def told(smooth, base, noise):
        asked.append((smooth, base, noise))
        return np.diag(np.arange(1.0, base.size + 1.0))

    problem = set_up(robot, known=told, noise=0.3)
    ((smooth, base, noise),) = asked
    assert smooth is problem.regressor.robot
    assert base is problem.regressor.base
    np.testing.assert_array_equal(noise, problem.noise)
    np.testing.assert_allclose(np.diag(problem.known), np.arange(1.0, base.size + 1.0) ** 2)


def test_a_function_that_gives_another_size(robot_of):
    with pytest.raises(ShapeError, match="known has shape"):
        set_up(robot_of("tx40"), known=lambda *_: np.eye(3))


def test_a_held_joint_outside_its_range(robot_of):
    robot = robot_of("tx40")
    start = np.array(MotionLimits.from_robot(robot).middle)
    start[1] = robot.position_limits[1][1] + 0.5
    names = robot.joint_names
    with pytest.raises(TrajectoryError, match=f"{names[1]}, which holds, at .* hold it inside"):
        set_up(robot, joints=names[3:], start=start)


def test_a_held_joint_that_cannot_carry_its_load(robot_of):
    robot = robot_of("tx40")
    effort = np.full(6, np.inf)
    effort[1] = 1e-6
    limits = MotionLimits.from_robot(robot, effort=effort)
    name = robot.joint_names[1]
    start = np.array(limits.middle) + 0.3
    with pytest.raises(TrajectoryError, match=f"{name} needs .* hold the start pose"):
        set_up(robot, joints=robot.joint_names[3:], start=start, limits=limits)
    with pytest.raises(TrajectoryError, match=f"{name}, which holds, needs"):
        set_up(robot, joints=robot.joint_names[3:], limits=limits)
