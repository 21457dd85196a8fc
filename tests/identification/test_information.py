from __future__ import annotations

import numpy as np
import pytest

from bodysense.excitation import FourierTrajectory
from bodysense.excitation.information import moving_base_parameters
from bodysense.identification.choices import _carried_over, information_of
from bodysense.logs.read import read_log
from bodysense.robot import load_robot, torque_regressor
from bodysense.robot.base_parameters import base_parameters


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> str:
    """A recording of the TX40."""
    from bodysense.cli.main import main

    path = str(tmp_path_factory.mktemp("log") / "log.parquet")
    noise = ("--noise-torque", "0.05", "--noise-position", "1e-4deg", "--friction", "viscous")
    assert main(["simulate", "tx40", "random", "-o", path, "--duration", "5", *noise]) == 0
    return path


def test_information_of_a_log_is_that_of_its_rows(recorded):
    robot = load_robot("tx40").with_friction("viscous")
    noise = np.array([1.0, 2.0, 1.0, 0.5, 0.5, 0.2])
    base, logs = base_parameters(robot), [read_log(recorded)]
    R = information_of(robot, logs, base, noise)
    np.testing.assert_allclose(R, np.triu(R))
    # The same from the motion that was meant, all of its samples.
    motion = FourierTrajectory.for_robot(robot, rng=np.random.default_rng(0), duration=5.0)
    Y = torque_regressor(robot, *motion.sample(1000.0)[1:], columns=base.independent)
    W = (Y / noise[:, None]).reshape(-1, base.size)
    ours, theirs = (np.sqrt(np.diag(M)) for M in (R.T @ R, W.T @ W))
    np.testing.assert_allclose(ours, theirs, rtol=0.1)
    quieter = information_of(robot, logs, base, 0.5 * noise)
    np.testing.assert_allclose(quieter.T @ quieter, 4.0 * R.T @ R, rtol=1e-9, atol=1e-6)
    twice = information_of(robot, [*logs, *logs], base, noise)
    np.testing.assert_allclose(twice.T @ twice, 2.0 * R.T @ R, rtol=1e-9, atol=1e-6)


def test_information_on_fewer_parameters_is_the_marginal_one(rng):
    robot = load_robot("tx40")
    full = base_parameters(robot)
    some = moving_base_parameters(robot, np.array([0, 1, 2]), np.zeros(6))
    R_full = np.triu(rng.normal(size=(full.size, full.size))) + 3.0 * np.eye(full.size)
    # covariance of T beta is T C Tᵀ, whatever it is that T leaves out
    theta = rng.normal(size=(3 * robot.layout.size, robot.layout.size))
    T = np.linalg.lstsq(full.to_base(theta), some.to_base(theta))[0].T
    C = T @ np.linalg.inv(R_full.T @ R_full) @ T.T
    R = _carried_over(R_full, full, some)
    np.testing.assert_allclose(np.linalg.inv(R.T @ R), C, rtol=1e-6, atol=1e-9 * np.abs(C).max())


def test_information_that_is_not_there_is_not_made_up(rng):
    robot = load_robot("tx40")
    full = base_parameters(robot)
    some = moving_base_parameters(robot, np.array([0, 1, 2]), np.zeros(6))
    silent = _carried_over(np.zeros((full.size, full.size)), full, some)
    np.testing.assert_array_equal(silent, np.zeros_like(silent))
    rows = rng.normal(size=(4, full.size))  # four rows: information of rank four at most
    R = _carried_over(rows, full, some)
    assert np.linalg.matrix_rank(R, tol=1e-9) <= 4
