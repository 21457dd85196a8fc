"""Gradients of functions of regressors against Pinocchio and finite differences."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.robot import Robot, torque_regressor
from bodysense.robot._kernels.adjoint import regressor_rows, regressor_rows_adjoint
from bodysense.robot.dynamics import regressor_pattern


def all_entries(robot: Robot):
    rows, columns = np.nonzero(regressor_pattern(robot))
    return np.ascontiguousarray(np.stack([rows, columns, rows, columns], axis=1), dtype=np.int64)


def rows_of(robot: Robot, q, v, a, entries, scale, shape):
    Y = np.zeros((q.shape[0], *shape))
    regressor_rows(0, q.shape[0], robot.tree, q, v, a, entries, scale, Y)
    return Y


def gradients(robot: Robot, q, v, a, entries, scale, Z):
    found = np.zeros((3, *q.shape))
    regressor_rows_adjoint(0, q.shape[0], robot.tree, q, v, a, entries, scale, Z, *found)
    return found


@pytest.mark.parametrize("branched", [False, True], ids=["serial", "branched"])
@pytest.mark.parametrize("seed", range(4))
def test_one_vector_of_parameters_is_pinocchios_inverse_dynamics(
    branched, seed, random_model, states_of
):
    rng = np.random.default_rng(seed)
    model = random_model(rng, 4 + 2 * seed, branched=branched)
    robot = Robot.from_pinocchio(model).with_friction("none")
    q, v, a = states_of(robot, rng, 3)
    weights = rng.normal(size=(3, robot.nv))
    Z = weights[:, :, np.newaxis] * robot.theta
    found = gradients(robot, q, v, a, all_entries(robot), np.ones(robot.nv), Z)
    data = robot.model.createData()
    for t in range(3):
        parts = pin.computeRNEADerivatives(robot.model, data, q[t], v[t], a[t])
        mass = np.triu(parts[2]) + np.triu(parts[2], 1).T  # Pinocchio fills one triangle
        for k, part in enumerate((*parts[:2], mass)):
            expected = weights[t] @ part
            np.testing.assert_allclose(found[k, t], expected, atol=1e-11 * np.abs(part).max())


@pytest.mark.parametrize("name", ["tx40-three", "branched", "serial", "example:panda"])
def test_any_adjoint_by_finite_differences(name, robot_of, states_of, rng):
    robot = robot_of(name)
    robot = robot.with_friction(robot.friction.model, width=0.5)  # curved, but not too much
    q, v, a = states_of(robot, rng, 2)
    scale = rng.uniform(0.5, 2.0, robot.nv)
    shape = robot.nv, robot.layout.size
    entries, Z = all_entries(robot), rng.normal(size=(2, *shape))
    found = gradients(robot, q, v, a, entries, scale, Z)

    def f():
        return (Z * rows_of(robot, q, v, a, entries, scale, shape)).sum(axis=(1, 2))

    step = 1e-6
    for k, x in enumerate((q, v, a)):
        for j in range(robot.nv):
            at = x[:, j].copy()
            x[:, j] = at + step
            above = f()
            x[:, j] = at - step
            slope = (above - f()) / (2.0 * step)
            x[:, j] = at
            np.testing.assert_allclose(found[k, :, j], slope, atol=2e-7 * np.abs(found[k]).max())


def test_chosen_rows_and_columns(robot_of, states_of, rng):
    robot = robot_of("tx40")
    q, v, a = states_of(robot, rng, 4)
    joints, columns = np.array([1, 4]), rng.permutation(robot.layout.size)[:20]
    rows, places = np.nonzero(regressor_pattern(robot)[np.ix_(joints, columns)])
    entries = np.stack([joints[rows], columns[places], rows, places], axis=1)
    scale = np.array([2.0, 0.5])
    found = rows_of(robot, q, v, a, np.ascontiguousarray(entries), scale, (2, 20))
    Y = torque_regressor(robot, q, v, a)[:, joints][:, :, columns] * scale[:, np.newaxis]
    np.testing.assert_array_equal(found, Y)
