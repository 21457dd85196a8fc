from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest


def test_a_row_that_was_written_twice_is_dropped(clean, changed, only):
    keep = np.sort(np.append(np.arange(clean.t.size), [80, 4000]))
    rows = np.arange(1, clean.t.size + 3)
    raw = changed(clean, keep=keep)
    finding = only(changed(raw, rows=rows), "repeated-rows", "note")
    assert finding.where == "rows 82, 4003"


@pytest.mark.parametrize("other", [False, True])
def test_rows_with_other_values_at_the_same_time_are_no_copies(clean, changed, found, other):
    keep = np.repeat(np.arange(clean.t.size), 2)
    raw = changed(clean, keep=keep, rows=np.arange(1, keep.size + 1))
    if other:
        channels = dict(raw.channels)
        channels["tau.joint1"] = channels["tau.joint1"] + 1e-3 * (np.arange(keep.size) % 2)
        raw = changed(raw, channels)
    diagnosis = found(raw)
    kinds = {(f.kind, f.severity) for f in diagnosis.findings}
    expected = ("repeated-time", "warning") if other else ("repeated-rows", "note")
    assert kinds == {expected}
    assert diagnosis.n_kept == clean.t.size


def test_a_clock_that_is_too_coarse_is_a_warning(clean, changed, found):
    diagnosis = found(changed(clean, t=np.floor(clean.t * 100.0) / 100.0))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity) == ("repeated-time", "warning")
    assert "rate:" in finding.action
    assert diagnosis.rate == pytest.approx(100.0, rel=1e-3)


def test_rows_in_the_wrong_order_are_sorted(clean, changed, found):
    keep = np.arange(clean.t.size)
    keep[2000:2004] = [2002, 2000, 2003, 2001]
    diagnosis = found(changed(clean, keep=keep, rows=np.argsort(keep) + 1))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity, finding.action) == (
        "backward-time",
        "note",
        "sorted by time",
    )
    np.testing.assert_array_equal(diagnosis.segments[0].t, clean.t)
    np.testing.assert_array_equal(
        diagnosis.segments[0].channels["tau.joint1"], clean.channels["tau.joint1"]
    )


def test_all_rows_in_any_order_are_sorted(clean, changed, found, rng):
    diagnosis = found(changed(clean, keep=rng.permutation(clean.t.size)))
    assert [f.kind for f in diagnosis.findings] == ["backward-time"]
    np.testing.assert_array_equal(diagnosis.segments[0].t, clean.t)


def test_a_clock_that_stumbles_loses_those_rows(clean, changed, only):
    t = clean.t.copy()
    t[2500] -= 1.5
    finding = only(changed(clean, t=t), "backward-time", "note")
    assert finding.where == "row 2501"
    assert finding.action == "these rows left out"


def test_a_clock_that_is_set_back_splits_the_recording(clean, changed, found):
    t = clean.t.copy()
    t[2500:] -= 1.5
    diagnosis = found(changed(clean, t=t))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity, finding.where) == (
        "backward-time",
        "warning",
        "row 2501",
    )
    assert [segment.t.size for segment in diagnosis.segments] == [2500, clean.t.size - 2500]


def test_a_column_that_is_no_time_is_an_error(clean, changed, found, rng):
    diagnosis = found(changed(clean, t=rng.permutation(clean.t)))
    assert [(f.kind, f.severity) for f in diagnosis.findings] == [("backward-time", "error")]
    assert diagnosis.segments == ()


def test_uneven_sampling_is_a_note(recorded, changed, only, rng):
    raw = recorded(rate=1000.0)
    keep = np.cumsum(rng.choice([10, 12], 900))
    finding = only(changed(raw, keep=keep[keep < raw.t.size]), "jitter", "note")
    assert "10 ms to 12 ms" in finding.message


def test_a_short_gap_is_bridged(clean, changed, found):
    keep = np.delete(np.arange(clean.t.size), [600, 601, 602])
    diagnosis = found(changed(clean, keep=keep))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity, finding.where) == ("gap", "note", "before row 604")
    assert "8 ms where 2 ms" in finding.message
    assert len(diagnosis.segments) == 1


def test_a_long_gap_splits_the_recording(clean, changed, found):
    keep = np.delete(np.arange(clean.t.size), np.arange(600, 800))
    diagnosis = found(changed(clean, keep=keep))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity, finding.where) == ("gap", "note", "before row 801")
    assert [segment.t.size for segment in diagnosis.segments] == [600, clean.t.size - 800]


