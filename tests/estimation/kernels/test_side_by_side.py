"""Samples in one call are what they are one by one, whichever readings are missing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sensor_sets import all_sensors

from bodysense.compiled.lanes import LANES
from bodysense.errors import ShapeError
from bodysense.estimation import Assumptions, GaussianPrior, MapDynamics
from bodysense.estimation._kernels.solve import solve_side_by_side, solve_singles
from bodysense.estimation.map_dynamics import estimator
from bodysense.estimation.map_dynamics.solution import grouped
from bodysense.sensors import JointTorque, variances

BELIEFS = {
    "joint_acceleration": GaussianPrior.zero(1, 10.0),
    "base_acceleration": GaussianPrior.zero(6, 20.0),
}
SOFT = Assumptions(
    wrench=GaussianPrior.zero(6, 5.0),
    acceleration_slack=GaussianPrior.zero(6, 0.1),
    wrench_slack=GaussianPrior.zero(6, 0.2),
    torque_slack=GaussianPrior.zero(1, 0.1),
    **BELIEFS,
)
EXACT = Assumptions(**BELIEFS)


def sensors_of(robot, side):
    """The torque of each joint."""
    return [
        JointTorque(name=f"tau.{joint}", joint=joint, covariance=variances(0.1, 1), side=side)
        for joint in robot.joint_names
    ]


def one_by_one(problem, q, dq, y, detail, **more):
    """What `solve` finds of each sample alone."""
    parts = []
    for t in range(len(q)):
        of_sample = {key: value[t] for key, value in more.items()}
        parts.append(problem.solve(problem.samples(q[t], dq[t], y[t], **of_sample), detail))
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def assert_alike(problem, q, dq, y, detail, **more):
    found = problem.solve(problem.samples(q, dq, y, **more), detail)
    alone = one_by_one(problem, q, dq, y, detail, **more)
    for name, together, single in zip(found._fields, found, alone, strict=True):
        # a slack is what accelerations and wrenches leave of their equations
        numbers = np.append(single, found.d) if name == "slack" else single
        scale = np.nanmax(np.abs(numbers), initial=1e-300)
        np.testing.assert_allclose(
            together, single, rtol=1e-10, atol=1e-13 * scale, err_msg=name, equal_nan=True
        )


@pytest.mark.parametrize("assumptions", [SOFT, EXACT], ids=["soft", "exact"])
@pytest.mark.parametrize(
    "name", ["chain", "floating tree on a fork", "floating tree held at a leaf", "icub"]
)
def test_a_batch_is_its_samples(tree_named, name, assumptions):
    tree, rng = tree_named(name), np.random.default_rng(7)
    held = [] if tree.floating else [tree.names[0]]
    sensors = [
        sensor
        for sensor in all_sensors(tree, rng)
        if rng.uniform() < 0.3 and sensor.measurement(tree.robot).link not in held
    ]
    root = None if tree.names[0] == "world" else tree.names[0]
    fixed = None if root is None else not tree.floating
    problem = MapDynamics(tree.robot, sensors, assumptions, base=root, fixed=fixed)
    T = 2 * LANES + 3
    q, dq = rng.normal(size=(2, T, tree.robot.n_joints))
    q[1] = dq[2] = 0.0  # what is zero here is not in the other lanes
    y = rng.normal(size=(T, problem.layout.size))
    y[3 * np.arange(T // 3), 0] = np.nan  # a sensor at another rate,
    y[5, rng.uniform(size=y.shape[1]) < 0.1] = np.nan  # a sample unlike all others,
    y[6] = np.nan  # and one with nothing
    more = {}
    if tree.floating:
        more["base_twist"] = rng.normal(size=(T, 6))
        more["base_twist"][4] = 0.0
    elif root is not None:
        more["gravity"] = rng.normal(size=(T, 3))
    for detail in ("means", "slacks"):
        assert_alike(problem, q, dq, y, detail, **more)


def test_friction_of_each_sample(robot_of):
    rng = np.random.default_rng(3)
    robot = robot_of("tx40").with_friction("stribeck")
    robot = robot.with_parameters(robot.theta + rng.uniform(0.0, 0.1, robot.theta.size))
    problem = MapDynamics(robot, sensors_of(robot, "drive"), SOFT)
    q, dq, y = rng.normal(size=(3, 11, 6))
    assert_alike(problem, q, dq, y, "variances")


@pytest.mark.parametrize("T", [0, 1, 2, LANES, LANES + 1])
def test_any_number_of_samples(robot_of, T):
    problem = MapDynamics(robot_of("tx40"), [], SOFT)
    found = problem.estimate(np.zeros((T, 6)), np.zeros((T, 6)), np.zeros((T, 0)))
    assert found.mean.shape == (T, problem.variables.size)
    assert np.isfinite(found.mean).all()


@given(
    st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=40),
    st.sampled_from([[0, 6], [0, 1, 4, 6], [0, 1, 2, 3, 4, 5, 6]]),
)
def test_groups_hold_all_samples_with_the_same_readings(gone, first):
    y = np.where(np.array(gone), np.nan, 1.0)
    together, alone = grouped(y, np.array(first))
    assert together.shape[1] == LANES
    everything = np.concatenate([np.unique(together), alone])
    np.testing.assert_array_equal(np.sort(everything), np.arange(len(y)))
    present = np.logical_and.reduceat(np.isfinite(y), first[:-1], axis=1)
    for group in together:
        assert (present[group] == present[group[0]]).all()
    patterns = len(np.unique(present, axis=0))
    assert len(together) <= len(y) // LANES + patterns  # no more than need be


def test_rare_patterns_are_alone_if_they_are_many():
    y = np.ones((100, 40))
    y[:7, :7] = np.where(np.eye(7), np.nan, 1.0)
    assert grouped(y, np.arange(41))[1].size == 0
    y[:40] = np.where(np.eye(40), np.inf, 1.0)
    together, alone = grouped(y, np.arange(41))
    np.testing.assert_array_equal(np.sort(alone), np.arange(40))
    assert together.shape == (8, LANES)


def test_dropouts_everywhere(robot_of):
    robot, rng = robot_of("tx40"), np.random.default_rng(8)
    problem = MapDynamics(robot, sensors_of(robot, "joint"), SOFT)
    q, dq, y = rng.normal(size=(3, 60, 6))
    y[rng.uniform(size=y.shape) < 0.5] = np.nan
    y[rng.uniform(size=y.shape) < 0.1] = np.inf
    assert grouped(y, np.arange(7))[1].size > 0
    assert_alike(problem, q, dq, y, "slacks")


def test_loops_in_several_threads_share_an_estimator(robot_of):
    robot, rng = robot_of("tx40"), np.random.default_rng(9)
    problem = MapDynamics(robot, sensors_of(robot, "joint"), SOFT)
    q, dq, y = rng.normal(size=(3, 400, 6))
    expected = problem.estimate(q, dq, y).mean

    def loop(_):
        return [problem.estimate(*sample).mean for sample in zip(q, dq, y, strict=True)]

    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(loop, range(3)):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("T", [2, 2 * LANES])
def test_what_is_compiled_can_be_interrupted(robot_of, monkeypatch, T):
    """Only the main thread is interrupted: it is the first to call the kernel."""
    problem, threads = MapDynamics(robot_of("tx40"), [], SOFT), []

    def recorded(kernel):
        def record(*arguments):
            threads.append(threading.current_thread())
            kernel(*arguments)

        record.signatures = []
        return record

    for name in ("solve_singles", "solve_side_by_side"):
        monkeypatch.setattr(estimator, name, recorded(getattr(estimator, name)))
    problem.estimate(np.zeros((T, 6)), np.zeros((T, 6)), np.zeros((T, 0)))
    assert threads[0] is threading.main_thread()


@pytest.mark.parametrize("rows", [0, 2, 4, 6])
@pytest.mark.parametrize("T", [None, 5])
def test_one_row_a_sample_or_one_for_all(robot_of, rows, T):
    problem, shape = MapDynamics(robot_of("tx40"), [], SOFT), () if T is None else (T,)
    state = np.zeros((2, *shape, 6))
    for name, width in (("gravity", 3), ("base_twist", 6)):
        with pytest.raises(ShapeError, match=f"{name} has {rows} rows for {T or 1} samples"):
            problem.estimate(*state, np.zeros((*shape, 0)), **{name: np.zeros((rows, width))})


def test_one_compilation_serves_all_arguments(robot_of):
    """Of any memory order, read-only or repeated, fixed or floating, with and without sensors."""
    for robot in (robot_of("tx40"), robot_of("example:icub")):
        for sensors in ([], sensors_of(robot, "joint")):
            problem, n = MapDynamics(robot, sensors, SOFT), robot.n_joints
            q, y = np.asfortranarray(np.zeros((3, n))), np.zeros((3, problem.layout.size))
            fixed = np.zeros((3, n))
            fixed.flags.writeable = y.flags.writeable = False
            rest = np.zeros((3, 6))
            problem.estimate(q, fixed, y, base_twist=rest, detail="slacks")
            problem.estimate(q[1], fixed[0], y[0], base_twist=rest[:1], detail="means")
            one = {"base_twist": np.zeros(6)} if problem.tree.floating else {"gravity": np.zeros(3)}
            problem.estimate(q, q, np.asfortranarray(y), **one)
    assert len(solve_singles.signatures) == len(solve_side_by_side.signatures) == 1
