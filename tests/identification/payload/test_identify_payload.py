"""Loads against torques of Pinocchio, where the body is welded to the model."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import ShapeError
from bodysense.identification.payload.experiment import LoadExperiment
from bodysense.identification.payload.identify_payload import payload_of
from bodysense.identification.payload.parts import _THIRDS
from bodysense.robot import with_payload

LOSSES = np.array([0.05, 0.08, 0.06, 0.04])


@pytest.mark.parametrize("frame", ["link4", "flange"])
def test_without_noise_the_body_is_found(make_case, body, frame):
    """In the frame that holds it, from an arm that is off by 15 %."""
    found = payload_of(make_case(frame=frame).experiment)
    assert found.status.ok
    assert found.link == frame
    assert found.mass == pytest.approx(body.mass, rel=1e-6)
    np.testing.assert_allclose(found.com, body.lever, rtol=1e-6)
    np.testing.assert_allclose(found.inertia, body.inertia, rtol=1e-6)
    assert found.consistency.consistent
    assert not found.losses.any() or np.abs(found.losses).max() < 1e-9


def test_thirds_of_quiet_recordings_agree(make_case, body):
    found = payload_of(make_case(noise=1e-6).experiment)
    assert [part.name for part in found.parts] == list(_THIRDS)
    np.testing.assert_allclose([part.mass for part in found.parts], body.mass, rtol=1e-4)


def drawn_gains(rng: np.random.Generator) -> np.ndarray:
    """Gains with a standard deviation of 2 %, half of the variance in common."""
    return 1.0 + 0.02 * np.sqrt(0.5) * (rng.normal() + rng.normal(size=4))


@pytest.mark.parametrize("uncertainty", [0.0, 0.02])
def test_intervals_hold_the_truth_as_often_as_they_say(make_case, body, uncertainty):
    """Mass and centre of mass, with exact gains and with gains that are drawn as promised."""
    scores = []
    for seed in range(12):
        rng = np.random.default_rng(1000 + seed)
        gains = drawn_gains(rng) if uncertainty else 1.0
        case = make_case(seed=seed, noise=0.2, gains=gains, n_t=120)
        found = payload_of(case.experiment, gain_uncertainty=uncertainty)
        scores.append((found.mass - body.mass) / found.sigma_mass)
        scores += list((found.com - body.lever) / found.sigma_com)
    z = np.array(scores)
    assert np.mean(np.abs(z) < 1.96) >= 0.9
    assert 0.3 < np.mean(z**2) < 1.6


def test_gains_are_a_part_of_the_interval_of_their_own(make_case):
    experiment = make_case(noise=0.05).experiment
    none, some, more = (payload_of(experiment, gain_uncertainty=gain) for gain in (0.0, 0.02, 0.04))
    assert none.mass == some.mass == more.mass
    assert none.sigma_mass == none.sigma_mass_data == some.sigma_mass_data
    assert none.sigma_mass_gains == 0.0
    assert more.sigma_mass_gains == pytest.approx(2.0 * some.sigma_mass_gains)
    assert some.sigma_mass == pytest.approx(
        np.hypot(some.sigma_mass_data, some.sigma_mass_gains), rel=1e-12
    )
    # A factor that all joints have in common goes straight into the mass; the rest adds to it.
    assert some.sigma_mass_gains > 0.02 * np.sqrt(0.5) * some.mass


def test_gain_covariance_is_that_of_finite_differences(make_case):
    """The mass answers a small change of each joint's gain as the covariance says."""
    plain = payload_of(make_case(noise=0.05, n_t=150).experiment, gain_uncertainty=0.5)
    answers = []
    for joint in range(4):
        gains = np.ones(4)
        gains[joint] = 1.0 + 1e-4
        changed = payload_of(
            make_case(noise=0.05, n_t=150, gains=gains).experiment, gain_uncertainty=0.5
        )
        answers.append((changed.mass - plain.mass) / 1e-4)
    wanted = 0.5**2 * (0.5 * np.sum(np.square(answers)) + 0.5 * np.sum(answers) ** 2)
    # Weights of rows move as well, by little.
    assert plain.gain_covariance[0, 0] == pytest.approx(wanted, rel=0.15)


def test_losses_are_found(make_case, body):
    found = payload_of(make_case(losses=LOSSES, noise=0.05, n_t=400).experiment)
    np.testing.assert_allclose(found.losses, LOSSES, atol=0.006)
    assert abs(found.mass - body.mass) < 3.0 * found.sigma_mass_data
    assert found.errors[1] < 0.1 * found.errors[0]