def test_much_time_lost_is_a_warning(clean, changed, only):
    keep = np.delete(np.arange(clean.t.size), np.arange(600, 1800))
    only(changed(clean, keep=keep), "gap", "warning")


def test_fragments_between_gaps_are_dropped(clean, changed, found):
    keep = np.delete(np.arange(clean.t.size), [*range(600, 700), *range(705, 800)])
    diagnosis = found(changed(clean, keep=keep))
    assert [f.kind for f in diagnosis.findings] == ["gap", "fragment"]
    assert diagnosis.findings[1].where == "rows 701-705"
    assert diagnosis.n_kept == clean.t.size - 200


@pytest.mark.parametrize(("factor", "unit"), [(1e3, "ms"), (1e6, "us"), (1e9, "ns")])
def test_time_in_another_unit_is_an_error(factor, unit, recorded, changed, found):
    raw = recorded(rate=100.0)
    raw = changed(raw, {k: x for k, x in raw.channels.items() if k[0] != "v"}, t=raw.t * factor)
    diagnosis = found(raw)
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity, finding.where) == ("time-unit", "error", "t")
    assert f"time: {{unit: {unit}}}" in finding.action


def test_recorded_velocities_tell_the_unit_of_time(recorded, changed, found):
    raw = recorded(rate=5000.0)
    diagnosis = found(changed(raw, t=raw.t * 1e3))
    errors = diagnosis.of("error")
    assert [(f.kind, f.where) for f in errors] == [("time-unit", "t")]
    assert "time: {unit: ms}" in errors[0].action


def test_a_low_rate_is_a_warning(recorded, changed, found):
    raw = recorded(rate=100.0, harmonics=3)
    assert ("low-rate", "warning") in {
        (f.kind, f.severity) for f in found(changed(raw, keep=slice(None, None, 10))).findings
    }


@pytest.mark.parametrize(("n", "severity"), [(5, "error"), (60, "error"), (400, "warning")])
def test_short_recordings_are_told(n, severity, clean, changed, only):
    only(changed(clean, keep=slice(2000, 2000 + n)), "too-short", severity)


def every_nth_group_lost(n):
    """Places left of a recording that has lost five samples in a row now and then."""
    places = np.arange(n)
    return places[~((places // 5) % 40 == 7)]


def test_samples_that_are_missing_without_a_gap_in_time(clean, changed, found):
    keep = every_nth_group_lost(clean.t.size)
    channels = {name: x[keep] for name, x in clean.channels.items()}
    n = keep.size
    diagnosis = found(replace(clean, channels=channels, t=clean.t[:n], rows=clean.rows[:n]))
    (finding,) = [f for f in diagnosis.findings if f.kind == "lost-samples"]
    assert finding.severity == "warning"
    assert "samples are missing there" in finding.message
    honest = found(changed(clean, keep=keep))
    assert "lost-samples" not in {f.kind for f in honest.findings}


def test_samples_that_were_taken_unevenly(clean, changed, found, rng):
    n, step = clean.t.size, clean.t[1] - clean.t[0]
    true = np.sort(clean.t + rng.uniform(-2.0 * step, 2.0 * step, n))
    channels = {name: np.interp(true, clean.t, x) for name, x in clean.channels.items()}
    diagnosis = found(replace(clean, channels=channels))
    assert "uneven-samples" in {f.kind for f in diagnosis.findings}
    honest = found(replace(clean, channels=channels, t=true))
    assert not {"uneven-samples", "lost-samples"} & {f.kind for f in honest.findings}


def test_noise_of_encoders_is_no_uneven_time(clean, found, rng):
    """Steps of each joint by itself, as large as those of the motion."""
    noisy = {
        name: x + 1e-3 * rng.normal(size=x.size) if name.startswith("q.") else x
        for name, x in clean.channels.items()
    }
    diagnosis = found(replace(clean, channels=noisy))
    assert not {"uneven-samples", "lost-samples"} & {f.kind for f in diagnosis.findings}


@pytest.mark.parametrize("moving", [1, 3])
def test_joints_that_stand_in_noise_tell_nothing_of_time(moving, clean, found, rng):
    """Divided by how far they get, their steps would be as large as those of joints that move."""
    noisy = dict(clean.channels)
    for k in range(moving, 6):
        noisy[f"q.joint{k + 1}"] = 0.3 + 1e-5 * rng.normal(size=clean.t.size)
    diagnosis = found(replace(clean, channels=noisy))
    assert not {"uneven-samples", "lost-samples"} & {f.kind for f in diagnosis.findings}
