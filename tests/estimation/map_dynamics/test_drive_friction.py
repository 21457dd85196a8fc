"""Drives whose friction grows with their load, read where nothing else is known."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import MismatchError
from bodysense.estimation import (
    Assumptions,
    EstimatorStream,
    GaussianPrior,
    MapDynamics,
    Sample,
    StateAndDynamics,
    StatePrior,
)
from bodysense.robot import inverse_dynamics, load_robot
from bodysense.robot.dynamics import drive_loads
from bodysense.sensors import JointTorque

FREE = Assumptions(joint_acceleration=GaussianPrior.zero(1, 1e3))


@pytest.fixture(scope="module")
def problem() -> MapDynamics:
    coefficients = {"Fl": [0.05, 0.1, 0.2, 0.3, 0.1, 0.6]}
    robot = load_robot("tx40").with_friction("offset-load", coefficients=coefficients, width=0.05)
    drives = [
        JointTorque(name=joint, joint=joint, side="drive", covariance=1e-8 * np.eye(1))
        for joint in robot.joint_names
    ]
    return MapDynamics(robot, drives, FREE)


def test_torques_of_drives_give_the_accelerations_behind_them(problem, rng):
    robot = problem.robot
    q, v, a = rng.normal(size=(3, 20, 6))
    found = problem.estimate(q, v, inverse_dynamics(robot, q, v, a))
    loads = drive_loads(robot, q, v, a) - robot.theta[robot.layout.rotor] * a
    for j, joint in enumerate(robot.joint_names):
        np.testing.assert_allclose(found[f"ddq.{joint}"][:, 0], a[:, j], rtol=0, atol=1e-4)
        np.testing.assert_allclose(found[f"tau.{joint}"][:, 0], loads[:, j], rtol=0, atol=1e-4)


def test_a_stream_gives_the_same(problem, rng):
    q, v, y = rng.normal(size=(3, 6))
    expected = problem.estimate(q, v, 10.0 * y)
    found = EstimatorStream(problem).step(Sample(0.0, q, v, 10.0 * y))
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1e-12)


def test_the_state_is_not_estimated_from_them(problem):
    still = np.zeros(6)
    prior = StatePrior.of(still, still, q_std=1.0, dq_std=1.0)
    with pytest.raises(MismatchError, match=r"'offset-load'.*side: joint.*--friction offset"):
        StateAndDynamics(problem, prior).estimate(still)
