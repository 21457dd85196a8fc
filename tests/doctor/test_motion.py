from __future__ import annotations

import numpy as np
import pytest

from bodysense.doctor import examine
from bodysense.robot import load_robot


def padded(raw, changed, before, after, rng, noise=1e-5):
    """The recording with standstill before and after, as long as given [s]."""
    period = raw.t[1] - raw.t[0]
    n0, n1 = round(before / period), round(after / period)
    n = n0 + raw.t.size + n1
    channels = {}
    for name, values in raw.channels.items():
        rest = 0.0 if name.startswith("v") else noise
        x = np.concatenate([np.full(n0, values[0]), values, np.full(n1, values[-1])])
        if name.startswith("v"):
            x[:n0] = x[n0 + raw.t.size :] = 0.0
        channels[name] = x + rest * rng.standard_normal(n)
    t = np.arange(n) * period
    return changed(raw, channels, t=t, rows=np.arange(1, n + 1))


def test_standstill_at_both_ends_is_cut(clean, changed, found, rng):
    diagnosis = found(padded(clean, changed, 4.0, 5.0, rng))
    start, end = diagnosis.findings
    assert (start.kind, start.severity, start.where[:13]) == ("standstill", "note", "start, rows 1")
    assert (end.kind, end.severity, end.where[:3]) == ("standstill", "note", "end")
    (segment,) = diagnosis.segments
    # Two seconds of it stay at each end of ten seconds of motion.
    assert segment.t[0] == pytest.approx(2.0, abs=0.15)
    assert segment.t[-1] == pytest.approx(16.0, abs=0.3)
    (moving,) = diagnosis.moving
    assert not moving[:900].any()
    assert not moving[-800:].any()


def test_a_short_standstill_stays(clean, changed, found, rng):
    diagnosis = found(padded(clean, changed, 2.8, 0.7, rng))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity, finding.where) == ("standstill", "note", "start")
    assert finding.action.startswith("kept")
    assert diagnosis.n_kept == clean.t.size + 1750


def test_a_rest_in_between_is_kept(clean, changed, found, rng):
    first = padded(clean, changed, 0.0, 4.0, rng)
    again = {
        name: np.concatenate([values, clean.channels[name] + 0.0])
        for name, values in first.channels.items()
    }
    n = first.t.size + clean.t.size
    raw = changed(clean, again, t=np.arange(n) * 0.002, rows=np.arange(1, n + 1))
    diagnosis = found(raw)
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity) == ("standstill", "note")
    assert "1 rest" in finding.message
    assert diagnosis.n_kept == n


def test_a_joint_that_stands_still_is_a_warning(clean, changed, only, found, rng):
    channels = dict(clean.channels)
    channels["q.joint1"] = 0.3 + 1e-5 * rng.standard_normal(clean.t.size)
    channels["v.joint1"] = 1e-4 * rng.standard_normal(clean.t.size)
    assert only(changed(clean, channels), "still-joint", "warning").where == "joint1"
    channels["q.joint6"] = 0.3 + 1e-5 * rng.standard_normal(clean.t.size)
    channels["q.joint5"] = 0.3 + 1e-5 * rng.standard_normal(clean.t.size)
    places = [f.where for f in found(changed(clean, channels)).findings if f.kind == "still-joint"]
    assert places == ["joint1, joint5, joint6"]


def still(clean, changed, rng, push=0.0):
    n = 3000
    channels = {}
    for name, values in clean.channels.items():
        noise = {"q": 1e-5, "v": 1e-4, "t": 0.05}[name[0]]
        channels[name] = values[2000] * (name[0] != "v") + noise * rng.standard_normal(n)
    channels["tau.joint2"] = channels["tau.joint2"] + push * np.sin(np.linspace(0.0, 3.0, n))
    return changed(clean, channels, t=np.arange(n) * 0.002, rows=np.arange(1, n + 1))


def test_a_recording_of_standing_still_is_no_motion(clean, changed, found, rng):
    diagnosis = found(still(clean, changed, rng))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity) == ("all-still", "error")
    assert "posture" in finding.action
    assert diagnosis.n_kept == 3000  # for those who want the torques of that posture
    assert not diagnosis.usable


def test_pushing_a_standing_robot_is_told(clean, changed, rng, recordings):
    robot = load_robot(recordings / "tx40" / "tx40.urdf")  # it has effort limits
    raw = still(clean, changed, rng, push=40.0)
    renamed = {name.replace("joint", "joint_"): x for name, x in raw.channels.items()}
    findings = examine(robot, changed(raw, renamed)).findings
    assert [(f.kind, f.severity) for f in findings] == [
        ("all-still", "error"),
        ("external-force", "warning"),
    ]
    assert findings[1].where.startswith("joint_2 (")
