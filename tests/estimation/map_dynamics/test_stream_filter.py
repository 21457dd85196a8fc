"""One low-pass for all channels: its delay, its noise, and accelerations derived within it."""

from __future__ import annotations

import numpy as np
import pytest
from moving_arm import STD, moving, problem_of

from bodysense.errors import ShapeError
from bodysense.estimation import EstimatorStream, Sample

T, RATE, CUTOFF, SETTLED = 2000, 1000.0, 25.0, 100


@pytest.fixture(scope="module")
def motion():
    t = np.arange(T) / RATE
    return moving(T, push=np.outer(np.sin(2.0 * t) ** 2, [12.0, -20.0, 5.0, 0.5, 1.0, -0.3]))


@pytest.fixture(scope="module")
def problem(motion):
    return problem_of(motion.robot)


def truths(motion, delay):
    """(T, 9) wrench on the forearm and torques, this much earlier."""
    t, rows = np.arange(T) / RATE, np.concatenate([motion.wrench, motion.tau], axis=1)
    return np.stack([np.interp(t - delay, t, row) for row in rows.T], axis=1)


def run(problem, motion, y, dq=None, **options):
    stream = EstimatorStream(problem, cutoff=CUTOFF, rate=RATE, **options)
    found = [stream.step(sample) for sample in motion.samples(y, dq=dq)]
    names = ["fx.forearm", *(f"tau.{joint}" for joint in motion.robot.joint_names)]
    mean = np.stack([np.concatenate([p[name] for name in names]) for p in found])
    sigma = np.stack([np.concatenate([p.sigma(name) for name in names]) for p in found])
    return stream, found, mean, sigma


def test_estimates_are_late_by_the_stated_delay(motion, problem):
    stream, _, mean, _ = run(problem, motion, motion.y)
    assert stream.delay == pytest.approx(2.0 * 0.6436 / (2.0 * np.pi * CUTOFF), rel=0.15)
    off = [np.abs(mean - truths(motion, d))[SETTLED:].mean(axis=0) for d in (stream.delay, 0.0)]
    assert (off[0][6:] < 0.2 * off[1][6:]).all()
    assert off[0].max() < 0.1


def test_white_noise_shrinks_as_the_variances_say(motion, problem):
    rng = np.random.default_rng(1)
    _, found, mean, _ = run(problem, motion, motion.noisy(problem, rng))
    _, _, clean, sigma = run(problem, motion, motion.y)
    off = (mean - clean)[SETTLED:] / sigma[SETTLED:]
    assert np.sqrt(np.mean(off**2)) == pytest.approx(1.0, abs=0.12)
    raw = EstimatorStream(problem)
    plain = raw.step(motion.samples(motion.y)[0]).sigma("tau.pan")
    assert found[-1].sigma("tau.pan") < 0.5 * plain


@pytest.mark.parametrize("known", [False, True])
def test_accelerations_are_derived_from_velocities(motion, problem, known):
    rng, encoder = np.random.default_rng(2), 2e-6
    read = motion.q + encoder * rng.normal(size=motion.q.shape)
    dq = np.gradient(motion.q, axis=0) * RATE
    dq[1:] = np.diff(read, axis=0) * RATE
    if not known:
        dq = motion.dq + 2e-3 * rng.normal(size=motion.dq.shape)
    y = motion.y.copy()
    y[:, problem.layout.slices["ddq.pan"].start :] = np.nan
    options = {"encoder_std": encoder} if known else {}
    stream, found, _, _ = run(problem, motion, y, dq, **options)
    late = stream.delay + 0.5 / RATE
    t, error, sigma = np.arange(T) / RATE, [], []
    for j, joint in enumerate(motion.robot.joint_names):
        truth = np.interp(t - late, t, motion.ddq[:, j])
        error.append([p[f"ddq.{joint}"][0] for p in found] - truth)
        sigma.append([p.sigma(f"ddq.{joint}")[0] for p in found])
    z = (np.array(error) / np.array(sigma))[:, 600:]
    assert dict(found[-1].absent) == {}
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.3
    assert np.array(sigma)[:, -1].max() < STD["ddq"]


def test_a_channel_that_was_lost_waits_until_its_filter_has_settled(motion, problem):
    y = motion.y.copy()
    y[300:350, problem.layout.slices["wrist"]] = np.nan
    stream, found, mean, _ = run(problem, motion, y)
    absent = np.array(["wrist" in p.absent for p in found])
    back = 350 + int(np.argmin(absent[350:]))
    assert absent[300:back].all()
    assert 350 + 3.5 * stream.delay * RATE < back < 350 + 5.0 * stream.delay * RATE
    late = truths(motion, stream.delay)
    assert np.abs(mean - late)[SETTLED:, 6:].max() < 0.5


def test_wrong_settings_are_named(problem):
    with pytest.raises(ShapeError, match="rate"):
        EstimatorStream(problem, cutoff=10.0)
    for cutoff, rate in ((0.0, 100.0), (60.0, 100.0), (np.nan, 100.0), (10.0, 0.0)):
        with pytest.raises(ShapeError, match="give"):
            EstimatorStream(problem, cutoff=cutoff, rate=rate)
    with pytest.raises(ShapeError, match="encoder_std"):
        EstimatorStream(problem, cutoff=10.0, rate=100.0, encoder_std=[1.0, 2.0])


def test_without_a_filter_there_is_no_delay(motion, problem):
    stream = EstimatorStream(problem)
    assert stream.delay == 0.0
    found = stream.step(Sample(0.0, motion.q[0], motion.dq[0], motion.y[0]))
    expected = problem.estimate(motion.q[0], motion.dq[0], motion.y[0])
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-12)
