"""Arrays of the kernels: room for what is asked, and samples put together."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.estimation import MapDynamics
from bodysense.estimation.map_dynamics.estimator import DETAILS
from bodysense.estimation.map_dynamics.solution import joined, room
from bodysense.robot import load_robot
from bodysense.sensors import JointTorque, variances


@pytest.fixture(scope="module")
def problem():
    robot = load_robot("tx40")
    sensors = [
        JointTorque(name=f"tau.{j}", joint=j, covariance=variances(0.1, 1))
        for j in robot.joint_names[2:]
    ]
    return MapDynamics(robot, sensors)


@pytest.mark.parametrize("level", range(len(DETAILS)))
def test_room_is_what_a_solve_fills(problem, level):
    made = room(problem.tree, problem.layout, 3, level)
    samples = problem.samples(np.zeros((3, 6)), np.zeros((3, 6)), np.zeros((3, 4)))
    solved = problem.solve(samples, DETAILS[level])
    for name, array in solved._asdict().items():
        assert getattr(made, name).shape == array.shape, name
        assert getattr(made, name).dtype == array.dtype, name


def test_samples_are_put_together_in_their_order(problem):
    rng = np.random.default_rng(0)
    samples = problem.samples(*rng.normal(size=(2, 3, 6)), rng.normal(size=(3, 4)))
    whole = problem.solve(samples, "blocks")
    parts = [problem.solve(samples.part(slice(k, k + 1)), "blocks") for k in range(3)]
    for one, other in zip(joined(parts), whole, strict=True):
        # Three are solved side by side and one by another kernel, which may round otherwise.
        rounding = 1e-12 * np.abs(other).max(initial=0.0)
        np.testing.assert_allclose(one, other, rtol=0, atol=rounding)
