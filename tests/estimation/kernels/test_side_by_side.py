"""Moments in one call are what they are one by one, whichever readings are missing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sensor_sets import all_sensors

from bodysense.estimation import Assumptions, Belief, MapDynamics
from bodysense.estimation._kernels.side_by_side import solve_side_by_side
from bodysense.estimation._kernels.solve import solve_moments
from bodysense.estimation.map_dynamics.groups import side_by_side
from bodysense.robot._kernels.lanes import LANES
from bodysense.robot.sensors import JointTorque, variances

BELIEFS = {
    "joint_acceleration": Belief.zero(1, 10.0),
    "base_acceleration": Belief.zero(6, 20.0),
}
SOFT = Assumptions(
    wrench=Belief.zero(6, 5.0),
    acceleration_slack=Belief.zero(6, 0.1),
    wrench_slack=Belief.zero(6, 0.2),
    torque_slack=Belief.zero(1, 0.1),
    **BELIEFS,
)
EXACT = Assumptions(**BELIEFS)


def one_by_one(problem, q, dq, y, detail, **more):
    """What `solve` finds of each moment alone."""
    parts = []
    for t in range(len(q)):
        of_moment = {key: value[t] for key, value in more.items()}
        parts.append(problem.solve(problem.moments(q[t], dq[t], y[t], **of_moment), detail))
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def assert_alike(problem, q, dq, y, detail, **more):
    found = problem.solve(problem.moments(q, dq, y, **more), detail)
    alone = one_by_one(problem, q, dq, y, detail, **more)
    for name, together, single in zip(found._fields, found, alone, strict=True):
        scale = np.nanmax(np.abs(single), initial=1e-300)
        np.testing.assert_allclose(
            together, single, rtol=1e-10, atol=1e-13 * scale, err_msg=name, equal_nan=True
        )


@pytest.mark.parametrize("assumptions", [SOFT, EXACT], ids=["soft", "exact"])
@pytest.mark.parametrize(
    "name", ["chain", "floating tree on a fork", "floating tree held at a leaf", "icub"]
)
def test_a_batch_is_its_moments(tree_named, name, assumptions):
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
    y[5, rng.uniform(size=y.shape[1]) < 0.1] = np.nan  # a moment unlike all others,
    y[6] = np.nan  # and one with nothing
    more = {}
    if tree.floating:
        more["base_twist"] = rng.normal(size=(T, 6))
        more["base_twist"][4] = 0.0
    elif root is not None:
        more["gravity"] = rng.normal(size=(T, 3))
    for detail in ("means", "slacks"):
        assert_alike(problem, q, dq, y, detail, **more)


def test_friction_of_each_moment(robot_of):
    rng = np.random.default_rng(3)
    robot = robot_of("tx40").with_friction("stribeck")
    robot = robot.with_parameters(robot.theta + rng.uniform(0.0, 0.1, robot.theta.size))
    sensors = [
        JointTorque(name=f"tau.{j}", joint=j, covariance=variances(0.1, 1), side="drive")
        for j in robot.joint_names
    ]
    problem = MapDynamics(robot, sensors, SOFT)
    q, dq, y = rng.normal(size=(3, 11, 6))
    assert_alike(problem, q, dq, y, "variances")


@pytest.mark.parametrize("T", [0, 1, 2, LANES, LANES + 1])
def test_any_number_of_moments(robot_of, T):
    problem = MapDynamics(robot_of("tx40"), [], SOFT)
    found = problem.estimate(np.zeros((T, 6)), np.zeros((T, 6)), np.zeros((T, 0)))
    assert found.mean.shape == (T, problem.variables.size)
    assert np.isfinite(found.mean).all()


@given(
    st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=40),
    st.sampled_from([[0, 6], [0, 1, 4, 6], [0, 1, 2, 3, 4, 5, 6]]),
)
def test_groups_hold_all_moments_with_the_same_readings(gone, first):
    y = np.where(np.array(gone), np.nan, 1.0)
    groups = side_by_side(y, np.array(first))
    assert groups.shape[1] == LANES
    np.testing.assert_array_equal(np.unique(groups), np.arange(len(y)))
    present = np.logical_and.reduceat(np.isfinite(y), first[:-1], axis=1)
    for group in groups:
        assert (present[group] == present[group[0]]).all()
    patterns = len(np.unique(present, axis=0))
    assert len(groups) <= len(y) // LANES + patterns  # no more than need be


def test_one_compilation_serves_all_arguments(tree_named, robot_of):
    """Of any memory order, read-only or repeated, fixed or floating, with and without sensors."""
    single, batch = len(solve_moments.signatures), len(solve_side_by_side.signatures)
    for robot in (robot_of("tx40"), robot_of("example:icub")):
        problem, n = MapDynamics(robot, [], SOFT), robot.n_joints
        q = np.asfortranarray(np.zeros((3, n)))
        fixed = np.zeros((3, n))
        fixed.flags.writeable = False
        problem.estimate(q, fixed, np.zeros((3, 0)), detail="slacks")
        problem.estimate(q[1], fixed[0], np.zeros(0), detail="means")
        if problem.tree.floating:
            problem.estimate(q, q, np.zeros((3, 0)), base_twist=np.zeros(6))
        else:
            problem.estimate(q, q, np.zeros((3, 0)), gravity=np.zeros(3))
    assert len(solve_moments.signatures) <= max(1, single)
    assert len(solve_side_by_side.signatures) <= max(1, batch)
