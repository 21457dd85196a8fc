"""Scores computed by hand, and predictions against inverse dynamics."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from bodysense.identification import Motion, Prediction, Preprocessing
from bodysense.identification.preprocessing import FOLDS, block_of
from bodysense.identification.scores import predict, predicted_by_others, score
from bodysense.logs.filtering import lowpass
from bodysense.robot import inverse_dynamics


def prediction(**changes) -> Prediction:
    """Two joints, three samples; numbers whose roots are whole."""
    values = {
        "source": "run",
        "kind": "training",
        "log": 0,
        "t": np.arange(3.0),
        "raw": np.array([[4.0, 3.0], [0.0, 5.0], [6.0, 8.0]]),
        "filtered": np.array([[3.0, 4.0], [0.0, 5.0], [8.0, 6.0]]),
        "identified": np.array([[3.0, 3.0], [0.0, 4.0], [6.0, 8.0]]),
        "prior": np.zeros((3, 2)),
        "identified_filtered": np.array([[0.0, 0.0], [3.0, 1.0], [8.0, 6.0]]),
        "prior_filtered": np.zeros((3, 2)),
        "moving": np.array([[True, True], [False, True], [True, False]]),
        "fast": np.array([[True, False], [False, True], [True, False]]),
        "passed": 0.2,
        "bandwidth": 5.0,
    }
    return Prediction(**(values | changes))


def test_relative_errors_are_norms_over_the_samples_of_a_joint():
    found = score([prediction()]).identified.all
    assert found.samples == (3, 3)
    # joint 1: errors 3, -3, 0 of 3, 0, 8; joint 2: errors 4, 4, 0 of 4, 5, 6
    assert found.relative_error == pytest.approx((np.sqrt(18 / 73), np.sqrt(32 / 77)))
    assert found.rms_error == pytest.approx((np.sqrt(6), np.sqrt(32 / 3)))
    # raw, joint 1: errors 1, 0, 0 of 4, 0, 6; joint 2: errors 0, 1, 0 of 3, 5, 8
    assert found.relative_error_raw == pytest.approx((np.sqrt(1 / 52), np.sqrt(1 / 98)))
    assert found.mean_relative_error == pytest.approx(np.mean(found.relative_error))


def test_d_tau_is_the_mean_over_samples_of_relative_norms():
    found = score([prediction()]).identified.all
    assert found.d_tau == pytest.approx((5 / 5 + 5 / 5 + 0 / 10) / 3)
    assert found.d_tau_raw == pytest.approx((1 / 5 + 1 / 5 + 0 / 10) / 3)


def test_a_model_that_predicts_nothing_is_wrong_by_all_of_it():
    found = score([prediction()]).prior
    for part in (found.all, found.moving, found.still):
        assert part.relative_error_raw[1] == pytest.approx(1.0)
        assert part.d_tau_raw == pytest.approx(1.0)


def test_moving_and_standing_joints_are_told_apart():
    found = score([prediction()]).identified
    assert found.moving.samples == (2, 2)
    assert found.moving.relative_error == pytest.approx((np.sqrt(9 / 73), np.sqrt(32 / 41)))
    assert found.moving.d_tau == pytest.approx((5 / 5 + 4 / 5 + 0 / 8) / 3)
    assert found.still.samples == (1, 1)
    assert np.isnan(found.still.relative_error[0])  # the torque was zero all the time
    assert found.still.relative_error[1] == pytest.approx(0.0)
    assert found.still.rms_error == pytest.approx((3.0, 0.0))
    assert found.still.mean_relative_error == pytest.approx(0.0)
    # Of the three instants only the last has a standing joint with torque.
    assert found.still.d_tau == pytest.approx(0.0)


def test_motion_that_is_in_one_fold_alone_is_predicted_by_no_other():
    fold = np.repeat(np.arange(FOLDS), 4)
    moving = np.ones((fold.size, 2), dtype=bool)
    moving[fold > 0, 1] = False
    one = prediction(moving=moving[:6])
    rest = prediction(moving=moving[6:])
    made = predicted_by_others([one, rest], [fold[:6], fold[6:]])
    assert np.array_equal(np.concatenate([p.moving[:, 0] for p in made]), moving[:, 0])
    assert not any(p.moving[:, 1].any() for p in made)
    # As much of its motion elsewhere, and it counts again.
    moving[fold == 1, 1] = True
    (whole,) = predicted_by_others([prediction(moving=moving)], [fold])
    assert np.array_equal(whole.moving, moving)


def test_the_noise_floor_is_what_the_filter_takes_from_the_raw_torque():
    found = score([prediction()])
    # raw - filtered: joint 1: 1, 0, -2; joint 2: -1, 0, 2
    assert found.noise_floor == pytest.approx((np.sqrt(5 / 52), np.sqrt(5 / 98)))
    wanted = (np.sqrt(2) / 5 + 0 / 5 + np.sqrt(8) / 10) / 3
    assert found.noise_floor_d_tau == pytest.approx(wanted)


def test_noise_left_in_the_filtered_torque_is_what_residuals_are_above_it(rng):
    """Reversals of friction, which the model lacks, are no noise."""
    t = np.arange(4000) / 500.0
    torque = np.column_stack([3.0 * np.sin(2.0 * t), np.cos(3.0 * t)])
    friction = 0.4 * np.sign(np.sin(5.0 * t))[:, None]
    noise = [0.3, 0.05] * rng.normal(size=torque.shape)
    names = ("identified", "identified_filtered", "prior", "prior_filtered")
    passed, rows = 0.04, np.ones(torque.shape, dtype=bool)
    p = prediction(
        t=t,
        raw=torque + friction + noise,
        filtered=torque,
        passed=passed,
        moving=rows,
        fast=rows,
        **dict.fromkeys(names, torque),
    )
    size = np.sqrt(np.mean(torque**2, axis=0))
    expected = np.sqrt(passed) * np.array([0.3, 0.05]) / size
    assert score([p]).filtered_noise == pytest.approx(expected, rel=0.25)


def test_white_noise_left_by_the_filter_is_estimated(small_arm, sines):
    """The torque's noise is known, and so is what of it survives the filter."""
    t, q, v, a = sines(3, 2, 4000, 200.0, slowest=0.1)
    tau = 5.0 * np.sin(2.0 * np.pi * 0.5 * t)[:, None] * np.ones(3)
    noise = np.random.default_rng(3).normal(size=tau.shape)
    filtered = lowpass(tau + noise, 200.0, 20.0)
    settings = Preprocessing(cutoff=20.0).settled(small_arm, 20.0)
    motion = Motion(t, q, v, a, filtered, tau + noise, 200.0)
    made = predict(small_arm, motion, settings, [small_arm.theta], source="a", kind="training")
    left = lowpass(noise, 200.0, 20.0)
    wanted = np.linalg.norm(left, axis=0) / np.linalg.norm(filtered, axis=0)
    np.testing.assert_allclose(score([made]).filtered_noise, wanted, rtol=0.15)


