from __future__ import annotations

import numpy as np
import pytest

from bodysense.excitation.criterion import ConditionNumber, Criterion, Determinant, Precision
from bodysense.excitation.limits import (
    CollisionClearance,
    MotionLimits,
    WorkspaceClearance,
    limit_uses,
)
from bodysense.excitation.motion_family import FourierFamily, MotionFamily, SplineFamily
from bodysense.excitation.motion_problem import MotionProblem
from bodysense.excitation.motion_setup import moving_base_parameters
from bodysense.robot import Collisions, Robot, Workspace, link_hulls, torque_regressor


def problem_of(
    robot: Robot,
    *,
    family: MotionFamily | None = None,
    criterion: Criterion | None = None,
    effort: float = np.inf,
    moving: tuple[int, ...] = (0, 1, 2, 3, 4, 5),
    trajectories: int = 1,
    clearances=(),
) -> MotionProblem:
    robot = robot.with_friction("coulomb", width=0.1)
    places = np.array(moving)
    limits = MotionLimits.of(robot, effort=effort)
    base = moving_base_parameters(robot, places, limits.middle)
    return MotionProblem(
        robot,
        places,
        base,
        FourierFamily(4.0, False, 5) if family is None else family,
        np.array(limits.middle),
        limits,
        np.linspace(1.0, 2.0, robot.n_joints),
        (criterion or ConditionNumber()).measure(base, np.ones(base.size)),
        np.zeros((base.size, base.size)),
        trajectories,
        20.0,
        tuple(clearances),
    )


def some_x(problem: MotionProblem, rng: np.random.Generator, use: float = 0.6):
    x = rng.normal(size=problem.shape)
    if not problem.family.anchored:
        x[:, :, 0] = 0.0
    scale = use / problem.linear_use(x).reshape(problem.shape[:2])
    return x * scale[:, :, np.newaxis]


def slope(f, x, rng, step=1e-6):
    d = rng.normal(size=x.shape)
    return (f(x + step * d) - f(x - step * d)) / (2.0 * step), d.ravel()


CASES = {
    "fourier": {},
    "spline": {"family": SplineFamily(4.0, False, 8)},
    "anchored": {"family": FourierFamily(4.0, True, 6)},
    "two": {"trajectories": 2},
    "d-optimal": {"criterion": Determinant()},
    "precision": {"criterion": Precision()},
    "three joints": {"moving": (1, 2, 4)},
}


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_gradients_by_finite_differences(case, robot_of, rng):
    problem = problem_of(robot_of("tx40"), **CASES[case])
    x = some_x(problem, rng)
    at = problem.evaluate(x, 3.0)
    expected, d = slope(lambda y: problem.evaluate(y, 3.0).smooth, x, rng)
    assert at.gradient @ d == pytest.approx(expected, rel=1e-5, abs=1e-7)
    expected, d = slope(lambda y: problem.evaluate(y, 3.0).barrier, x, rng)
    assert at.barrier_gradient @ d == pytest.approx(expected, rel=1e-6, abs=1e-7)
    bend, d = slope(lambda y: problem.evaluate(y, 3.0).barrier_gradient, x, rng)
    np.testing.assert_allclose(at.barrier_curvature @ d, bend, atol=1e-5 * np.abs(bend).max())


def test_gradient_of_the_torque_barrier(robot_of, rng):
    free = problem_of(robot_of("tx40"))
    x = some_x(free, rng)
    q, v, a = free.states(x)
    peak = np.abs(free.regressor(q, v, a, np.ones(6)) @ free.base.to_base(free.robot.theta)).max()
    problem = problem_of(robot_of("tx40"), effort=1.03 * peak)
    at = problem.evaluate(x, 3.0)
    assert at.barrier > free.evaluate(x, 3.0).barrier
    expected, d = slope(lambda y: problem.evaluate(y, 3.0).barrier, x, rng, step=1e-7)
    assert at.barrier_gradient @ d == pytest.approx(expected, rel=1e-5)
    # The curvature is that of the nearest torques: it must see most of how the gradient bends.
    extra = at.barrier_curvature - free.evaluate(x, 3.0).barrier_curvature
    assert np.linalg.eigvalsh(extra).min() > -1e-9 * np.abs(extra).max()
    assert np.abs(extra).max() > 0.0
    assert not np.isfinite(
        problem_of(robot_of("tx40"), effort=0.97 * peak).evaluate(x, 3.0).barrier
    )


@pytest.mark.parametrize("kind", ["collisions", "workspace"])
def test_gradient_of_clearances(kind, robot_of, rng):
    robot = robot_of("example:ur5")
    free = problem_of(robot)
    x = some_x(free, rng, use=0.3)
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
    problem = problem_of(robot, clearances=(clearance,))
    at = problem.evaluate(x, 3.0)
    assert at.barrier > free.evaluate(x, 3.0).barrier
    expected, d = slope(lambda y: problem.evaluate(y, 3.0).barrier, x, rng, step=1e-7)
    assert at.barrier_gradient @ d == pytest.approx(expected, rel=1e-4)
    extra = at.barrier_curvature - free.evaluate(x, 3.0).barrier_curvature
    assert np.linalg.eigvalsh(extra).min() > -1e-9 * np.abs(extra).max()


def test_information_is_that_of_the_stacked_regressor(robot_of, rng):
    problem = problem_of(robot_of("tx40"), moving=(0, 2, 3), trajectories=2)
    motions = problem.motions(some_x(problem, rng))
    stacked = []
    for motion in motions:
        _, q, v, a = motion.sample(100.0)
        Y = torque_regressor(problem.robot, q, v, a, columns=problem.base.independent)
        stacked.append(
            (Y / problem.noise[:, np.newaxis])[:, [0, 2, 3]].reshape(-1, problem.base.size)
        )
    W = np.sqrt(20.0 / 100.0) * np.vstack(stacked)
    found = problem.information(motions, 100.0)
    np.testing.assert_allclose(found, W.T @ W, atol=1e-10 * np.abs(found).max())


def test_few_samples_tell_as_much_as_many(robot_of, rng):
    problem = problem_of(robot_of("tx40"))
    x = some_x(problem, rng)
    fine = problem.measure.value(problem.information(problem.motions(x), 1000.0))
    assert problem.evaluate(x, 1.0).value == pytest.approx(fine, rel=0.05)


def test_use_and_longest_step_agree_with_the_trajectory(robot_of, rng):
    problem = problem_of(robot_of("tx40"))
    x, d = some_x(problem, rng), some_x(problem, rng)
    step = problem.longest_step(x, d)
    assert problem.linear_use(x + step * d).max() == pytest.approx(1.0)
    uses = limit_uses(problem.robot, problem.limits, problem.motions(x), 1000.0)
    peak = max(use.ratio for use in uses if use.quantity != "torque")
    assert problem.linear_use(x).max() == pytest.approx(peak, rel=0.02)


def test_joints_that_hold_do_not_move(robot_of, rng):
    problem = problem_of(robot_of("tx40"), moving=(1, 3))
    _, q, v, _ = problem.motions(some_x(problem, rng))[0].sample(50.0)
    assert np.ptp(q[:, [0, 2, 4, 5]], axis=0).max() == 0.0
    assert (np.ptp(v[:, [1, 3]], axis=0) > 0.0).all()


def test_outside_the_limits_the_barrier_is_infinite(robot_of, rng):
    problem = problem_of(robot_of("tx40"))
    x = some_x(problem, rng, use=1.01)
    assert problem.evaluate(x, 1.0).barrier == np.inf
    assert not problem.feasible(x)
    assert problem.feasible(some_x(problem, rng, use=0.5))
