"""Times that cannot be right are named; delays and bursts are not."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.logs.live import StreamClock


@pytest.fixture
def clock(faults) -> StreamClock:
    return StreamClock(faults)


def judge(clock: StreamClock, t, arrived) -> list[str]:
    pairs = zip(np.atleast_1d(t), np.atleast_1d(arrived), strict=True)
    return [clock.judge(float(a), float(b)) for a, b in pairs]


def test_an_even_stream_is_right(clock, faults, rng):
    t = 1e-3 * np.arange(5000)
    delay = rng.exponential(2e-3, t.size)
    assert set(judge(clock, 1.7e9 + t, 50.0 + np.maximum.accumulate(t + delay))) == {"next"}
    assert clock.usual == pytest.approx(1e-3, rel=1e-3)
    assert faults.counts == {}


def test_bursts_are_right(clock, faults):
    t = 1e-3 * np.arange(3000)
    arrived = 0.05 * np.ceil(t / 0.05)  # fifty at once, twenty times a second
    assert set(judge(clock, t, arrived)) == {"next"}
    assert faults.counts == {}


@pytest.mark.parametrize("rate", [50.0, 1000.0, 5000.0])
@pytest.mark.parametrize(("unit", "factor"), [("ms", 1e3), ("us", 1e6), ("ns", 1e9)])
def test_other_units_of_time_are_named(clock, faults, said, rate, unit, factor):
    t = np.arange(int(0.5 * rate) + 20) / rate
    judge(clock, factor * t, 7.0 + t)
    assert faults.counts == {"time in another unit": 1}
    assert f"are these in {unit}?" in said[0]
    assert f"`time: {{unit: {unit}}}`" in said[0]


def test_milliseconds_are_named_where_arrivals_say_nothing(clock, said):
    clock.live = False
    judge(clock, np.arange(100.0), np.linspace(0.0, 0.001, 100))
    assert "are these in ms?" in said[0]


def test_slow_sources_are_right(clock, faults):
    t = np.arange(40.0)
    judge(clock, t, 3.0 + t)
    assert faults.counts == {}


def test_late_and_repeated_samples_are_left_out(clock, faults):
    assert judge(clock, [1.0, 1.1, 1.05, 1.1, 1.2], [0.0, 0.1, 0.11, 0.12, 0.2]) == [
        *("next", "next", "late", "late", "next")
    ]
    assert faults.counts == {"late samples": 1, "times repeated": 1}


def test_a_clock_that_stands_never_starts_anew(clock, faults):
    assert judge(clock, np.full(50, 3.0), np.arange(50.0)) == ["next", *49 * ["late"]]
    assert faults.counts == {"times repeated": 49}


@pytest.mark.parametrize("back", [0.05, 30.0])
def test_a_clock_that_was_set_back_starts_anew(clock, faults, back):
    t = 0.01 * np.arange(100)
    verdicts = judge(clock, np.concatenate([t, t[-1] - back + t]), 0.01 * np.arange(200))
    assert verdicts.count("restart") == (1 if back > 1.0 else 0)
    assert faults["clock set back"] == verdicts.count("restart")
    if back > 1.0:
        assert set(verdicts[101:]) == {"next"}
    else:  # within what was seen: the samples until then are late
        assert 5 <= verdicts[100:].count("late") <= 6
        assert verdicts[-1] == "next"


def test_a_clock_that_was_set_back_by_little_starts_anew_after_ten(clock, faults):
    t = 0.01 * np.arange(100)
    verdicts = judge(clock, np.concatenate([t, t + 0.5]), 0.01 * np.arange(200))
    assert verdicts[100:].index("restart") == 9
    assert faults["clock set back"] == 1


def test_a_clock_that_jumps_ahead_is_named(clock, faults, said):
    t = 0.01 * np.arange(100)
    t[60:] += 3600.0
    assert judge(clock, t, 0.01 * np.arange(100))[60] == "gap"
    assert faults.counts == {"clock jumped ahead": 1}
    assert "3600 s within 0.01 s" in said[0]


def test_a_pause_is_a_gap(clock, faults, said):
    t = 0.01 * np.arange(100)
    t[60:] += 2.0
    assert judge(clock, t, t)[60] == "gap"
    assert faults.counts == {"gaps": 1}
    assert "2.01 s between two samples, where 0.01 s are usual" in said[0]


@pytest.mark.parametrize("rate", [1.0, 1.0002, 0.98, 1.05])
def test_drift_is_told_apart_from_delays(clock, faults, rng, rate):
    arrived = 0.01 * np.arange(4500)
    t = rate * (arrived - rng.exponential(5e-3, arrived.size))
    judge(clock, np.sort(t), arrived)
    assert clock.rate == pytest.approx(rate, abs=3e-4)
    assert (faults["clock drifts"] > 0) is (abs(rate - 1.0) > 1e-3)
