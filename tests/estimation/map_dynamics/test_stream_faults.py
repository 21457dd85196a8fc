"""Streams whose sensors fail: bands hold the truth, contacts stay, and nothing grows."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moving_arm import moving, problem_of

from bodysense.estimation import EstimatorStream, Sample

T, WARM = 1500, 100


@pytest.fixture(scope="module")
def motion():
    t = np.arange(T) / 1000.0
    push = np.outer(np.sin(6.0 * t) ** 2, [12.0, -20.0, 5.0, 0.5, 1.0, -0.3])
    return moving(T, push=push)


@pytest.fixture(scope="module")
def problem(motion):
    return problem_of(motion.robot)


@pytest.fixture(scope="module")
def y(motion, problem):
    return motion.noisy(problem, np.random.default_rng(1))


def gaps(T, n, rng, *, often=0.01, longest=40):
    """(T, n) where something is missing, after a while in which all is well."""
    gone = np.zeros((T, n), dtype=bool)
    for k in range(WARM, T):
        if rng.uniform() < often:
            gone[k : k + rng.integers(1, longest), rng.uniform(size=n) < 0.6] = True
    return gone


def run(problem, samples, **options):
    stream = EstimatorStream(problem, **options)
    return stream, [stream.step(sample) for sample in samples]


def held(errors):
    return float(np.mean(np.abs(errors) <= 1.96))


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_predicted_states_widen_the_bands(motion, problem, y, noise):
    rng = np.random.default_rng(2)
    lost = gaps(T, 3, rng)
    also_q = lost & (rng.uniform(size=T) < 0.5)[:, None]
    q = motion.q + noise * 1e-5 * rng.normal(size=motion.q.shape)
    dq = motion.dq + noise * 1e-3 * rng.normal(size=motion.dq.shape)
    q[also_q], dq[lost] = np.nan, np.nan
    stream, found = run(problem, motion.samples(y, q, dq))
    errors = motion.errors(found)
    hurt = lost.any(axis=1)
    assert 0.1 < hurt.mean() < 0.6
    assert 0.90 < held(errors[WARM:]) < 0.98
    assert held(errors[hurt]) > 0.90
    assert np.abs(errors).max() < 6.0
    assert stream.counts["velocities predicted"] == lost.sum()
    assert stream.counts["positions predicted"] == also_q.sum()
    naive = problem.estimate(
        np.where(np.isnan(q), motion.q, q), np.where(np.isnan(dq), 0.0, dq), y
    )  # a missing velocity as zero
    assert np.abs(motion.errors([naive.at(k) for k in range(T)])).max() > 10.0


def test_spikes_and_drop_outs_of_any_channel(motion, problem, y):
    rng = np.random.default_rng(3)
    bad, sigma = y.copy(), np.concatenate([np.sqrt(np.diag(s.covariance)) for s in problem.sensors])
    for k in range(WARM, T):
        if rng.uniform() < 0.05:
            a = rng.integers(y.shape[1])
            bad[k, a] += rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(1.3, 6.0) * sigma[a]
    bad[gaps(T, y.shape[1], rng)] = np.nan
    stream, found = run(problem, motion.samples(bad))
    errors = motion.errors(found)
    assert 0.90 < held(errors[WARM:]) < 0.98
    assert np.abs(errors).max() < 6.0
    assert stream.counts["outliers"] + stream.counts["absurd"] > 20
    _, trusting = run(problem, motion.samples(bad), robust=False)
    assert np.abs(motion.errors(trusting)).max() > 100.0


def test_a_torque_beyond_the_motor_is_no_reading(motion, problem, y):
    bad = y[:3].copy()
    bad[1, 0] = 1e4  # on a joint of less than 200 N·m
    stream, found = run(problem, motion.samples(bad))
    assert dict(found[1].absent) == {"tau.pan": 1}
    assert stream.counts["absurd"] == 1


def test_a_contact_is_not_gated_away(problem):
    push = np.zeros((700, 6))
    push[400:, :3] = [25.0, -30.0, 15.0]
    hit = moving(700, push=push)
    _, found = run(problem, hit.samples(hit.noisy(problem, np.random.default_rng(4))))
    errors = hit.errors(found)
    assert np.abs(errors[WARM:]).max() < 6.0  # at the blow too
    usual = found[300].sigma("fx.forearm")
    assert (found[404].sigma("fx.forearm") < 1.1 * usual).all()
    np.testing.assert_allclose(found[404]["fx.forearm"], push[404], atol=4.0 * usual.max())
    assert held(errors[404:]) > 0.90


def test_after_a_long_gap_little_is_said_and_nothing_grows(motion, problem, y):
    dq, q = motion.dq.copy(), motion.q.copy()
    dq[300:], q[300:, 1] = np.nan, np.nan
    _, found = run(problem, motion.samples(y, q, dq))
    sigma = np.stack([p.sigma("fx.forearm") for p in found])
    assert (sigma[301:].max(axis=1) >= 0.99 * sigma[299].max()).all()
    assert sigma[-1].max() < 500.0
    assert sigma[-1].max() > 2.0 * sigma[299].max()
    errors = motion.errors(found)
    assert np.abs(errors).max() < 6.0
    assert held(errors[300:]) > 0.90


def test_clocks_that_jump_pause_and_repeat(motion, problem, y):
    stream = EstimatorStream(problem)
    times = [*np.arange(50) * 1e-3, *([0.049] * 3), *(100.0 + np.arange(50) * 1e-3)]
    times += [*(np.arange(50) * 1e-3), 1e300, 1e301]
    found = [stream.step(Sample(t, motion.q[k], motion.dq[k], y[k])) for k, t in enumerate(times)]
    assert all(np.isfinite(p.mean).all() and np.isfinite(p.variance).all() for p in found)
    assert stream.counts["late"] == 3 + 5
    assert stream.counts["clock set back"] == 1
    assert stream.counts["pauses"] == 3
    assert "late" in found[106].notes[0]
    assert found[110].notes == ()


junk = st.sampled_from([0.0, 1.0, -3.0, 1e4, 1e12, 1e300, np.inf, -np.inf, np.nan])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(junk, min_size=21, max_size=21), min_size=1, max_size=12), st.booleans())
def test_whatever_comes_the_result_is_finite(problem, rows, filtered):
    options = {"cutoff": 50.0, "rate": 1000.0} if filtered else {}
    stream = EstimatorStream(problem, **options)
    stream.step(Sample(0.0, np.zeros(3), np.zeros(3), {}))
    for k, row in enumerate(rows):
        values = np.array(row)
        found = stream.step(Sample(1e-3 * (k + 1), values[:3], values[3:6], values[6:]))
        assert np.isfinite(found.mean).all()
        assert np.isfinite(found.variance).all()
        assert (found.variance >= 0.0).all()


def test_memory_does_not_grow(motion, problem, y):
    stream, samples = EstimatorStream(problem), motion.samples(y)

    def lap(first: float) -> None:
        for k, sample in enumerate(samples):
            stream.step(Sample(first + k * 1e-3, sample.q, sample.dq, sample.readings))

    lap(0.0)
    tracemalloc.start()
    lap(10.0)
    before = tracemalloc.get_traced_memory()[0]
    for n in range(3):
        lap(20.0 + 10.0 * n)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 20_000