def test_a_law_with_losses_that_is_given_is_kept(make_case, body):
    problem = make_case(noise=0.05, n_t=150).experiment.problem
    assert not problem.n_losses  # the data have none
    given = problem.with_losses(np.zeros(problem.size))
    found = LoadExperiment.of(given, "link4", (), ())
    assert found.problem.n_losses == 4
    assert found.robot.friction.model.name == "coulomb-load"
    np.testing.assert_allclose(found.x[found.problem.losses], 0.0, atol=0.02)
    np.testing.assert_allclose(found.x[found.problem.load][0], body.mass, rtol=0.1)


def test_losses_that_are_neglected_bias_the_load(make_case, body, monkeypatch):
    # Never worth it:
    monkeypatch.setattr("bodysense.identification.payload.experiment._MIN_IMPROVEMENT", 2.0)
    bare = payload_of(make_case(losses=LOSSES, noise=0.05, n_t=400).experiment)
    assert not bare.losses.any()
    monkeypatch.undo()
    with_losses = payload_of(make_case(losses=LOSSES, noise=0.05, n_t=400).experiment)
    assert abs(bare.mass - body.mass) > 3.0 * abs(with_losses.mass - body.mass)
    assert abs(bare.mass - body.mass) > 4.0 * with_losses.sigma_mass_data


def test_a_known_arm_needs_no_second_recording(make_case, body):
    found = payload_of(make_case(known_arm=True, off=0.0, noise=0.05, arm=0.02).experiment)
    assert found.status.ok
    assert "arm was taken from its description" in found.status.summary()
    assert "--unloaded" in found.status.summary()
    assert found.mass == pytest.approx(body.mass, rel=0.03)
    low, high = found.mass_interval()
    assert low < body.mass < high


def test_what_is_wrong_of_a_known_arm_is_counted_as_load(make_case, body):
    """Links are off by 15 % where 2 % are promised: the interval misses, the status warns."""
    sure = payload_of(make_case(known_arm=True, off=0.15, noise=0.05, arm=0.02).experiment)
    assert abs(sure.mass - body.mass) > 0.05 * body.mass
    low, high = sure.mass_interval()
    assert not low < body.mass < high
    assert "errors there are counted as load" in sure.status.summary()
    assert "uncertainty of the arm of 0.02 of plausible sizes" in sure.status.summary()


@pytest.mark.parametrize("seed", range(4))
def test_by_default_a_known_arm_may_be_as_wrong_as_a_file(make_case, body, seed):
    found = payload_of(make_case(seed=seed, known_arm=True, off=0.15, noise=0.05).experiment)
    low, high = found.mass_interval()
    assert low < body.mass < high


def test_recordings_that_are_swapped(make_case):
    found = payload_of(make_case(noise=0.05, swapped=True).experiment)
    assert found.status.failure.startswith("The recording given as loaded is lighter than the un")
    assert found.status.failure.endswith("kg: swap them.")
    assert found.status.notes == ()
    assert found.summary().startswith("no load identified at link4. The recording given")


def test_an_arm_that_is_lighter_than_its_file(make_case):
    """Nothing is held, and the file has the arm too heavy."""
    case = make_case(known_arm=True, body=pin.Inertia.Zero(), noise=0.02, off=0.0, arm=0.005)
    problem = case.experiment.problem
    heavier = with_payload(problem.robot, 2.0, link="link4", com=(0.1, 0.0, 0.0))
    experiment = type(case.experiment).of(
        replace(problem, robot=heavier),
        "link4",
        case.experiment.loaded,
        (),
        robot_uncertainty=0.005,
    )
    found = payload_of(experiment)
    assert found.status.failure.startswith("The arm is lighter than its file describes it, by ")
    assert "--unloaded" in found.status.failure


@pytest.mark.parametrize("link", ["link2", "link3"])
def test_a_load_that_another_link_holds(make_case, link):
    found = payload_of(make_case(noise=0.05, named=link).experiment)
    assert any(
        note.startswith(f"A load at link4 explains the torques better than one at {link}")
        for note in found.status.notes
    )


def test_a_load_that_an_earlier_link_holds_is_not_doubted(make_case):
    found = payload_of(make_case(noise=0.05, frame="link3").experiment)
    assert found.status.ok
    assert found.status.notes == ()


def test_a_centre_that_is_too_far_away(make_case):
    far = pin.Inertia(2.0, np.array([0.7, 0.0, 0.3]), np.diag([20, 15, 12]) * 1e-3)
    found = payload_of(make_case(noise=0.05, body=far).experiment)
    (note,) = found.status.notes
    assert re.match(r"The centre of mass lies 7[56]\d mm from link4: is this the link", note)


