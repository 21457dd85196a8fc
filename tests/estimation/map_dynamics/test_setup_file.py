"""The sensors file: what it says, and how it refuses what it cannot mean."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from pushed_arm import ARM, SENSORS

from bodysense.errors import BodysenseError, MismatchError, RobotFileError, UnknownNameError
from bodysense.estimation import load_estimation, parse_estimation
from bodysense.estimation.map_dynamics.priors import UNKNOWN
from bodysense.robot import Robot, load_robot
from bodysense.sensors import Orientation


@pytest.fixture(scope="module")
def arm() -> Robot:
    return load_robot(ARM)


def parsed(text: str, robot: Robot):
    return parse_estimation(yaml.safe_load(text), robot, "s.yaml")


def test_everything_that_a_file_can_say(arm, tmp_path):
    text = SENSORS + (
        "  shoulder: unknown\n"
        "  default: {std: 0.5, mean: [1, 0, 0, 0, 0, 0]}\n"
        "model: {acceleration_std: 0.1, wrench_std: [1, 2, 3, 4, 5, 6], torque_std: 0.2,\n"
        "        joint_acceleration_std: 7, base_acceleration_std: 8}\n"
        "priors: {tau.elbow: {mean: 3, std: 1}, a.forearm: {std: 2}}\n"
    )
    (tmp_path / "s.yaml").write_text(text)
    setup = load_estimation(tmp_path / "s.yaml", arm)
    priors = setup.assumptions
    np.testing.assert_array_equal(
        np.diag(priors.wrenches["forearm"].covariance)[[0, 5]], [2500, 100]
    )
    assert priors.wrenches["shoulder"].covariance[0, 0] == UNKNOWN**2
    assert priors.wrench.mean[0] == 1.0
    assert priors.wrench.covariance[3, 3] == 0.25
    np.testing.assert_allclose(np.sqrt(np.diag(priors.wrench_slack.covariance)), [1, 2, 3, 4, 5, 6])
    assert priors.acceleration_slack.covariance[2, 2] == pytest.approx(0.01)
    assert priors.torque_slack.covariance[0, 0] == pytest.approx(0.04)
    assert priors.joint_acceleration.covariance[0, 0] == 49.0
    assert priors.base_acceleration.covariance[0, 0] == 64.0
    assert priors.others["tau.elbow"].mean[0] == 3.0
    assert priors.others["a.forearm"].covariance.shape == (6, 6)
    assert [sensor.name for sensor in setup.sensors][:4] == [
        "torque.pan",
        "torque.lift",
        "torque.elbow",
        "wrist",
    ]


def test_an_empty_file_believes_in_no_contact(arm):
    setup = parse_estimation({}, arm, "s.yaml")
    assert setup.sensors == ()
    assert not setup.assumptions.wrench.covariance.any()
    assert setup.problem(arm).layout.size == 0


def test_a_bias_is_noise_at_a_single_sample(arm):
    text = "sensors: {motors: {kind: joint_torque, joint: all, std: 3, bias_std: 4}}"
    setup = parsed(text, arm)
    assert setup.sensors[0].covariance[0, 0] == 9.0
    for sensor in setup.problem(arm).sensors:
        assert sensor.covariance[0, 0] == 25.0
        assert sensor.bias_sigma is None


def test_orientations_are_set_aside(arm):
    setup = parsed("sensors: {imu: {kind: orientation, link: forearm, std: 0.01}}", arm)
    assert isinstance(setup.unused[0], Orientation)
    assert setup.problem(arm).sensors == ()


def test_a_foot_may_be_the_root(robot_of):
    icub = robot_of("example:icub")
    text = "base: {link: r_ankle_2, fixed: true, gravity: [0, 0, -9.81]}"
    setup = parsed(text, icub)
    tree = setup.problem(icub).tree
    assert (tree.names[0], tree.floating) == ("r_ankle_2", False)
    np.testing.assert_array_equal(setup.gravity, [0, 0, -9.81])


def test_sensors_of_a_urdf(tmp_path):
    tag = '<sensor name="imu" type="imu"><parent link="forearm"/></sensor></robot>'
    text = ARM.read_text().replace("</robot>", tag)
    (tmp_path / "arm.urdf").write_text(text)
    robot = load_robot(tmp_path / "arm.urdf")
    setup = parsed("from_urdf: {gyroscope: 0.5}", robot)
    assert {s.name: float(s.covariance[0, 0]) for s in setup.sensors}["gyro.imu"] == 0.25
    own = "{acc.imu: {kind: accelerometer, link: forearm, std: 9}}"
    setup = parsed(f"from_urdf: true\nsensors: {own}", robot)
    assert {s.name: float(s.covariance[0, 0]) for s in setup.sensors}["acc.imu"] == 81.0


def test_sensors_of_a_urdf_on_a_held_root_are_left_out_with_a_note(robot_of):
    icub = robot_of("example:icub")
    text = "from_urdf: true\nbase: {link: r_ankle_2, fixed: true, gravity: [0, 0, -9.81]}"
    free = parsed("from_urdf: true", icub)
    held = parsed(text, icub)
    assert len(held.sensors) <= len(free.sensors)
    lost = len(free.sensors) - len(held.sensors)
    assert sum("held still" in note for note in held.notes) == lost


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("sensor: {}", UnknownNameError, ("sensor", "did you mean 'sensors'", "s.yaml")),
        ("[1, 2]", RobotFileError, ("mapping",)),
        (
            "sensors: {a: {kind: accelerometer, link: forarm, std: 1}}",
            UnknownNameError,
            ("forarm", "did you mean 'forearm'"),
        ),
        (
            "sensors: {a: {kind: gyroscope, link: forearm, covariance: "
            "[[1, 2, 0], [2, 1, 0], [0, 0, 1]]}}",
            BodysenseError,
            ("not positive", "'a'"),
        ),
        ("sensors: {a: {kind: gyroscope, link: forearm, std: -1}}", BodysenseError, ("-1",)),
        ("external_wrenches: {hand: unknown}", UnknownNameError, ("hand", "forearm")),
        ("external_wrenches: {forearm: some}", RobotFileError, ("zero, unknown", "some")),
        ("external_wrenches: {forearm: {mean: 1}}", RobotFileError, ("std",)),
        ("external_wrenches: {forearm: {std: [1, 2]}}", RobotFileError, ("6", "[1, 2]")),
        ("external_wrenches: {forearm: {std: -1}}", BodysenseError, ("-1", "forearm")),
        ("model: {wrench: 1}", UnknownNameError, ("wrench", "wrench_std")),
        ("model: {torque_std: nan}", RobotFileError, ("torque_std", "finite")),
        ("priors: {q.elbow: {std: 1}}", UnknownNameError, ("q.elbow", "tau.<name>")),
        ("priors: {tau.ellbow: {std: 1}}", UnknownNameError, ("ellbow", "elbow")),
        ("priors: [1]", RobotFileError, ("mapping",)),
        ("base: {link: forearm}", MismatchError, ("bolted", "s.yaml")),
        ("base: {fixed: 3}", RobotFileError, ("true or false",)),
        ("base: {gravity: [0, 0, -981]}", RobotFileError, ("m/s²", "981")),
        ("from_urdf: 7", RobotFileError, ("from_urdf", "true")),
        ("from_urdf: {gyro: 1}", UnknownNameError, ("gyro", "gyroscope")),
    ],
)
def test_bad_files_are_named_with_a_remedy(arm, text, error, words):
    with pytest.raises(error) as caught:
        parsed(text, arm)
    for word in words:
        assert word in str(caught.value)


def test_a_robot_without_a_urdf_has_no_tags():
    with pytest.raises(RobotFileError, match="does not come from a URDF"):
        parsed("from_urdf: true", load_robot("tx40"))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("base: {link: r_ankle_2, fixed: true}", "give gravity"),
        ("base: {gravity: [0, 0, -9.81]}", "floats"),
    ],
)
def test_which_way_is_down_is_asked_of_held_roots_alone(robot_of, text, word):
    with pytest.raises(MismatchError, match=word):
        parsed(text, robot_of("example:icub"))
