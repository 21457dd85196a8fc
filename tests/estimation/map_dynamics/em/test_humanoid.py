"""An iCub with the sensors of a real one: what its log tells is found, the rest is said not to be.

The log is that of the benchmark `covariances`, shorter.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from bodysense.errors import ShapeError
from bodysense.estimation import estimate_covariances

# `benchmarks` is no part of the installed package: it lies in the root of the repository.
sys.path.insert(0, str(Path(__file__).parents[4]))

from benchmarks.covariances import covariance_subject, wrong_by_factors, wrong_by_kind


@pytest.fixture(scope="module")
def subject():
    return covariance_subject(700)


def test_by_axis_what_is_told_is_found_and_intervals_hold_the_truth(subject):
    problem, samples = subject
    fit = estimate_covariances(wrong_by_factors(problem, np.random.default_rng(1)), samples)
    assert fit.converged, fit.message
    assert fit.trace.size <= 20
    assert (np.diff(fit.trace) >= 0.0).all()
    told, held = {"well": [], "roughly": [], "not": []}, []
    for sensor in problem.sensors:
        truth = np.diag(sensor.covariance)
        ratio = np.diag(fit.covariances[sensor.name]) / truth
        for word, value in zip(fit.identified(sensor.name), ratio, strict=True):
            told[word].append(value)
        low, high = fit.interval(sensor.name).T ** 2
        held.append((low <= truth) & (truth <= high))
    assert len(told["well"]) > 50  # gyroscopes and most torques, of 142
    np.testing.assert_allclose(told["well"], 1.0, atol=0.2)
    assert len(told["not"]) > 5
    assert np.concatenate(held).mean() == pytest.approx(0.95, abs=0.05)
    assert "ddq.l_ankle_roll[0]" in fit.message
    assert set(fit.identified("ddq.l_wrist_pitch")) == {"not"}
    assert "known to 7%" in fit.summary()
    with pytest.raises(ShapeError, match="level"):
        fit.interval("ddq.l_wrist_pitch", 95)


def test_one_factor_a_kind_is_told_by_a_short_log(subject):
    problem, samples = subject
    start = wrong_by_kind(problem, np.random.default_rng(2))
    fit = estimate_covariances(start, samples, structure="type")
    assert fit.converged, fit.message
    for sensor in problem.sensors:
        ratio = np.diag(fit.covariances[sensor.name]) / np.diag(sensor.covariance)
        np.testing.assert_allclose(ratio, 1.0, atol=0.2, err_msg=sensor.name)
        assert set(fit.identified(sensor.name)) == {"well"}
