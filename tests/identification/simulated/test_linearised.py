"""Rows of Gauss and Newton against finite differences, and against rows of the regression."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.identification import Preprocessing, Regression
from bodysense.identification.prior import Prior
from bodysense.identification.simulated.linearised import SimulatedRows

FILTERED = Preprocessing(cutoff=20.0)
every_quantity = pytest.mark.parametrize("quantity", ["q", "tau"])


def rows_of(recorded, quantity, **settings) -> SimulatedRows:
    return SimulatedRows(recorded.loop(**settings), quantity)


def differences(rows: SimulatedRows, theta, steps):
    """[(m, n, b)] of each leg: derivatives of the simulation, of fourth order."""
    base = rows.problem.base
    columns = np.zeros((base.size, theta.size))
    columns[np.arange(base.size), base.independent] = steps
    points = np.concatenate([theta + f * columns for f in (1.0, -1.0, 2.0, -2.0)])
    runs = rows.residuals(points)
    for leg in range(len(rows.frames)):
        values = np.array([run[leg] for run in runs]).reshape(4, base.size, *runs[0][leg].shape)
        near, far = values[0] - values[1], values[2] - values[3]
        slope = (8.0 * near - far) / 12.0 / np.reshape(steps, (-1, 1, 1))
        yield -np.moveaxis(slope, 0, -1)


@every_quantity
@pytest.mark.parametrize("filtered", [None, FILTERED], ids=["samples", "filtered"])
@pytest.mark.parametrize("told", [True, False], ids=["told", "untold"])
def test_derivatives_are_those_of_the_residuals(quantity, filtered, told, record):
    recorded = record(told=told, filtered=filtered, torque_noise=0.1)
    rows = rows_of(recorded, quantity)
    theta = recorded.problem.robot.theta
    theta_base = recorded.problem.base.to_base(theta)
    made = rows.linearised(theta, theta_base)
    steps = 1e-3 * Prior.of(recorded.problem).size_base
    residuals = rows.residuals(theta[None])[0]
    for block, J, e in zip(made.blocks(), differences(rows, theta, steps), residuals, strict=True):
        size = np.abs(J).max(axis=(0, 1))
        assert (np.abs(block.Y - J).max(axis=(0, 1)) < 1e-5 * size).all()
        np.testing.assert_allclose(
            block.y - block.Y @ theta_base, e, atol=1e-9 * np.abs(block.y).max()
        )


def test_in_legs_as_well(record, monkeypatch):
    monkeypatch.setattr("bodysense.identification.simulated.closed_loop._LEG_DURATION", 1.0)
    recorded = record(told=False)
    rows = rows_of(recorded, "tau")
    assert len(rows.frames) == 3
    theta = recorded.problem.robot.theta
    made = rows.linearised(theta, recorded.problem.base.to_base(theta))
    steps = 1e-3 * Prior.of(recorded.problem).size_base
    for block, J in zip(made.blocks(), differences(rows, theta, steps), strict=True):
        assert np.abs(block.Y - J).max() < 1e-5 * np.abs(J).max()
    assert made.n_samples == recorded.problem.n_samples


@every_quantity
@pytest.mark.parametrize("width", [0.02, 0.0])
@pytest.mark.parametrize("still_speed", [None, 0.0])
@pytest.mark.parametrize("rate", [250.0, 1000.0])  # at which every fourth sample is looked at
def test_frames_are_rows_of_the_regression(quantity, width, still_speed, rate, arm, record):
    filtered = replace(FILTERED, still_speed=still_speed)
    recorded = record(arm(width=width), filtered=filtered, rate=rate, torque_noise=0.1)
    (frame,) = rows_of(recorded, quantity).frames
    (block,) = recorded.problem.blocks()
    np.testing.assert_array_equal(frame.t, block.t)
    np.testing.assert_array_equal(frame.fold, block.fold)
    np.testing.assert_array_equal(frame.use, block.use)
    assert (frame.use.min() == 0.0) == (still_speed is None)  # standing joints hold with friction
    assert (frame.log, frame.piece) == (block.log, block.piece)
    assert frame.y.shape == block.y.shape
    if quantity == "tau":  # the regression's torques have passed one filter more
        np.testing.assert_allclose(frame.y, block.y, atol=0.05 * np.abs(block.y).max())


@every_quantity
def test_frames_of_several_logs(quantity, arm, record):
    one, two = (
        record(filtered=FILTERED, rate=rate, seed=seed) for seed, rate in ((0, 250), (1, 400))
    )
    motions = (one.problem.motions[0], replace(two.problem.motions[0], log=1))
    problem = Regression.of(one.problem.robot, motions, one.problem.settings, one.problem.base)
    rows = SimulatedRows(replace(one, problem=problem).loop(), quantity)
    for frame, block in zip(rows.frames, problem.blocks(), strict=True):
        np.testing.assert_array_equal(frame.t, block.t)
        np.testing.assert_array_equal(frame.fold, block.fold)
        assert (frame.log, frame.piece) == (block.log, block.piece)
    squares, count = rows.squares([np.full(frame.y.shape, 2.0) for frame in rows.frames])
    used = np.array([block.use.sum(axis=0) for block in problem.blocks()])
    assert 0.0 < used.min() < min(frame.t.size for frame in rows.frames)
    np.testing.assert_array_equal(count, used)
    np.testing.assert_array_equal(squares, 4.0 * count)


@every_quantity
def test_a_fold_that_is_left_out_does_not_count(quantity, record):
    recorded = record()
    whole = rows_of(recorded, quantity)
    theta = recorded.problem.robot.theta
    theta_base = recorded.problem.base.to_base(theta)
    residuals = whole.residuals(theta[None])[0]
    squares, count = whole.squares(residuals)
    parts = []
    for fold in range(3):
        rest = rows_of(replace(recorded, problem=recorded.problem.without(fold)), quantity)
        less, fewer = rest.squares(residuals)
        parts.append((squares - less, count - fewer))
        made = rest.linearised(theta, theta_base)
        assert made.held_out == fold
        assert {key[1] for key in made.factors} == {0, 1, 2} - {fold}
    np.testing.assert_allclose(sum(part for part, _ in parts), squares)
    np.testing.assert_array_equal(sum(part for _, part in parts), count)
    # And rows are weighed as in any regression.
    made = whole.linearised(theta, theta_base)
    stacked = made.squares(theta_base)
    np.testing.assert_allclose(stacked[0], squares)
    np.testing.assert_array_equal(stacked[1], count)


def test_positions_are_compared_as_recorded(record):
    """Filtered positions have lost what the simulation still has."""
    recorded = record(filtered=FILTERED, position_noise=1e-3)
    motion = recorded.problem.motions[0]
    assert np.abs(motion.q - motion.q_raw).max() > 1e-3
    rows = rows_of(recorded, "q")
    raw = replace(motion, q=motion.q_raw)
    same = rows_of(
        replace(recorded, problem=replace(recorded.problem, motions=(raw,))), "q"
    ).frames[0]
    np.testing.assert_array_equal(rows.frames[0].y, same.y)


def test_lost_runs_have_no_rows(record):
    recorded = record()
    rows = rows_of(recorded, "tau")
    theta = recorded.robot.theta.copy()
    theta[recorded.robot.layout.rotor] = -5.0
    lost, kept = rows.residuals(np.stack([theta, recorded.robot.theta]))
    assert lost is None
    assert kept is not None
    assert rows.linearised(theta, recorded.problem.base.to_base(theta)) is None
