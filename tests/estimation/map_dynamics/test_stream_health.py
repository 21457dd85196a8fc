"""Sensors that stop working are named, and constant errors are followed."""

from __future__ import annotations

import numpy as np
import pytest
from moving_arm import moving, problem_of

from bodysense.estimation import EstimatorStream, Sample

T, RATE = 3000, 1000.0


@pytest.fixture(scope="module")
def motion():
    return moving(T, rate=RATE)


@pytest.fixture(scope="module")
def problem(motion):
    return problem_of(motion.robot)


@pytest.fixture(scope="module")
def y(motion, problem):
    return motion.noisy(problem, np.random.default_rng(1))


def notes_of(problem, motion, y):
    stream, notes = EstimatorStream(problem), []
    for sample in motion.samples(y):
        notes += [note for note in stream.step(sample).notes if ":" in note]
    return stream, notes


def test_all_is_well(motion, problem, y):
    stream, notes = notes_of(problem, motion, y)
    assert notes == []
    assert {health.status for health in stream.health().values()} == {"ok"}
    ratios = [health.ratio for health in stream.health().values()]
    assert all(0.0 <= ratio < 1.2 for ratio in ratios)


@pytest.mark.parametrize("fault", ["dead", "stuck", "dropping out", "spiking", "drifted"])
def test_a_sensor_that_stops_working_is_named(motion, problem, y, fault):
    bad, rng, at = y.copy(), np.random.default_rng(2), problem.layout.slices["acc"]
    late = np.arange(T) >= 1000
    if fault == "dead":
        bad[late, at] = np.nan
    elif fault == "stuck":
        bad[late, at] = bad[1000, at]
    elif fault == "dropping out":
        bad[late & (rng.uniform(size=T) < 0.3), at] = np.nan
    elif fault == "spiking":
        bad[late & (rng.uniform(size=T) < 0.15), at] += 40.0
    else:
        bad[:, at] += np.outer(np.clip(np.arange(T) - 1000, 0, None) / 1000.0, [4.0, -3.0, 2.0])
    stream, notes = notes_of(problem, motion, bad)
    health = stream.health()["acc"]
    assert health.status == fault
    assert health.words in " ".join(notes) or notes
    assert notes[0].startswith("acc: ")
    others = [h.status for name, h in stream.health().items() if name not in ("acc", "wrist")]
    assert set(others) == {"ok"}


def test_a_sensor_that_works_again_is_well(motion, problem, y):
    bad = y.copy()
    bad[200:900, problem.layout.slices["wrist"]] = np.nan
    stream, notes = notes_of(problem, motion, bad)
    assert stream.health()["wrist"].status == "ok"
    assert any("no reading for" in note for note in notes)
    assert notes[-1] == "wrist: works"


def test_silence_from_the_start_is_no_fault_in_time(motion, problem, y):
    bad = y.copy()
    bad[:, problem.layout.slices["acc"]] = np.nan
    stream, notes = notes_of(problem, motion, bad)
    assert stream.health()["acc"].status == "silent"
    assert notes == []


BIAS = np.array([1.0, -1.5, 0.5, 0.1, -0.1, 0.05])


def biased(motion, problem, y):
    bad = y.copy()
    bad[:, problem.layout.slices["wrist"]] += BIAS
    stream, samples = EstimatorStream(problem), motion.samples(bad)
    return stream, [stream.step(sample) for sample in samples], samples


def test_a_bias_is_followed(motion, y):
    problem = problem_of(motion.robot, bias=1.0)
    stream, found, samples = biased(motion, problem, y)
    errors = motion.errors(found)
    assert held(errors[500:]) > 0.90
    assert np.abs(errors).max() < 6.0
    assert (np.abs(stream.biases["wrist"] - BIAS) < [0.2, 2.0, 0.2, 0.3, 0.05, 0.3]).all()
    blind = EstimatorStream(problem_of(motion.robot))
    z = motion.errors([blind.step(Sample(s.t, s.q, s.dq, s.readings)) for s in samples])
    assert held(z[500:]) < 0.85


def test_a_contact_is_not_taken_for_a_bias(motion):
    push = np.zeros((T, 6))
    push[1000:, :3] = [10.0, -8.0, 6.0]
    hit = moving(T, rate=RATE, push=push)
    problem = problem_of(hit.robot, bias=1.0)
    stream, found, _ = biased(hit, problem, hit.noisy(problem, np.random.default_rng(5)))
    errors = hit.errors(found)
    assert np.abs(errors).max() < 6.0
    assert held(errors[1000:]) > 0.90
    np.testing.assert_allclose(found[-1]["fx.forearm"][:3], push[-1, :3], atol=6.0)
    assert set(stream.biases) == {"wrist"}


def held(errors):
    return float(np.mean(np.abs(errors) <= 1.96))
