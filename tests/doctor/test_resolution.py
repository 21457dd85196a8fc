from __future__ import annotations

import numpy as np
import pytest


def with_channel(raw, changed, name, values):
    return changed(raw, {**raw.channels, name: values})


@pytest.mark.parametrize("value", [0.0, 3.7])
def test_a_torque_that_never_changes_is_dead(value, clean, changed, only):
    raw = with_channel(clean, changed, "tau.joint3", np.full(clean.t.size, value))
    assert only(raw, "dead-channel", "error").where == "tau.joint3"


def test_a_position_that_never_changes_is_dead(clean, changed, found):
    raw = with_channel(clean, changed, "q.joint1", np.full(clean.t.size, 0.3))
    raw = with_channel(raw, changed, "v.joint1", np.zeros(clean.t.size))
    diagnosis = found(raw)
    assert [(f.kind, f.severity, f.where) for f in diagnosis.findings] == [
        ("dead-channel", "warning", "q.joint1")
    ]


def test_a_velocity_that_never_changes_is_not_used(clean, changed, found):
    diagnosis = found(with_channel(clean, changed, "v.joint6", np.zeros(clean.t.size)))
    assert [(f.kind, f.severity, f.where) for f in diagnosis.findings] == [
        ("dead-channel", "warning", "v.joint6")
    ]
    assert "v.joint1" not in diagnosis.segments[0].channels


def test_a_torque_that_stops_for_a_while_loses_those_rows(clean, changed, found):
    values = clean.channels["tau.joint2"].copy()
    values[2000:2300] = values[2000]
    diagnosis = found(with_channel(clean, changed, "tau.joint2", values))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity) == ("dead-channel", "warning")
    assert finding.where == "tau.joint2, rows 2001-2300"
    assert [segment.t.size for segment in diagnosis.segments] == [2000, clean.t.size - 2300]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_clipped_torque_is_a_warning(sign, clean, changed, only):
    x = clean.channels["tau.joint1"]
    limit = 0.6 * (sign * x).max()
    clipped = sign * np.minimum(sign * x, limit)
    finding = only(
        with_channel(clean, changed, "tau.joint1", clipped), "saturated-channel", "warning"
    )
    assert finding.where.startswith("tau.joint1, rows")
    assert f"{sign * limit:.4g}" in finding.message


def test_position_steps_are_a_note(recorded, changed, only):
    raw = recorded(rate=100.0)
    channels = dict(raw.channels)
    for name in channels:
        if name[0] == "q":
            channels[name] = np.round(channels[name], 3)
    finding = only(changed(raw, channels), "quantised", "note")
    assert finding.where == "q (all joints)"
    assert "0.001 rad: 0.1 rad/s" in finding.message


def test_coarse_steps_are_a_warning(recorded, changed, only):
    raw = recorded(rate=100.0)
    coarse = 0.05 * np.round(raw.channels["q.joint2"] / 0.05)
    finding = only(with_channel(raw, changed, "q.joint2", coarse), "quantised", "warning")
    assert finding.where == "q.joint2"


@pytest.mark.parametrize(("step", "severity"), [(0.5, "note"), (2.0, "warning")])
def test_torque_steps_are_told(step, severity, clean, changed, only):
    coarse = step * np.round(clean.channels["tau.joint1"] / step)
    finding = only(with_channel(clean, changed, "tau.joint1", coarse), "quantised", severity)
    assert finding.where == "tau.joint1"
    assert f"{step:g} N·m" in finding.message


def test_a_channel_that_is_held_is_told(clean, changed, only):
    held = clean.channels["tau.joint4"][np.arange(clean.t.size) // 5 * 5]
    finding = only(with_channel(clean, changed, "tau.joint4", held), "held-channel", "warning")
    assert finding.where == "tau.joint4"
    assert "100 times per second" in finding.message


@pytest.mark.parametrize(("share", "severity"), [(88.0, "error"), (30.0, "warning")])
def test_a_dead_band_is_no_held_and_no_dead_channel(share, severity, clean, changed, only):
    x = clean.channels["tau.joint2"]
    cut = np.where(np.abs(x) < np.percentile(np.abs(x), share), 0.0, x)
    finding = only(with_channel(clean, changed, "tau.joint2", cut), "dead-band", severity)
    assert finding.where == "tau.joint2"
    assert "while the joint moves" in finding.message
    told = float(finding.message.partition("exactly 0 in ")[2].partition(" %")[0])
    assert told == pytest.approx(share, abs=2.0)


def test_a_position_that_hangs_loses_those_rows(clean, changed, found):
    x = clean.channels["q.joint2"].copy()
    fast = int(np.argmax(np.abs(np.diff(x[2000:2300])))) + 2000
    x[fast : fast + 400] = x[fast]
    channels = {name: y for name, y in clean.channels.items() if name[0] != "v"}
    findings = found(changed(clean, {**channels, "q.joint2": x})).findings
    hung = next(f for f in findings if f.kind == "dead-channel")
    assert hung.severity == "warning"
    assert hung.where.startswith("q.joint2, rows")
    assert "although it was moving" in hung.message


def test_a_joint_that_rests_on_a_coarse_encoder_does_not_hang(clean, changed, found):
    """It comes to rest, stays on one value for a second, and goes on."""
    t = clean.t
    way = np.clip(t, None, 4.0) + np.clip(t - 6.0, 0.0, None)
    s = way - np.sin(np.pi * way / 2.0) * 2.0 / np.pi  # its speed is zero at 4 s
    x = 1e-4 * np.round((0.1 * s) / 1e-4)
    assert (np.diff(x)[(t[:-1] > 4.1) & (t[:-1] < 5.9)] == 0.0).all()
    channels = {name: y for name, y in clean.channels.items() if name[0] != "v"}
    kinds = {f.kind for f in found(changed(clean, {**channels, "q.joint6": x})).findings}
    assert "dead-channel" not in kinds


def test_a_torque_that_is_clipped_on_both_sides_is_one_finding(clean, changed, only):
    x = clean.channels["tau.joint1"]
    limit = 0.6 * np.abs(x).max()
    raw = with_channel(clean, changed, "tau.joint1", np.clip(x, -limit, limit))
    finding = only(raw, "saturated-channel", "warning")
    assert finding.where.count("tau.joint1, rows") == 2
    assert finding.message.endswith("; the others likewise)")


def test_channels_that_are_dead_alike_are_one_finding(clean, changed, found):
    torques = {f"tau.joint{k}": 0.0 * clean.t for k in range(1, 7)}
    (finding,) = found(changed(clean, {**clean.channels, **torques})).of("error")
    assert finding.where == ", ".join(torques)
    assert finding.message == "stays at 0 while the joint moves"


def test_twelve_channels_without_values_are_one_finding(clean, changed, found):
    empty = {f"{x}.joint{k}": np.nan * clean.t for x in ("q", "tau") for k in range(1, 7)}
    (finding,) = found(changed(clean, {**clean.channels, **empty})).of("error")
    assert finding.kind == "dead-channel"
    assert finding.where == ", ".join(empty)
