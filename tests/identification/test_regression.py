"""Triangular factors against the stacked regressor that they stand for."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from bodysense.errors import MismatchError, ShapeError
from bodysense.identification import Motion, Preprocessing, Regression, identifier, motions
from bodysense.identification import regression as module
from bodysense.identification.preprocessing import FOLDS, block_of
from bodysense.logs.filtering import fir_lowpass
from bodysense.logs.log import Log
from bodysense.robot import inverse_dynamics, load_robot, torque_regressor


@pytest.fixture(scope="module")
def simulated(simulate):
    return simulate(0.3, logs=2, n_t=900)


def folds_by_hand(simulated) -> np.ndarray:
    """(rows,) fold of each row: blocks of half a second (the logs last 9 s), dealt out in turn."""
    n = simulated.problem.n_joints
    one = np.repeat((np.arange(900) // 50) % 3, n)
    return np.concatenate([one, one])


def test_squares_of_every_log_fold_and_joint(simulated, rng):
    problem, folds = simulated.problem, folds_by_hand(simulated)
    theta = rng.normal(size=problem.size)
    residual = simulated.y - simulated.Y @ theta
    keys = {(log, fold, joint) for log in range(2) for fold in range(3) for joint in range(3)}
    assert set(problem.factors) == keys
    for (log, fold, joint), factor in problem.factors.items():
        mine = (simulated.log == log) & (folds == fold) & (simulated.joint == joint)
        assert factor.rows == mine.sum()
        assert factor.squares(theta) == pytest.approx(np.sum(residual[mine] ** 2), rel=1e-10)


def test_a_stack_is_the_weighted_least_squares_problem(simulated, rng):
    problem = simulated.problem
    sigma = rng.uniform(0.1, 2.0, (2, 3))
    stack = problem.stack(sigma)
    scale = sigma[simulated.log, simulated.joint]
    A, z = simulated.Y / scale[:, None], simulated.y / scale
    theta, rest = np.linalg.lstsq(A, z, rcond=None)[:2]
    np.testing.assert_allclose(np.linalg.solve(stack.A, stack.z), theta, rtol=1e-8)
    assert stack.rest == pytest.approx(rest[0], rel=1e-10)
    assert stack.rows == z.size
    np.testing.assert_allclose(stack.A.T @ stack.A, A.T @ A, rtol=1e-9, atol=1e-9 * (A.T @ A).max())
    other = rng.normal(size=problem.size)
    cost = np.sum((stack.A @ other - stack.z) ** 2) + stack.rest
    assert cost == pytest.approx(np.sum((A @ other - z) ** 2), rel=1e-10)


def test_many_small_blocks_make_the_same_factors(simulated, monkeypatch):
    whole = simulated.problem.stack(np.ones((2, 3)))
    monkeypatch.setattr(module, "_BLOCK_BYTES", 8.0 * 3 * simulated.problem.size * 7)
    monkeypatch.setattr(module, "_KEEP_BYTES", 0.0)
    fresh = Regression.of(
        simulated.problem.robot, simulated.problem.motions, simulated.problem.settings
    )
    assert [block.t.size for block in fresh.blocks()].count(7) == 2 * (900 // 7)
    small = fresh.stack(np.ones((2, 3)))
    # Triangles are unique up to the signs of their rows.
    np.testing.assert_allclose(np.abs(small.A), np.abs(whole.A), atol=1e-10 * np.abs(whole.A).max())
    assert small.rest == pytest.approx(whole.rest, rel=1e-10)
    assert small.rows == whole.rows


@pytest.mark.parametrize("fold", range(FOLDS))
def test_without_a_fold_is_as_if_its_rows_had_been_dropped(simulated, fold, rng):
    rest = simulated.problem.without(fold)
    kept = folds_by_hand(simulated) != fold
    stack = rest.stack(np.ones((2, 3)))
    theta = np.linalg.lstsq(simulated.Y[kept], simulated.y[kept], rcond=None)[0]
    np.testing.assert_allclose(np.linalg.solve(stack.A, stack.z), theta, rtol=1e-8)
    assert stack.rows == kept.sum()
    # Weighted factors come from the blocks themselves, which must know of the fold as well.
    ones = [block.use for block in rest.blocks()]
    assert sum(f.rows for f in rest.weighted_factors(ones).values()) == kept.sum()
    other = rng.normal(size=rest.size)
    for which in (None, *range(FOLDS)):
        squares, rows = rest.squares(other, which)
        mine = kept if which is None else kept & (folds_by_hand(simulated) == which)
        residual = (simulated.y - simulated.Y @ other) * mine
        wanted, count = np.zeros((2, 2, 3))
        np.add.at(wanted, (simulated.log, simulated.joint), residual**2)
        np.add.at(count, (simulated.log, simulated.joint), mine)
        np.testing.assert_allclose(squares, wanted, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(rows, count)


def test_rows_can_be_weighted_one_by_one(simulated, rng):
    problem = simulated.problem
    weights = [rng.uniform(0.0, 1.0, block.y.shape) for block in problem.blocks()]
    weights[0][:30] = 0.0
    flat = np.concatenate([w.ravel() for w in weights])
    stack = problem.stack(np.ones((2, 3)), factors=problem.weighted_factors(weights))
    theta = np.linalg.lstsq(simulated.Y * flat[:, None], simulated.y * flat, rcond=None)[0]
    np.testing.assert_allclose(np.linalg.solve(stack.A, stack.z), theta, rtol=1e-8)
    assert stack.rows == flat.size - 90


def test_columns_are_those_a_joint_can_feel(simulated):
    for joint, columns in enumerate(simulated.problem.columns):
        felt = np.flatnonzero(np.abs(simulated.Y[simulated.joint == joint]).max(axis=0) > 1e-12)
        assert set(felt) <= set(columns)
        assert columns.size < simulated.problem.size


@pytest.mark.parametrize(("span", "block"), [(3.0, 0.5), (9.0, 0.5), (90.0, 5.0)])
def test_folds_are_blocks_dealt_out_in_turn(span, block):
    t = 7.0 + np.linspace(0.0, span, 1801)
    folds = block_of(t) % FOLDS
    changes = t[1:][np.diff(folds) != 0] - 7.0
    np.testing.assert_allclose(np.diff(changes), block, atol=0.06)
    assert folds[0] == 0
    np.testing.assert_array_equal(np.unique((np.diff(folds)[np.diff(folds) != 0]) % FOLDS), [1])


@pytest.fixture(scope="module")
def filtered(small_arm, base_of, sines):
    """A regression behind the parallel filter: 400 Hz, regressors at 200 Hz, two pieces."""
    settings = Preprocessing(cutoff=15.0, still_speed=0.03).settled(small_arm, 15.0)
    made = []
    for seed in (1, 2):
        t, q, v, a = sines(3, seed, 2400, 400.0)
        q[500:1000, 1] = 0.3  # the second joint stands for a while
        v[500:1000, 1] = a[500:1000, 1] = 0.0
        tau = inverse_dynamics(small_arm, q, v, a)
        made.append(Motion(t, q, v, a, tau, tau, 400.0, 0))
    return Regression.of(small_arm, made, settings, base_of(small_arm))


def test_regressor_and_torque_pass_the_same_filter(filtered, small_arm):
    stride, band = 2, 12.0  # 400 Hz is more than twice of 12 times the cut-off
    taps = fir_lowpass(400.0 / stride, band)
    window = stride * (np.arange(taps.size) - taps.size // 2)
    columns = filtered.base.independent
    n_rows = np.zeros(2, dtype=int)
    for block in filtered.blocks():
        motion = filtered.motions[block.piece]
        Y = torque_regressor(small_arm, motion.q, motion.v, motion.a, columns=columns)
        at = np.searchsorted(motion.t, block.t - 1e-9)
        np.testing.assert_allclose(motion.t[at], block.t, atol=1e-12)
        for row in range(0, block.t.size, 7):
            mine = at[row] + window
            np.testing.assert_allclose(block.Y[row], np.tensordot(taps, Y[mine], 1), atol=1e-9)
            np.testing.assert_allclose(block.y[row], taps @ motion.tau[mine], atol=1e-9)
            # A row counts unless standstill holds more than 0.5 % of its window.
            slow = (np.abs(taps) / np.abs(taps).sum()) @ (np.abs(motion.v[mine]) < 0.03)
            np.testing.assert_array_equal(block.use[row] > 0, slow < 0.25)
        # Blocks of four lengths of the filter, longer than half a second and 6 s / 18.
        length = 4.0 * taps.size * stride / 400.0
        np.testing.assert_array_equal(block.fold, (block.t / length + 1e-9).astype(int) % 3)
        np.testing.assert_array_equal(block.fold, filtered.folds(motion)[at])
        n_rows[block.piece] += block.t.size
        # Often enough for what the filter lets through.
        assert 1.0 / np.diff(block.t).max() >= 2.5 * band
    assert n_rows.sum() == filtered.n_samples
    assert n_rows.min() > 50


def test_filtered_rows_are_fitted_exactly_by_the_truth(filtered, small_arm):
    truth = filtered.base.to_base(small_arm.theta)
    squares, rows = filtered.squares(truth)
    assert rows[0, 1] < rows[0, 0]  # the joint that stood
    assert np.sqrt(squares / rows).max() < 1e-10


def test_rows_of_slow_joints_do_not_count(small_arm, base_of, sines, rng):
    _, q, v, a = sines(3, 5, 2000, 100.0)
    tau = rng.normal(size=q.shape)
    problem = Regression.from_samples(
        small_arm, q, v, a, tau, rate=100.0, base=base_of(small_arm), still_speed=0.03
    )
    use = np.concatenate([block.use for block in problem.blocks()])
    np.testing.assert_array_equal(use > 0, np.abs(v) >= 0.03)
    assert (use == 0).any(axis=0).all()
    np.testing.assert_array_equal(problem.squares(np.zeros(problem.size))[1][0], use.sum(axis=0))


def test_a_piece_shorter_than_the_filter_counts_as_it_is(small_arm, base_of, sines):
    settings = Preprocessing(cutoff=15.0).settled(small_arm, 15.0)
    t, q, v, a = sines(3, 1, 30, 100.0)
    tau = inverse_dynamics(small_arm, q, v, a)
    motion = Motion(t, q, v, a, tau, tau, 100.0, 0)
    problem = Regression.of(small_arm, [motion], settings, base_of(small_arm))
    (block,) = problem.blocks()
    np.testing.assert_array_equal(block.y, tau)


def test_changed_motions_are_computed_anew(simulated):
    problem = simulated.problem
    before = problem.factors
    louder = replace(problem, motions=tuple(replace(m, tau=2.0 * m.tau) for m in problem.motions))
    for key, factor in louder.factors.items():
        np.testing.assert_allclose(
            np.linalg.norm(factor.R[:, -1]), 2.0 * np.linalg.norm(before[key].R[:, -1]), rtol=1e-12
        )
    assert problem.without(0).factors[(0, 1, 0)] is before[(0, 1, 0)]


def test_small_problems_are_kept_and_shared_and_large_ones_are_not(simulated, monkeypatch):
    problem = replace(simulated.problem)
    first = list(problem.blocks())
    assert all(a is b for a, b in zip(first, problem.blocks(), strict=True))
    left = list(problem.without(0).blocks())
    assert all(a.Y is b.Y for a, b in zip(first, left, strict=True))
    monkeypatch.setattr(module, "_KEEP_BYTES", 0.0)
    forgetful = replace(simulated.problem)
    first = list(forgetful.blocks())
    assert all(a is not b for a, b in zip(first, forgetful.blocks(), strict=True))


def test_a_long_recording_is_never_in_memory_as_a_whole(tx40, base_of, sines, monkeypatch):
    monkeypatch.setattr(module, "_KEEP_BYTES", 0.0)
    _, q, v, a = sines(6, 3, 200_000, 1000.0)
    tau = inverse_dynamics(tx40, q, v, a)
    whole = q.size * base_of(tx40).size * 8
    tracemalloc.start()
    try:
        problem = Regression.from_samples(tx40, q, v, a, tau, rate=1000.0, base=base_of(tx40))
        found = identifier("wls", iterations=2).fit(problem)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert whole > 490e6
    assert peak < 300e6
    np.testing.assert_allclose(found.theta_base, base_of(tx40).to_base(tx40.theta), atol=1e-8)


SHAPES = [
    ("q", (50, 4), r"q has shape \(50, 4\)"),
    ("v", (49, 3), r"v has shape \(49, 3\), expected \(50, 3\)"),
    ("a", (50,), r"a has shape \(50,\)"),
    ("tau", (50, 2), r"tau has shape \(50, 2\)"),
]


@pytest.mark.parametrize(("name", "shape", "message"), SHAPES)
def test_samples_of_the_wrong_shape_are_refused(small_arm, name, shape, message):
    samples = {key: np.zeros((50, 3)) for key in ("q", "v", "a", "tau")} | {name: np.zeros(shape)}
    with pytest.raises(ShapeError, match=message):
        Regression.from_samples(small_arm, **samples)


def test_samples_that_are_not_finite_are_refused(small_arm):
    samples = {key: np.zeros((50, 3)) for key in ("q", "v", "a", "tau")}
    samples["tau"][7, 1] = np.nan
    with pytest.raises(ShapeError, match=r"tau holds nan at index \(7, 1\)"):
        Regression.from_samples(small_arm, **samples)


@pytest.mark.parametrize("rate", [0.0, -1.0, np.nan, np.inf])
def test_a_rate_without_meaning_is_refused(small_arm, rate):
    with pytest.raises(ShapeError, match="the rate is"):
        Regression.from_samples(small_arm, *np.zeros((4, 50, 3)), rate=rate)


@pytest.mark.parametrize("n_t", [0, 2])
def test_fewer_rows_than_unknowns_are_refused(small_arm, n_t):
    with pytest.raises(MismatchError, match=f"{3 * n_t} rows for 21 unknowns"):
        Regression.from_samples(small_arm, *np.zeros((4, n_t, 3)))


def test_a_floating_robot_is_refused():
    robot = load_robot("example:solo8")
    samples = [np.zeros((50, n)) for n in (robot.nq, robot.nv, robot.nv, robot.nv)]
    with pytest.raises(MismatchError, match="floats"):
        Regression.from_samples(robot, *samples)


def test_settings_must_be_settled(simulated):
    with pytest.raises(ShapeError, match="not settled"):
        Regression.of(simulated.problem.robot, simulated.problem.motions, Preprocessing())


def test_folds_of_a_motion_filtered_otherwise_are_those_of_the_fit(small_arm, sines):
    """At the same times; what the fit's borders cut off goes with its first and last block."""
    t, q, v, a = sines(3, 0, 3000, 100.0)
    channels = {
        f"{quantity}.{name}": values[:, k]
        for quantity, values in (("q", q), ("tau", inverse_dynamics(small_arm, q, v, a)))
        for k, name in enumerate(small_arm.joint_names)
    }
    pieces = [
        [
            Log.of(t[:1400], {n: x[:1400] for n, x in channels.items()}),
            Log.of(t[1500:], {n: x[1500:] for n, x in channels.items()}),
        ]
    ]
    low, high = (Preprocessing().settled(small_arm, cutoff) for cutoff in (1.0, 10.0))
    problem = Regression.of(small_arm, motions(small_arm, pieces, low), low)
    for own, other in zip(problem.motions, motions(small_arm, pieces, high), strict=True):
        folds = problem.folds(own)
        at = np.searchsorted(other.t, own.t)
        np.testing.assert_array_equal(problem.folds(other)[at], folds)
        assert other.t.size > own.t.size
        assert set(problem.folds(other)[: at[0]]) == {folds[0]}
