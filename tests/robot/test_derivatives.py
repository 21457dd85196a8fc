"""The kernel of the inverse dynamics' derivatives against Pinocchio and finite differences."""

from __future__ import annotations

import numba
import numpy as np
import pinocchio as pin
import pytest

from bodysense.robot import Robot, inverse_dynamics
from bodysense.robot._kernels.derivatives import inverse_dynamics_derivatives
from bodysense.robot._kernels.dynamics import gather
from bodysense.robot._kernels.tree import DERIVATIVES_WIDTH, make_scratch, move, place, weigh


@numba.njit
def derivatives(tree, theta, q, v, a, g, dq, dv):
    n = q.size
    w = make_scratch(n, 0, tree.term.size, DERIVATIVES_WIDTH)
    place(tree, q, w)
    move(tree, v, a, True, g, w.body)
    weigh(tree, theta, w.body)
    gather(tree, w.body, w.bias)
    inverse_dynamics_derivatives(tree, w.body, np.zeros(6), dq, dv)


def rigid_derivatives(robot: Robot, theta, q, v, a):
    dq, dv = np.zeros((2, robot.nv, robot.nv))
    derivatives(robot.tree, np.array(theta), q, v, a, np.array(robot.tree.gravity), dq, dv)
    return dq, dv


@pytest.mark.parametrize("branched", [False, True], ids=["serial", "branched"])
@pytest.mark.parametrize("seed", range(6))
def test_random_trees(branched, seed, random_model, states_of):
    rng = np.random.default_rng(seed)
    robot = Robot.from_pinocchio(random_model(rng, 4 + 2 * seed, branched=branched))
    q, v, a = (x[0] for x in states_of(robot, rng, 1))
    dq, dv = rigid_derivatives(robot, robot.theta, q, v, a)
    data = robot.model.createData()
    expected_dq, expected_dv, _ = pin.computeRNEADerivatives(robot.model, data, q, v, a)
    np.testing.assert_allclose(dq, expected_dq, rtol=0, atol=1e-12 * np.abs(expected_dq).max())
    np.testing.assert_allclose(dv, expected_dv, rtol=0, atol=1e-12 * np.abs(expected_dv).max())


@pytest.mark.parametrize("name", ["tx40", "rv2sq", "example:panda", "example:tiago"])
def test_real_robots(name, robot_of, states_of, rng):
    robot = robot_of(name)
    q, v, a = (x[0] for x in states_of(robot, rng, 1))
    dq, dv = rigid_derivatives(robot, robot.theta, q, v, a)
    data = robot.model.createData()
    expected_dq, expected_dv, _ = pin.computeRNEADerivatives(robot.model, data, q, v, a)
    np.testing.assert_allclose(dq, expected_dq, rtol=0, atol=1e-11 * np.abs(expected_dq).max())
    np.testing.assert_allclose(dv, expected_dv, rtol=0, atol=1e-11 * np.abs(expected_dv).max())


def test_parameters_need_not_be_physical(robot_of, states_of, rng):
    robot = robot_of("branched").with_friction("none", coefficients={})
    q, v, a = (x[0] for x in states_of(robot, rng, 1))
    theta = rng.normal(size=robot.layout.size)
    theta[robot.layout.link(2).start] = 0.0  # no mass, but first moments
    dq, dv = rigid_derivatives(robot, theta, q, v, a)
    h, n = 1e-5, robot.nv
    steps = h * np.vstack([np.eye(n), -np.eye(n)])
    still = np.zeros_like(steps)
    for actual, dx, dy in ((dq, steps, still), (dv, still, steps)):
        tau = inverse_dynamics(robot, q + dx, v + dy, a + still, theta=theta)
        differences = (tau[:n] - tau[n:]).T / (2 * h)
        scale = np.abs(differences).max()
        np.testing.assert_allclose(actual, differences, rtol=0, atol=1e-7 * scale)


def test_what_is_zero_by_structure_is_not_written(robot_of, states_of, rng):
    robot = robot_of("branched")
    q, v, a = (x[0] for x in states_of(robot, rng, 1))
    dq, dv = np.full((2, 12, 12), np.nan)
    derivatives(robot.tree, np.array(robot.theta), q, v, a, robot.tree.gravity, dq, dv)
    above = np.eye(12, dtype=bool)
    for j in range(12):
        i = robot.tree.parent[j]
        while i >= 0:
            above[i, j] = above[j, i] = True
            i = robot.tree.parent[i]
    np.testing.assert_array_equal(np.isfinite(dq), above)
    np.testing.assert_array_equal(np.isfinite(dv), above)
