"""Rows of energy: the balance of power, without accelerations."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.identification import Preprocessing, Regression
from bodysense.identification.linear import energy as module
from bodysense.identification.linear.energy import _REACH, _EnergyRows, _slope
from bodysense.robot import energy_regressor, inverse_dynamics, load_robot


def problem_of(robot, base_of, sines, *, rate=200.0, n_t=1200, settings=None, seed=0) -> Regression:
    _, q, v, a = sines(robot.n_joints, seed, n_t, rate)
    tau = inverse_dynamics(robot, q, v, a)
    problem = Regression.from_samples(robot, q, v, a, tau, rate=rate, base=base_of(robot))
    if settings is None:
        return problem
    return Regression.of(robot, problem.motions, settings, problem.base)


@pytest.mark.parametrize("name", ["small arm", "tx40-coupled", "rv2sq"])
def test_rows_hold_for_the_true_parameters(name, small_arm, base_of, sines):
    """With friction that jumps, too: its integral is the same on both sides."""
    robot = small_arm if name == "small arm" else load_robot(name)
    rows = problem_of(robot, base_of, sines, rate=400.0).recast(_EnergyRows)
    truth = rows.base.to_base(robot.theta)
    for block in rows.blocks():
        assert np.abs(block.Y @ truth - block.y).max() < 1e-8 * np.abs(block.y).max()


def test_rows_hold_through_the_filter(tx40, base_of, sines):
    settings = Preprocessing(cutoff=15.0).settled(tx40, 15.0)
    rows = problem_of(tx40, base_of, sines, settings=settings).recast(_EnergyRows)
    (block,) = rows.blocks()
    assert block.t.size == rows.n_samples < 600
    truth = rows.base.to_base(tx40.theta)
    assert np.abs(block.Y @ truth - block.y).max() < 1e-6 * np.abs(block.y).max()


def test_the_sum_of_rows_is_the_work(small_arm, base_of, sines):
    """Without friction the rows add up to the energy between the ends."""
    robot = small_arm.with_friction("none")
    problem = problem_of(robot, base_of, sines, rate=1000.0)
    motion = problem.motions[0]
    (block,) = problem.recast(_EnergyRows).blocks()
    E = energy_regressor(robot, motion.q, motion.v) @ robot.theta
    inner = E[_REACH:-_REACH]
    work = np.sum(block.y[1:-1, 0]) + 0.5 * (block.y[0, 0] + block.y[-1, 0])  # trapezoids
    assert work / 1000.0 == pytest.approx(inner[-1] - inner[0], rel=1e-4)


def test_rows_have_the_times_and_folds_of_their_samples(small_arm, base_of, sines):
    problem = problem_of(small_arm, base_of, sines)
    rows = problem.recast(_EnergyRows)
    (block,) = rows.blocks()
    motion = problem.motions[0]
    np.testing.assert_array_equal(block.t, motion.t[_REACH:-_REACH])
    np.testing.assert_array_equal(block.fold, problem.folds(motion)[_REACH:-_REACH])
    assert rows.n_samples == block.t.size == 1200 - 2 * _REACH
    left = np.concatenate([b.use for b in rows.without(1).blocks()])
    np.testing.assert_array_equal(left[:, 0] == 0.0, block.fold == 1)
    np.testing.assert_allclose(rows.speeds(block, 0), motion.v[_REACH:-_REACH] ** 2, rtol=1e-12)


def test_small_blocks_make_the_same_rows(tx40, base_of, sines, monkeypatch):
    settings = Preprocessing(cutoff=15.0).settled(tx40, 15.0)
    problem = problem_of(tx40, base_of, sines, settings=settings)
    (whole,) = problem.recast(_EnergyRows).blocks()
    monkeypatch.setattr(module, "_BLOCK_BYTES", 8.0 * tx40.layout.size * 60)
    rows = problem.recast(_EnergyRows)
    parts = list(rows.blocks())
    assert len(parts) > 5
    np.testing.assert_allclose(np.concatenate([b.Y for b in parts]), whole.Y, atol=1e-9)
    np.testing.assert_array_equal(np.concatenate([b.t for b in parts]), whole.t)
    at, speeds = 0, []
    for block in parts:
        speeds.append(rows.speeds(block, at))
        at += block.t.size
    np.testing.assert_allclose(np.concatenate(speeds), rows.speeds(whole, 0), rtol=1e-9)


def test_a_motion_shorter_than_a_difference_has_no_rows(small_arm, base_of, sines):
    rows = problem_of(small_arm, base_of, sines, n_t=2 * _REACH).recast(_EnergyRows)
    assert rows.n_samples == 0
    assert not list(rows.blocks())


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
def test_slopes_are_as_exact_as_they_say(share):
    """Of a sine at that share of the sampling rate: the first term of the error's series."""
    w = 2.0 * np.pi * share
    t = np.arange(100.0)
    exact = w * np.exp(1j * w * t[_REACH:-_REACH])
    ratio = (_slope(np.sin(w * t), 1.0) - 1j * _slope(np.cos(w * t), 1.0)) / exact
    expected = -14400.0 / 39916800.0 * w**10
    np.testing.assert_allclose(ratio.real - 1.0, expected, rtol=0.5, atol=1e-12)
    np.testing.assert_allclose(ratio.imag, 0.0, atol=1e-12)


def test_slopes_of_polynomials_are_exact():
    t = np.linspace(-1.0, 1.0, 60)
    powers = t[:, None] ** np.arange(11)
    expected = np.arange(11) * t[:, None] ** np.maximum(np.arange(11) - 1, 0)
    found = _slope(powers, 59.0 / 2.0)
    np.testing.assert_allclose(found, expected[_REACH:-_REACH], atol=1e-10)
