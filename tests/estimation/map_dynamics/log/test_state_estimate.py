"""Positions that a log lacks, estimated from an IMU, against Pinocchio's simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import yaml
from hidden_joint import BIAS, SENSORS, Hidden, hidden_joint

from bodysense.errors import BodysenseError, MismatchError, UnusableLogError
from bodysense.estimation import (
    LogEstimate,
    LogTotals,
    StateLogEstimate,
    StateSetup,
    StateTotals,
    parse_estimation,
    prepare_log,
)
from bodysense.logs.filtering import lowpass
from bodysense.logs.log import Log

ORIENTATION = """
sensors:
  encoders: {kind: encoder, joint: [pan, lift], std: 0.0005}
  quat.imu: {kind: orientation, link: forearm, xyz: [0.02, 0.01, 0.1], rpy: [0.3, -0.2, 0.5],
             std: 0.01}
"""
FIRST = 20  # samples after which the elbow is found


@pytest.fixture(scope="module")
def hidden() -> Hidden:
    return hidden_joint(np.random.default_rng(5))


def raw(hidden: Hidden, **changes) -> Log:
    """The log with some channels replaced, or left out (None)."""
    log = replace(hidden.log, source="run.csv")
    channels = {**log.channels, **changes}
    return replace(log, channels={k: v for k, v in channels.items() if v is not None})


def estimated(hidden: Hidden, text: str = SENSORS, log: Log | None = None, **options):
    setup = parse_estimation(yaml.safe_load(text), hidden.robot, "s.yaml")
    return prepare_log(setup, hidden.robot, raw(hidden) if log is None else log, **options)


def coverage(found, name: str, truth) -> float:
    z = (found[name][FIRST:, 0] - truth[FIRST:]) / found.sigma(name)[FIRST:, 0]
    return float(np.mean(np.abs(z) < 1.96))


@pytest.mark.parametrize("method", ["track", "smooth"])
def test_an_elbow_without_encoder_is_found(method):
    shares = {"q.elbow": [], "dq.elbow": [], "q.lift": [], "tau.elbow": []}
    for seed, elbow in ((1, 0.9), (2, -1.8), (3, 0.1)):
        hidden = hidden_joint(np.random.default_rng(seed), seconds=3.0, elbow=elbow)
        found = estimated(hidden, state=StateSetup(method)).posterior()
        off = np.abs(found["q.elbow"][:, 0] - hidden.q[:, 2])
        assert off[FIRST:].max() < 0.1
        assert off[-100:].max() < 0.01
        assert (off < 4.0 * found.sigma("q.elbow")[:, 0]).all()
        if method == "smooth":
            assert off.max() < 0.02
        np.testing.assert_allclose(found["bias.gyro"][-1], BIAS, atol=0.005)
        z = (found["bias.gyro"][-1] - BIAS) / found.sigma("bias.gyro")[-1]
        assert np.abs(z).max() < 4.0
        truth = {
            "q.elbow": hidden.q[:, 2],
            "dq.elbow": hidden.dq[:, 2],
            "q.lift": hidden.q[:, 1],
            "tau.elbow": hidden.tau[:, 2],
        }
        for name, share in shares.items():
            share.append(coverage(found, name, truth[name]))
    # neighbours share errors, so that a second of them is only a few independent ones
    for name, share in shares.items():
        assert 0.85 < np.mean(share) <= 1.0, (name, share)


def test_smoothing_is_narrower_and_windows_are_one(hidden):
    tracked = estimated(hidden).posterior()
    whole = estimated(hidden, state=StateSetup("smooth", window=1000)).posterior()
    cut = estimated(hidden, state=StateSetup("smooth", window=100))
    assert [chunk.first for chunk in cut.chunks()] == [0, 100, 200, 300, 400]
    cut = cut.posterior()
    narrow, wide = whole.sigma("q.elbow")[:, 0], tracked.sigma("q.elbow")[:, 0]
    assert (narrow <= 1.001 * wide).all()
    assert np.median(narrow) < 0.8 * np.median(wide)
    z = (cut["q.elbow"] - whole["q.elbow"]) / cut.sigma("q.elbow")
    assert np.sqrt(np.mean(z**2)) < 0.5  # later windows know more of the bias
    np.testing.assert_allclose(whole["q.elbow"][-1], tracked["q.elbow"][-1], atol=1e-4)


def test_orientations_stand_in_whatever_their_sign(hidden):
    """The recorded quaternions jump between q and -q; some are missing, and some are none."""
    broken = {f"quat.imu.{k}": np.array(hidden.log.channels[f"quat.imu.{k}"]) for k in "xyzw"}
    for values in broken.values():
        values[100:120] = np.nan
        values[150:160] = 0.0
    estimate = estimated(hidden, ORIENTATION, raw(hidden, **broken))
    found = estimate.posterior()
    assert np.abs(found["q.elbow"][FIRST:, 0] - hidden.q[FIRST:, 2]).max() < 0.05
    assert coverage(found, "q.elbow", hidden.q[:, 2]) > 0.85
    assert found.absent["quat.imu"] == 30
    assert any("10 quaternions" in note for note in estimate.notes)
    sigma = found.sigma("q.elbow")[:, 0]
    assert sigma[115] > 2.0 * sigma[99]
    totals = LogTotals(estimate)
    for chunk in estimate.chunks(detail="blocks", judge=True):
        totals.add(chunk)
    score = {score.name: score for score in totals.scores()}["quat.imu"]
    assert (score.unit, score.absent) == ("rad", 30)
    assert 0.7 < score.ratio < 1.1


def test_rows_that_are_left_out_are_no_broken_quaternions(hidden):
    log = raw(hidden)
    t = np.array(log.t)
    t[101:119] = t[100]
    estimate = estimated(hidden, ORIENTATION, replace(log, t=t))
    assert estimate.t.size == t.size - 18
    assert not any("quaternions" in note for note in estimate.notes)


def test_a_cutoff_that_is_not_used_is_told(hidden):
    assert any("cut-off of 8 Hz is not used" in n for n in estimated(hidden, cutoff=8.0).notes)
    assert not any("cut-off" in note for note in estimated(hidden).notes)


def test_chunks_are_the_whole(hidden):
    estimate = estimated(hidden)
    assert isinstance(estimate, StateLogEstimate)
    assert estimate.unmeasured == ("elbow",)
    parts = list(estimate.chunks(150, detail="blocks"))
    assert [part.first for part in parts] == [0, 150, 300]
    whole = estimate.posterior()
    np.testing.assert_array_equal(
        np.concatenate([part.posterior.mean for part in parts]), whole.mean
    )
    assert tuple(whole.variables) == tuple(estimate.variables)
    assert parts[0].posterior.covariance("bias.gyro").shape == (150, 3, 3)
    assert not whole.blocks
    np.testing.assert_array_equal(parts[0].q[:, 2], whole["q.elbow"][:150, 0])


def test_after_a_pause_the_joint_is_found_anew(hidden):
    log = raw(hidden)
    rows = np.r_[0:150, 300:401]  # one and a half seconds are missing
    log = replace(
        log,
        t=log.t[rows],
        rows=log.rows[rows],
        channels={k: v[rows] for k, v in log.channels.items()},
    )
    estimate = estimated(hidden, log=log)
    assert estimate.recording.starts == (0, 150)
    found = estimate.posterior()
    off, sigma = np.abs(found["q.elbow"][:, 0] - hidden.q[rows, 2]), found.sigma("q.elbow")[:, 0]
    assert off[150 + FIRST :].max() < 0.05
    assert sigma[150] > 5.0 * sigma[149]
    bias = found.sigma("bias.gyro")
    assert (bias[150] < 1.01 * bias[149]).all()  # a pause does not forget it


def test_positions_that_were_recorded_are_taken_as_they_are(hidden):
    log = raw(hidden, **{"q.elbow": hidden.q[:, 2]})
    given = estimated(hidden, log=log)
    assert type(given) is LogEstimate
    asked = estimated(hidden, SENSORS + "state: true\n", log)
    assert isinstance(asked, StateLogEstimate)
    assert asked.unmeasured == ()
    found = asked.posterior()
    assert np.abs(found["q.elbow"][:, 0] - hidden.q[:, 2]).max() < 3e-3
    same = given.posterior()
    inner = np.searchsorted(asked.t, given.t)
    noise = given.recording.noise
    smooth = lowpass(found["tau.lift"], noise.rate, noise.cutoff)[inner]
    z = (smooth - same["tau.lift"]) / same.sigma("tau.lift")
    assert np.sqrt(np.mean(z**2)) < 1.0


def test_exact_encoders_that_contradict_each_other_are_named(hidden):
    text = SENSORS.replace("joint: all, std: 0.0005", "joint: all, std: 0")
    again = "sensors:\n  again: {kind: encoder, joint: pan, std: 0, channels: [q2]}"

    def untrue(text: str) -> str:
        log = raw(hidden, q2=hidden.log.channels["q.pan"] + 0.01)
        short = {name: values[:60] for name, values in log.channels.items()}
        estimate = estimated(hidden, text, replace(log, t=log.t[:60], channels=short))
        totals = LogTotals(estimate)
        for chunk in estimate.chunks(detail="blocks", judge=True):
            totals.add(chunk)
        return totals.inconsistent_exact_readings()

    assert untrue(text) == ""
    told = untrue(text.replace("sensors:", again, 1))
    assert "again (off by up to 0.005 rad), encoders.pan (off by up to 0.005 rad);" in told


def test_what_was_decided_is_told(hidden):
    text = SENSORS.replace("  encoders: {kind: encoder, joint: all, std: 0.0005}\n", "")
    text = text.replace(
        "torque:", "motion: {kind: joint_acceleration, joint: all, std: 1}\n  torque:"
    )
    estimate = estimated(hidden, text)
    told = " | ".join(estimate.notes)
    assert "positions are estimated, of elbow" in told
    assert "positions of pan, lift are taken with a std of 0.001" in told
    assert "motion.pan, motion.lift, motion.elbow: no channel" in told
    dead = raw(hidden, **{"q.elbow": np.full(hidden.log.t.size, np.nan)})
    assert estimated(hidden, log=dead).unmeasured == ("elbow",)


def test_a_prior_in_the_file_counts(hidden):
    few = "sensors: {gyro: {kind: gyroscope, link: shoulder, std: 0.01, channels: [a, b, c]}}\n"
    still = dict.fromkeys("abc", np.zeros(hidden.log.t.size))
    log = raw(hidden, **still, **{"q.pan": None, "q.elbow": hidden.q[:, 2]})
    for words, low, high in (
        ("", 0.3, 3.0),
        ("state: {priors: {q.pan: {mean: 0.7, std: 0.05}}}", 0.04, 0.06),
    ):
        found = estimated(hidden, few + words, log)
        totals = StateTotals(found)
        for chunk in found.chunks():
            totals.add(chunk)
        pan = totals.joints()[0]
        assert not pan.measured
        assert low < pan.std < high
        assert bool(words) != any("q.pan is hardly observable" in note for note in totals.notes)


# -- what is refused ---------------------------------------------------------------------------


def test_too_few_sensors_are_named_with_the_remedy(hidden):
    text = SENSORS.replace("link: forearm, xyz", "link: shoulder, xyz")
    text = "sensors: {acc: {kind: accelerometer, link: shoulder, std: 0.1}}"
    with pytest.raises(MismatchError) as refused:
        estimated(hidden, text)
    told = str(refused.value)
    assert "run.csv has no positions of elbow (it has them of pan, lift)" in told
    assert "for elbow a gyroscope and an accelerometer, or an orientation, on forearm" in told


def test_a_log_of_another_robot_is_still_one(hidden):
    log = raw(hidden, **{"q.pan": None, "q.lift": None})
    with pytest.raises(MismatchError, match="Is it the log of another robot"):
        estimated(hidden, log=log)
    empty = replace(log, t=log.t[:1], channels={k: v[:1] for k, v in log.channels.items()})
    with pytest.raises(UnusableLogError, match="no two rows"):
        estimated(hidden, SENSORS + "state: {method: track}", empty)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("state: 3", "expected a mapping"),
        ("state: {methd: track}", "unknown key 'methd'"),
        ("state: {method: guess}", "unknown method 'guess'"),
        ("state: {window: 1}", "window"),
        ("state: {jerk: -1}", "not positive"),
        ("state: {jerk: {knee: 1}}", "'knee'"),
        ("state: {priors: {q.knee: {mean: 0, std: 1}}}", "unknown key 'q.knee'"),
        ("state: {priors: {q.elbow: {mean: 0}}}", "give mean and std"),
        ("state: {priors: {q.elbow: {mean: 0, std: -1}}}", "std"),
    ],
)
def test_sections_that_cannot_be_meant(hidden, text, message):
    with pytest.raises(BodysenseError, match=message):
        parse_estimation(yaml.safe_load(text), hidden.robot, "s.yaml")
