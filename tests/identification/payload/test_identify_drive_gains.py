"""Drive gains that are known, because the recordings were made with them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from bodysense.errors import MismatchError, ShapeError
from bodysense.identification.payload.drive_gains import DriveGains
from bodysense.identification.payload.identify_drive_gains import drive_gains_of
from bodysense.identification.payload.identify_payload import payload_of
from bodysense.status import Status

LOGGED = np.array([1.1, 0.95, 1.05, 0.9])
"""Logged over true torque."""


@pytest.fixture(scope="module")
def found(make_case) -> DriveGains:
    return drive_gains_of(make_case(gains=LOGGED, noise=0.02).experiment, load=2.0)


def test_gains_are_found(found):
    assert found.status == Status()
    assert (found.factors > 0.0).all()
    np.testing.assert_allclose(found.factors, 1.0 / LOGGED, rtol=3e-3)
    assert (np.abs(found.factors - 1.0 / LOGGED) < 4.0 * found.sigma).all()
    np.testing.assert_allclose(found.total_least_squares, 1.0 / LOGGED, rtol=1e-2)
    np.testing.assert_array_equal(found.nominal, 1.0)


def test_the_load_with_nominal_gains_is_that_of_a_payload(make_case, found):
    experiment = make_case(gains=LOGGED, noise=0.02).experiment
    assert found.load_before == pytest.approx(payload_of(experiment).mass, rel=1e-12)
    assert abs(found.load_before - 2.0) > 0.05


def test_the_load_has_its_mass_on_blocks_left_out(found):
    np.testing.assert_allclose(found.load_after, 2.0, rtol=0.02)


def test_torques_are_predicted_better(found):
    assert found.errors_after.mean() < 0.5 * found.errors_before.mean()


def test_gains_that_are_ten_times_too_small(make_case):
    case = make_case(gains=0.1 * LOGGED, noise=0.002)
    found = drive_gains_of(case.experiment, load=2.0)
    assert found.status.ok
    assert "off by a factor of 10" in found.status.summary()
    assert (found.factors > 0.0).all()
    np.testing.assert_allclose(found.factors, 10.0 / LOGGED, rtol=3e-3)


def test_without_noise_gains_of_each_joint_are_found(make_case):
    """What wrong gains cannot explain must not count as if it were measured exactly."""
    found = drive_gains_of(make_case(gains=LOGGED).experiment, load=2.0)
    assert found.status.ok
    assert found.status.notes == ()
    np.testing.assert_allclose(found.factors, 1.0 / LOGGED, rtol=1e-5)
    np.testing.assert_allclose(found.load_after, 2.0, rtol=1e-4)


def test_gains_that_hide_the_load_are_not_taken_for_another_unit(make_case):
    """The first estimate has a seventh of the load, and gains are off by a fifth."""
    logged = np.array([1.19, 0.82, 1.13, 0.88])
    experiment = make_case(seed=3, gains=logged, n_t=150).experiment
    assert experiment.x[experiment.problem.load][0] < 0.5
    found = drive_gains_of(experiment, load=2.0)
    np.testing.assert_allclose(found.factors, 1.0 / logged, rtol=1e-5)
    assert found.status == Status()


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ((0.5,), "The mass changes in the course of the recordings"),
        ((1.0, 0.0), "Recordings with the load disagree about its mass"),
    ],
)
def test_a_load_that_was_not_held_all_the_time_is_told(make_case, monkeypatch, held, words):
    # Such gains hardly settle; the note does not wait for them.
    module = sys.modules[drive_gains_of.__module__]
    monkeypatch.setattr(module, "_MAX_STEPS", 2)
    found = drive_gains_of(make_case(noise=0.05, n_t=200, held=held).experiment, load=2.0)
    assert words in found.status.summary()
    assert any(note.startswith(words) for note in found.status.notes)


def test_gains_are_in_proportion_to_the_load(make_case, found):
    """Twice the load: twice the gains, exactly, and the same relative uncertainty."""
    twice = drive_gains_of(make_case(gains=LOGGED, noise=0.02).experiment, load=4.0)
    np.testing.assert_allclose(twice.factors, 2.0 * found.factors, rtol=2e-3)
    np.testing.assert_allclose(twice.sigma, 2.0 * found.sigma, rtol=0.05)
    np.testing.assert_allclose(
        twice.total_least_squares, 2.0 * found.total_least_squares, rtol=1e-4
    )
    assert found.sensitivity == 1.0


def test_losses_are_told_from_gains(make_case):
    losses = np.array([0.05, 0.08, 0.06, 0.04])
    case = make_case(gains=LOGGED, noise=0.02, losses=losses)
    found = drive_gains_of(case.experiment, load=2.0)
    np.testing.assert_allclose(found.factors, 1.0 / LOGGED, rtol=0.01)
    np.testing.assert_allclose(found.losses, losses, atol=0.01)
    # Neglected, they would be taken for gains.
    assert found.model_sensitivity > 0.01


def test_a_centre_of_mass_that_is_known_helps(make_case, body, found):
    case = make_case(gains=LOGGED, noise=0.02)
    more = drive_gains_of(case.experiment, load=2.0, com=body.lever)
    np.testing.assert_allclose(more.factors, 1.0 / LOGGED, rtol=3e-3)
    assert (more.sigma <= 1.02 * found.sigma).all()
    assert more.sigma.sum() < found.sigma.sum()


@pytest.mark.parametrize("com", [(-0.08, 0.05, 0.12), (0.3, 0.0, 0.1)])
def test_a_centre_of_mass_that_is_wrong_is_a_failure(make_case, com):
    found = drive_gains_of(make_case(gains=LOGGED, noise=0.02).experiment, load=2.0, com=com)
    assert (found.errors_after > found.errors_before + 0.01).any()
    assert found.status.failure.startswith("Torques are predicted worse with these gains than")
    assert "Check the centre of mass, the link that holds the load" in found.status.failure
    assert "gains do not generalise" in " ".join(found.status.notes)


@pytest.mark.parametrize(("load", "words"), [(1.3, "by -35 %"), (2.9, "by +4")])
def test_a_load_that_would_change_all_gains_is_asked_about(make_case, load, words):
    found = drive_gains_of(make_case(gains=LOGGED, noise=0.02).experiment, load=load)
    assert found.status.ok
    (note,) = found.status.notes
    assert words in note
    assert note.endswith("is its mass right?")


def test_nominal_gains_are_carried_along(make_case):
    case = make_case(gains=LOGGED, noise=0.02, n_t=120)
    found = drive_gains_of(case.experiment, load=2.0, nominal=[12.0, -12.0, 10.0, 5.0])
    np.testing.assert_allclose(found.gains, found.factors * [12.0, -12.0, 10.0, 5.0])
    assert (found.sigma_gains > 0.0).all()


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [-1.0, 0.0, np.nan, np.inf])
def test_a_load_that_cannot_be_meant(make_case, load):
    with pytest.raises(ShapeError, match=r"the load is .* kg: give its weighed mass"):
        drive_gains_of(make_case(n_t=60).experiment, load=load)


def test_a_centre_of_mass_that_cannot_be_meant(make_case):
    with pytest.raises(ShapeError, match="com"):
        drive_gains_of(make_case(n_t=60).experiment, load=2.0, com=[0.1, 0.2])


def test_nominal_gains_of_other_joints(make_case):
    with pytest.raises(ShapeError, match="nominal"):
        drive_gains_of(make_case(n_t=60).experiment, load=2.0, nominal=[1.0, 2.0])


def test_no_recording_without_the_load(make_case):
    with pytest.raises(MismatchError, match="need a recording without the load as well"):
        drive_gains_of(make_case(known_arm=True, n_t=60).experiment, load=2.0)


def test_recordings_that_are_swapped(make_case):
    """What is called loaded is lighter than what is called unloaded."""
    case = make_case(noise=0.02, n_t=150)
    problem = case.experiment.problem
    swapped = type(problem).of_logs(
        problem.robot,
        case.motions,
        problem.settings,
        loaded=frozenset({0}),
        load_to_link=np.eye(10),
        link=3,
        base=problem.base,
    )
    experiment = type(case.experiment).of(
        swapped, "link4", case.experiment.loaded, case.experiment.unloaded
    )
    with pytest.raises(MismatchError, match=r"it is not visible in these recordings.*Swap them"):
        drive_gains_of(experiment, load=2.0)