def test_recordings_with_different_loads(make_case, body):
    half = pin.Inertia(0.5 * body.mass, body.lever, 0.5 * body.inertia)
    case = make_case(noise=0.05, n_t=300, held=(1.0, 1.0), bodies=(body, half))
    found = payload_of(case.experiment)
    assert found.status.notes[0].startswith("Recordings with the load disagree about its mass")
    first, second = found.parts[-2:]
    assert first.mass == pytest.approx(body.mass, rel=0.1)
    assert second.mass == pytest.approx(half.mass, rel=0.1)


def test_recordings_with_the_load_mounted_in_two_ways(make_case, body):
    turned = pin.Inertia(body.mass, body.lever * [1, 1, -1], body.inertia)
    case = make_case(noise=0.05, n_t=300, held=(1.0, 1.0), bodies=(body, turned))
    found = payload_of(case.experiment)
    first, second = found.parts[-2:]
    np.testing.assert_allclose(first.com, body.lever, atol=0.02)
    np.testing.assert_allclose(second.com, turned.lever, atol=0.02)
    told = " ".join(found.status.notes)
    assert "Recordings with the load disagree about its centre of mass" in told
    assert f"loaded1.csv: {second.centre}" in told


def test_centres_of_parts_are_off_as_their_deviations_say(make_case, body):
    z = []
    for seed in range(6):
        found = payload_of(make_case(seed=seed, noise=0.2, n_t=240).experiment)
        z += [(np.array(part.com) - body.lever) / part.sigma_com for part in found.parts]
    assert 0.3 < np.mean(np.square(z)) < 2.0


def test_no_load_is_no_load(make_case):
    found = payload_of(make_case(body=None, noise=0.1).experiment)
    assert not found.status.ok
    assert found.status.summary().startswith("No load is visible: ")
    assert "Was the load held in this recording" in found.status.summary()
    assert found.mass_interval()[0] == 0.0


def test_a_load_that_falls_off_is_told(make_case, body):
    found = payload_of(make_case(noise=0.05, n_t=600, held=(0.5,)).experiment)
    assert found.status.ok
    assert "The mass changes in the course of the recordings" in found.status.summary()
    assert "fall off" in found.status.summary()
    first, _, last = found.parts
    assert first.mass == pytest.approx(body.mass, rel=0.05)
    assert abs(last.mass) < 0.2 * body.mass
    assert str(first) in found.status.summary()


@pytest.mark.parametrize("share", [0.7, 0.8, 0.9])
def test_a_load_that_falls_off_late_is_told(make_case, share):
    """Of the last third, no mass fits both halves."""
    for seed in range(3):
        case = make_case(seed=seed, noise=0.2, n_t=600, held=(share,))
        note, *_ = payload_of(case.experiment).status.notes
        assert "last third" in note
        assert "fall off" in note


def test_a_recording_without_the_load_among_those_with_it(make_case, body):
    found = payload_of(make_case(noise=0.05, n_t=300, held=(1.0, 1.0, 0.0)).experiment)
    names = [part.name for part in found.parts]
    assert names == [*_THIRDS, "loaded.csv", "loaded1.csv", "loaded2.csv"]
    disagreeing, loud = found.status.notes
    assert disagreeing.startswith("Recordings with the load disagree")
    assert "loaded2.csv: " in disagreeing
    assert loud.startswith("In loaded2.csv the torque of joint")
    assert abs(found.parts[-1].mass) < 0.2 * body.mass


@pytest.mark.parametrize("held", [(1.0,), (1.0, 1.0)])
def test_a_load_that_stays_is_not_doubted(make_case, body, held):
    """Thirds and recordings are off as far as their deviations say, and nothing is noted."""
    z = []
    for seed in range(8):
        found = payload_of(make_case(seed=seed, noise=0.2, n_t=240, held=held).experiment)
        assert found.status.notes == ()
        assert len(found.parts) == 3 + len(held) * (len(held) > 1)
        z += [(part.mass - body.mass) / part.sigma for part in found.parts]
    assert 0.3 < np.mean(np.square(z)) < 2.0


def test_parts_that_are_too_short_say_nothing(make_case):
    found = payload_of(make_case(noise=0.05, n_t=60).experiment)
    assert not any(part.known for part in found.parts)
    assert found.status.notes == ()


@pytest.mark.parametrize("value", [-0.1, 0.6, 2.0, np.nan, np.inf])
def test_a_gain_uncertainty_that_cannot_be_meant(make_case, value):
    with pytest.raises(ShapeError, match=r"gain_uncertainty is .*e\.g\. 0\.02"):
        payload_of(make_case(n_t=60).experiment, gain_uncertainty=value)
