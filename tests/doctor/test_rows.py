from __future__ import annotations

import numpy as np
import pytest


def spoilt(raw, **values):
    """Copies of the channels, with `channel=(rows, value)` overwritten; dots are underscores."""
    channels = {name: x.copy() for name, x in raw.channels.items()}
    for name, (rows, value) in values.items():
        channels[name.replace("_", ".")][rows] = value
    return channels


@pytest.mark.parametrize("value", [253.0, -1e282, np.inf])
def test_garbage_values_are_found_and_dropped(value, clean, changed, found):
    raw = changed(clean, spoilt(clean, q_joint3=([41, 42], value)))
    diagnosis = found(raw)
    kinds = {f.kind: f for f in diagnosis.findings}
    assert kinds["garbage-rows"].where == "rows 42-43"
    assert kinds["garbage-rows"].severity == "note"
    assert "q.joint3" in kinds["garbage-rows"].message
    assert set(kinds) <= {"garbage-rows", "gap"}
    assert diagnosis.usable
    assert diagnosis.n_kept == clean.t.size - 2


@pytest.mark.parametrize("value", [np.nan, 1e154, -4000.0, 4000.0])
def test_garbage_times_are_found_and_dropped(value, clean, changed, only):
    t = clean.t.copy()
    t[700] = value
    assert only(changed(clean, t=t), "garbage-rows", "note").where == "row 701"


def test_uninitialised_memory_at_the_start_is_dropped(clean, changed, found):
    """As in a real file: ascending times and plausible values among the garbage."""
    t = clean.t + 3000.0
    t[1:6] = [-0.1, 0.8, 47.0, 0.0, 0.0]
    channels = spoilt(clean, q_joint1=(slice(1, 4), 0.0))
    diagnosis = found(changed(clean, channels, t=t))
    assert [f.where for f in diagnosis.findings if f.kind == "garbage-rows"] == ["rows 2-6"]
    assert {f.kind for f in diagnosis.findings} == {"garbage-rows", "gap"}
    assert diagnosis.segments[-1].t[-1] == t[-1]


def test_mostly_garbage_is_no_recording(clean, changed, found):
    t = clean.t.copy()
    t[::2] = np.nan
    t[1::4] = np.nan
    diagnosis = found(changed(clean, t=t))
    assert not diagnosis.usable
    assert "garbage-rows" in {f.kind for f in diagnosis.of("error")}


def test_single_missing_values_are_interpolated(clean, changed, found):
    raw = changed(clean, spoilt(clean, q_joint2=([900], np.nan), tau_joint5=([50, 51], np.nan)))
    diagnosis = found(raw)
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity) == ("nan", "note")
    assert "q.joint2" in finding.where
    assert "tau.joint5" in finding.where
    assert "rows 51-52, 901" in finding.where
    (segment,) = diagnosis.segments
    assert segment.t.size == clean.t.size
    x = clean.channels["q.joint2"]
    assert segment.channels["q.joint2"][900] == pytest.approx((x[899] + x[901]) / 2.0)


def test_long_runs_of_missing_values_split_the_recording(clean, changed, found):
    diagnosis = found(changed(clean, spoilt(clean, tau_joint1=(slice(1000, 1030), np.nan))))
    assert [(f.kind, f.severity) for f in diagnosis.findings] == [("nan", "note"), ("gap", "note")]
    assert [segment.t.size for segment in diagnosis.segments] == [1000, clean.t.size - 1030]


def test_missing_values_at_the_ends_are_dropped(clean, changed, found):
    diagnosis = found(changed(clean, spoilt(clean, q_joint1=([0, -1], np.nan))))
    assert [f.kind for f in diagnosis.findings] == ["nan"]
    assert diagnosis.n_kept == clean.t.size - 2


def test_a_slow_torque_channel_leaves_its_own_rate(clean, changed, found):
    """Merged recordings have values in every tenth row only."""
    slow = np.arange(clean.t.size) % 10 > 0
    channels = spoilt(clean, **{f"tau_joint{k}": (slow, np.nan) for k in range(1, 7)})
    diagnosis = found(changed(clean, channels))
    assert [f.kind for f in diagnosis.findings] == ["nan"]
    assert diagnosis.rate == pytest.approx(50.0)


def test_an_empty_channel_is_dead(clean, changed, found):
    diagnosis = found(changed(clean, spoilt(clean, tau_joint6=(slice(None), np.nan))))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity, finding.where) == (
        "dead-channel",
        "error",
        "tau.joint6",
    )


def test_velocities_that_are_mostly_missing_are_not_used(clean, changed, found):
    diagnosis = found(changed(clean, spoilt(clean, v_joint6=(slice(0, 2000), np.nan))))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity, finding.where) == ("nan", "warning", "v.joint6")
    assert diagnosis.n_kept == clean.t.size
    assert "v.joint1" not in diagnosis.segments[0].channels


@pytest.mark.parametrize("rows", [[1234], [1234, 1235]])
def test_spikes_are_interpolated(rows, clean, changed, found):
    channels = spoilt(clean, q_joint4=(rows, clean.channels["q.joint4"][rows] + 1.0))
    diagnosis = found(changed(clean, channels))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity) == ("spike", "note")
    assert finding.where.startswith("q.joint4, row")
    assert "1235" in finding.where
    error = diagnosis.segments[0].channels["q.joint4"] - clean.channels["q.joint4"]
    assert np.abs(error).max() < 1e-3


def test_a_jump_splits_the_recording(clean, changed, found):
    channels = spoilt(clean, q_joint4=(slice(3000, None), clean.channels["q.joint4"][3000:] + 0.5))
    diagnosis = found(changed(clean, channels))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity) == ("jump", "warning")
    assert finding.where == "q.joint4, row 3001"
    assert [segment.t.size for segment in diagnosis.segments] == [3000, clean.t.size - 3000]


def test_a_clock_that_was_set_back_does_not_confuse_what_is_mended(clean, changed, found):
    """Times of two pieces do not ascend together, so neither may lean on the other's."""
    t = clean.t.copy()
    t[2500:] -= t[2500]
    channels = spoilt(clean, q_joint2=([900, 3000], np.nan))
    channels["q.joint1"][700] += 3.0
    diagnosis = found(changed(clean, channels, t=t))
    spike = next(f for f in diagnosis.findings if f.kind == "spike")
    assert spike.where == "q.joint1, row 701"
    for name in ("q.joint1", "q.joint2"):
        mended = np.concatenate([segment.channels[name] for segment in diagnosis.segments])
        np.testing.assert_allclose(mended, clean.channels[name], rtol=0, atol=1e-4)


def test_single_torques_that_jump_away_are_interpolated(clean, changed, only, found):
    x = clean.channels["tau.joint2"].copy()
    rows = np.array([700, 1900, 3300])
    x[rows] += 30.0 * x.std()
    raw = changed(clean, {**clean.channels, "tau.joint2": x})
    finding = only(raw, "torque-spike", "note")
    assert finding.where == "tau.joint2, rows 701, 1901, 3301"
    (segment,) = found(raw).segments
    smooth = clean.channels["tau.joint2"]
    np.testing.assert_allclose(segment.channels["tau.joint2"][rows], smooth[rows], atol=0.5)
