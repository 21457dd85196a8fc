"""Resampling: exact where it can be, and nothing done where nothing has to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.errors import ShapeError
from bodysense.logs import Log
from bodysense.logs.filtering import is_even, resample


def uneven_times(rng: np.random.Generator, n_t: int = 60) -> np.ndarray:
    return 5.0 + np.cumsum(rng.uniform(0.005, 0.015, n_t))


@pytest.mark.parametrize("start", [0.0, -3.0, 1.6e9])
def test_even_logs_stay_as_they_are(start, rng):
    t = start + np.arange(500) / 125.0
    log = Log.of(t, {"q.a": rng.normal(size=t.size)})
    out, rate = resample(log)
    assert out is log
    assert rate == pytest.approx(125.0)
    assert resample(log, rate)[0] is log


def test_times_rounded_to_their_digits_are_even_and_jittered_ones_are_not():
    t = np.arange(1000) / 300.0
    assert is_even(np.round(t, 6))
    assert not is_even(np.round(t, 3))
    late = t.copy()
    late[500] += 1e-4
    assert not is_even(late)
    assert is_even(np.array([0.0, 1.0]))
    assert is_even(np.zeros(0))


@given(seed=st.integers(0, 10**6), rate=st.floats(40.0, 400.0))
def test_cubics_come_through_exactly_and_torques_go_straight(seed, rate):
    rng = np.random.default_rng(seed)
    t = uneven_times(rng)
    cubic, line = rng.normal(size=4), rng.normal(size=2)
    middle = t.mean()
    log = Log.of(
        t,
        {
            "q.a": np.polyval(cubic, t - middle),
            "v.a": np.polyval(cubic[::-1], t - middle),
            "tau.a": np.polyval(line, t - middle),
            "mode": np.polyval(line, t - middle),
        },
        {"mode": "1"},
    )
    out, found = resample(log, rate)
    assert found == rate
    np.testing.assert_allclose(np.diff(out.t), 1.0 / rate, rtol=1e-6)
    assert out.t[0] == t[0]
    assert 0.0 <= t[-1] - out.t[-1] < 1.0 / rate * (1.0 + 1e-6)
    for name, polynomial in (("q.a", cubic), ("v.a", cubic[::-1]), ("tau.a", line), ("mode", line)):
        wanted = np.polyval(polynomial, out.t - middle)
        np.testing.assert_allclose(out.channels[name], wanted, atol=1e-9)
    assert dict(out.units) == dict(log.units)


def test_uneven_logs_get_their_mean_rate_and_as_many_samples(rng):
    t = uneven_times(rng)
    out, rate = resample(Log.of(t, {"q.a": np.sin(t), "tau.a": np.sign(np.sin(3 * t))}))
    assert rate == pytest.approx((t.size - 1) / (t[-1] - t[0]))
    assert out.t.size == t.size
    assert is_even(out.t)
    np.testing.assert_allclose(out.channels["q.a"], np.sin(out.t), atol=1e-6)
    # A cubic would overshoot the jumps of a torque.
    assert np.abs(out.channels["tau.a"]).max() <= 1.0


@pytest.mark.parametrize("n_t", [2, 3])
def test_few_samples_are_joined_by_lines(n_t):
    t = np.array([0.0, 1.0, 3.0])[:n_t]
    out, _ = resample(Log.of(t, {"q.a": 2.0 * t}), 4.0)
    np.testing.assert_allclose(out.channels["q.a"], 2.0 * out.t)


@pytest.mark.parametrize("n_t", [0, 1])
def test_a_log_without_a_rate_is_refused(n_t):
    with pytest.raises(ShapeError, match=f"a log of {n_t} samples has no rate"):
        resample(Log.of(np.zeros(n_t), {}))


@pytest.mark.parametrize("rate", [0.0, -5.0, np.nan, np.inf])
def test_a_rate_must_be_positive(rate):
    with pytest.raises(ShapeError, match="give a positive one"):
        resample(Log.of(np.arange(5.0), {}), rate)