def test_pieces_count_by_their_samples(rng):
    whole = replace(
        prediction(),
        t=np.arange(50.0),
        moving=rng.random((50, 2)) < 0.5,
        **{
            name: rng.normal(size=(50, 2))
            for name in (
                "raw",
                "filtered",
                "identified",
                "prior",
                "identified_filtered",
                "prior_filtered",
            )
        },
    )
    arrays = [name for name, x in vars(whole).items() if isinstance(x, np.ndarray)]
    parts = [
        replace(whole, **{name: getattr(whole, name)[rows] for name in arrays})
        for rows in (slice(0, 7), slice(7, 40), slice(40, 50))
    ]
    one, many = score([whole]).to_dict(), score(parts).to_dict()
    assert one["source"] == many["source"] == "run"
    for model in ("identified", "prior"):
        for part in ("all", "moving", "still"):
            for key, value in one[model][part].items():
                assert many[model][part][key] == pytest.approx(value), (model, part, key)
    assert many["noise_floor"] == pytest.approx(one["noise_floor"])
    several = score([whole, replace(whole, source="other"), whole])
    assert several.source == "run, other"


def test_what_is_not_a_number_becomes_null():
    always = prediction(moving=np.ones((3, 2), dtype=bool))
    found = score([always])
    assert np.isnan(found.identified.still.mean_relative_error)
    text = json.dumps(found.to_dict(), allow_nan=False)
    still = json.loads(text)["identified"]["still"]
    assert still["samples"] == [0, 0]
    assert still["relative_error"] == [None, None]
    assert still["rms_error"] == [None, None]
    assert still["d_tau"] is None
    assert json.loads(text)["kind"] == "training"


@pytest.fixture(scope="module")
def motion(small_arm, sines) -> Motion:
    t, q, v, a = sines(3, 2, 1500, 100.0)
    tau = np.random.default_rng(0).normal(size=q.shape)
    return Motion(t, q, v, a, lowpass(tau, 100.0, 10.0), tau, 100.0)


def test_predictions_are_inverse_dynamics_filtered_as_the_torques(small_arm, motion):
    settings = Preprocessing(cutoff=10.0).settled(small_arm, 10.0)
    theta = 1.1 * small_arm.theta
    made = predict(small_arm, motion, settings, [theta], source="a", kind="validation")
    tau = inverse_dynamics(small_arm, motion.q, motion.v, motion.a)
    np.testing.assert_allclose(made.prior, tau, rtol=1e-12)
    np.testing.assert_allclose(made.identified, 1.1 * tau, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(made.identified_filtered, 1.1 * lowpass(tau, 100.0, 10.0), atol=1e-9)
    np.testing.assert_allclose(made.prior_filtered, lowpass(tau, 100.0, 10.0), atol=1e-12)
    assert made.raw is motion.tau_raw
    assert made.filtered is motion.tau
    np.testing.assert_array_equal(made.moving, np.abs(motion.v) >= 0.02)
    assert made.passed == pytest.approx(0.2)  # 10 Hz of 50 Hz
    assert made.bandwidth == 10.0
    assert (made.source, made.kind) == ("a", "validation")


def test_every_fold_is_predicted_by_its_own_model(small_arm, motion):
    settings = Preprocessing(cutoff=10.0).settled(small_arm, 10.0)
    fold = block_of(motion.t) % FOLDS
    thetas = [factor * small_arm.theta for factor in (1.0, 2.0, 3.0)]
    made = predict(small_arm, motion, settings, thetas, fold=fold, source="a", kind="held-out")
    factor = np.array([1.0, 2.0, 3.0])[fold][:, None]
    np.testing.assert_allclose(made.identified, factor * made.prior, atol=1e-9)
    # Filtered before they are put together: no step between blocks is smoothed.
    np.testing.assert_allclose(made.identified_filtered, factor * made.prior_filtered, atol=1e-9)


def test_a_cutoff_beyond_what_the_rate_allows_is_lowered_as_for_the_torques(small_arm, motion):
    settings = Preprocessing(cutoff=80.0).settled(small_arm, 80.0)
    made = predict(small_arm, motion, settings, [small_arm.theta], source="a", kind="training")
    np.testing.assert_allclose(
        made.identified_filtered, lowpass(made.identified, 100.0, 45.0), atol=1e-12
    )
    assert made.passed == pytest.approx(0.9)
    assert made.bandwidth == pytest.approx(45.0)
