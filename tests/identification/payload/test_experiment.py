"""Recordings as `prepare` takes them, good and bad."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from bodysense.errors import MismatchError, ShapeError, UnknownNameError, UnusableLogError
from bodysense.identification import Preprocessing
from bodysense.identification.payload.experiment import LoadSettings, prepare
from bodysense.identification.payload.identify_drive_gains import identify_drive_gains
from bodysense.identification.payload.identify_payload import identify_payload
from bodysense.logs.log import Log
from bodysense.logs.read import read_log
from bodysense.logs.write import write_log
from bodysense.robot import load_robot

QUICK = Preprocessing(cutoff=15.0)


@pytest.fixture(scope="module")
def logs(make_case, arm) -> tuple[Log, Log]:
    """Without and with the load."""
    case = make_case(noise=0.05, n_t=800)

    def log(motion) -> Log:
        channels = {f"q.{name}": motion.q[:, j] for j, name in enumerate(arm.joint_names)}
        channels |= {f"tau.{name}": motion.tau[:, j] for j, name in enumerate(arm.joint_names)}
        return Log.of(motion.t, channels)

    return log(case.motions[0]), log(case.motions[1])


def test_from_logs_to_a_load(arm, logs, body):
    steps: list[str] = []
    empty, loaded = logs
    found = identify_payload(arm, loaded, empty, preprocessing=QUICK, progress=steps.append)
    assert found.link == "link4"
    assert found.mass == pytest.approx(body.mass, rel=0.02)
    assert steps == [
        "examining the logs",
        "testing for load-dependent friction",
        "identifying the load",
    ]
    assert found.provenance["still_speed"] == 0.05
    assert [entry["source"] for entry in found.provenance["loaded"]] == ["log"]


def test_an_unknown_keyword_is_refused_by_the_function_that_was_called(arm, logs):
    empty, loaded = logs
    with pytest.raises(UnknownNameError, match=r"keyword of identify_payload 'frictoin'.*friction"):
        identify_payload(arm, loaded, empty, frictoin="own")
    with pytest.raises(
        UnknownNameError, match=r"identify_payload.*did you mean 'gain_uncertainty'"
    ):
        identify_payload(arm, loaded, empty, gain_uncertanty=0.01)
    with pytest.raises(UnknownNameError, match=r"keyword of identify_drive_gains 'centre'.*com"):
        identify_drive_gains(arm, loaded, empty, load=2.0, centre=[0.0, 0.0, 0.1])


def test_drive_gains_take_no_uncertainty_of_the_arm(arm, logs):
    """There is always a recording without the load, so that it would have no effect."""
    empty, loaded = logs
    with pytest.raises(UnknownNameError, match="identify_drive_gains 'robot_uncertainty'"):
        identify_drive_gains(arm, loaded, empty, load=2.0, robot_uncertainty=0.02)


def test_load_settings_are_keywords_of_prepare():
    keywords = inspect.signature(prepare).parameters
    assert LoadSettings.__optional_keys__ == set(keywords) - {
        *("robot", "loaded", "unloaded"),
        *("robot_uncertainty", "files"),
    }


def test_the_cut_off_is_chosen_unless_it_is_given(arm, logs):
    empty, loaded = logs
    assert prepare(arm, loaded, empty, preprocessing=QUICK).problem.settings.cutoff == 15.0
    chosen = prepare(arm, [loaded], [empty]).problem.settings.cutoff
    assert chosen is not None
    assert chosen != 15.0


@pytest.mark.parametrize(("wanted", "law"), [("own", "coulomb"), ("offset", "offset")])
def test_the_friction_law(arm, logs, wanted, law):
    empty, loaded = logs
    experiment = prepare(arm, loaded, empty, preprocessing=QUICK, friction=wanted)
    assert experiment.robot.friction.model.name == law


def test_friction_that_is_not_known_is_given_a_law(arm, logs):
    theta = arm.theta.copy()
    theta[arm.layout.rotor.stop :] = 0.0
    bare = arm.with_parameters(theta)
    empty, loaded = logs
    laws = [
        prepare(bare, loaded, empty, preprocessing=QUICK, friction=friction).robot.friction
        for friction in ("auto", "own")
    ]
    assert [law.model.name for law in laws] == ["stribeck-offset", "coulomb"]


# -- bad input --------------------------------------------------------------------------------


def test_an_unknown_link(arm, logs):
    with pytest.raises(UnknownNameError, match=r"unknown link or frame 'link5'.*link4"):
        identify_payload(arm, logs[1], logs[0], link="link5")


def test_a_link_that_does_not_move(arm, logs):
    with pytest.raises(MismatchError, match="is part of the ground, which does not move"):
        identify_payload(arm, logs[1], logs[0], link="universe")


def test_the_same_recording_twice(arm, logs, tmp_path):
    with pytest.raises(MismatchError, match="the same recording is given with and without"):
        identify_payload(arm, logs[1], logs[1])
    write_log(tmp_path / "a.csv", logs[1])
    (tmp_path / "b.csv").write_bytes((tmp_path / "a.csv").read_bytes())
    a, b = (read_log(tmp_path / name) for name in ("a.csv", "b.csv"))
    with pytest.raises(MismatchError, match=r"a\.csv and b\.csv are the same recording"):
        identify_payload(arm, a, b)


def test_no_recording(arm, logs):
    with pytest.raises(MismatchError, match="no recording with the load"):
        identify_payload(arm, [], logs[0])


def test_no_recording_without_the_load(arm, logs):
    with pytest.raises(MismatchError, match=r"without the load as well \(--unloaded\)"):
        identify_drive_gains(arm, logs[1], [], load=2.0)


def test_a_load_that_no_arm_could_lift(arm, logs):
    """Grams instead of kilograms; only a robot whose limits are known can tell."""
    model = arm.model.copy()
    model.effortLimit = np.full(4, 150.0)
    limited = type(arm).from_pinocchio(model, friction=arm.friction)
    limited = limited.with_parameters(arm.theta)
    with pytest.raises(MismatchError, match=r"2000 kg is heavier than the arm could lift.*grams"):
        identify_drive_gains(limited, logs[1], logs[0], load=2000.0, preprocessing=QUICK)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan])
def test_an_uncertainty_of_the_arm_that_cannot_be_meant(arm, logs, value):
    with pytest.raises(ShapeError, match="robot_uncertainty is"):
        identify_payload(arm, logs[1], robot_uncertainty=value)


def test_a_cut_off_that_no_recording_can_have(arm, logs):
    with pytest.raises(
        ShapeError, match=r"the cut-off is 5000 Hz: .*half the sampling rate, 50 Hz"
    ):
        identify_payload(arm, logs[1], logs[0], preprocessing=Preprocessing(cutoff=5000.0))


def test_an_unknown_friction_law(arm, logs):
    with pytest.raises(UnknownNameError, match="unknown friction 'rubber'"):
        identify_payload(arm, logs[1], logs[0], friction="rubber")


def test_a_base_that_floats(logs, robot_of):
    with pytest.raises(MismatchError, match="float"):
        identify_payload(robot_of("floating"), logs[1], logs[0])


def test_an_unusable_recording(arm, logs):
    still = {name: 0.0 * x if name[0] == "q" else x for name, x in logs[1].channels.items()}
    with pytest.raises(UnusableLogError, match="all-still"):
        identify_payload(arm, Log.of(logs[1].t, still), logs[0])


def test_a_recording_of_another_robot(logs):
    with pytest.raises(UnusableLogError, match="cannot be identified from"):
        identify_payload(load_robot("example:ur5"), logs[1], logs[0])
