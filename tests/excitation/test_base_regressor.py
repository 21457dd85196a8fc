from __future__ import annotations

import numpy as np

from bodysense.excitation.criterion import BaseRegressor
from bodysense.robot import base_parameters, torque_regressor


def test_rows_of_some_joints(robot_of, states_of, rng):
    robot = robot_of("tx40")
    base = base_parameters(robot)
    q, v, a = states_of(robot, rng, 5)
    for array in (q, v, a):
        array.flags.writeable = False  # as the samples of a trajectory are
    moving, scale = np.array([0, 3, 5]), np.array([1.0, 2.0, 0.5])
    W = BaseRegressor(robot, moving, base).rows(q, v, a, scale)
    Y = torque_regressor(robot, q, v, a, columns=base.independent)[:, moving]
    np.testing.assert_array_equal(W, Y * scale[:, np.newaxis])


def test_the_pull_of_a_function_by_finite_differences(robot_of, states_of, rng):
    robot = robot_of("tx40").with_friction("coulomb", width=0.5)
    regressor = BaseRegressor(robot, np.array([1, 2, 4]), base_parameters(robot))
    q, v, a = states_of(robot, rng, 3)
    scale = np.array([1.0, 2.0, 0.5])

    def f(q, v, a):
        return np.sum(regressor.rows(q, v, a, scale) ** 3)

    W = regressor.rows(q, v, a, scale)
    found = regressor.pull(q, v, a, scale, 3.0 * W**2)
    for k in range(3):
        d = [np.zeros_like(q) for _ in range(3)]
        d[k] = 1e-6 * rng.normal(size=q.shape)
        above = f(*(x + e for x, e in zip((q, v, a), d, strict=True)))
        below = f(*(x - e for x, e in zip((q, v, a), d, strict=True)))
        np.testing.assert_allclose(np.sum(found[k] * d[k]), 0.5 * (above - below), rtol=1e-5)
