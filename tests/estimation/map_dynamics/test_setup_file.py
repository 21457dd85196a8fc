"""The sensors file: what it says, and how it refuses what it cannot mean."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
import yaml
from pushed_arm import ARM, SENSORS

from bodysense.errors import BodysenseError, MismatchError, RobotFileError, UnknownNameError
from bodysense.estimation import GaussianPrior, load_estimation, parse_estimation
from bodysense.estimation.map_dynamics.plausible_sizes import PlausibleSizes
from bodysense.robot import Robot, load_robot, with_payload
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
    sizes = PlausibleSizes.of(arm)
    np.testing.assert_allclose(np.diag(priors.wrenches["shoulder"].covariance), sizes.wrench**2)
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


def gripper_prior(text: str, robot: Robot) -> tuple[GaussianPrior, np.ndarray]:
    """The prior about the forearm from an entry of its frame, and the map from that frame."""
    setup = parsed(f"external_wrenches: {{gripper: {text}}}", robot)
    frame = robot.model.frames[robot.model.getFrameId("gripper")]
    assert set(setup.assumptions.wrenches) == {"forearm"}
    return setup.assumptions.wrenches["forearm"], frame.placement.toDualActionMatrix()


def test_wrenches_may_be_those_of_frames_fixed_to_links(arm):
    stds = np.array([10.0, 20.0, 30.0, 1.0, 2.0, 3.0])
    prior, X = gripper_prior("{std: [10, 20, 30, 1, 2, 3], mean: [1, 2, 3, 4, 5, 6]}", arm)
    np.testing.assert_allclose(prior.mean, X @ [1, 2, 3, 4, 5, 6])
    np.testing.assert_allclose(prior.covariance, X @ np.diag(stds**2) @ X.T)
    prior, X = gripper_prior("unknown", arm)
    sizes = PlausibleSizes.of(arm)
    np.testing.assert_allclose(prior.covariance, X @ np.diag(sizes.wrench**2) @ X.T)


def test_a_pure_force_has_no_moment_about_its_point(arm):
    prior, X = gripper_prior("{force: 50}", arm)
    np.testing.assert_allclose(prior.covariance, 2500 * X[:, :3] @ X[:, :3].T, atol=1e-9)
    assert np.linalg.matrix_rank(prior.covariance) == 3
    text = "{force: 50, direction: [0, 3, 4], at: [0, 0, 0.1], mean: 10}"
    prior, X = gripper_prior(text, arm)
    force, point = np.array([0.0, 0.6, 0.8]), [0.0, 0.0, 0.1]
    line = X @ np.concatenate([force, np.cross(point, force)])
    np.testing.assert_allclose(prior.mean, 10 * line)
    np.testing.assert_allclose(prior.covariance, 2500 * np.outer(line, line), atol=1e-9)
    text = "{force: unknown, direction: [0, 0, 1], moment: 0.2}"
    prior, X = gripper_prior(text, arm)
    own = np.linalg.solve(X, np.linalg.solve(X, prior.covariance).T)
    spread = [0, 0, PlausibleSizes.of(arm).force ** 2, *[0.04] * 3]
    np.testing.assert_allclose(own, np.diag(spread), atol=1e-6)


def test_wrenches_of_frames_on_one_link_add_up(arm):
    text = "external_wrenches: {forearm: {std: 3, mean: 1}, gripper: {force: 4}}"
    setup = parsed(text, arm)
    prior, _ = gripper_prior("{force: 4}", arm)
    both = setup.assumptions.wrenches["forearm"]
    np.testing.assert_allclose(both.covariance, 9 * np.eye(6) + prior.covariance)
    np.testing.assert_array_equal(both.mean, 1.0)
    assert "forearm, gripper act on forearm together" in setup.notes[0]


def test_a_pushed_frame_is_estimated_as_its_link(arm):
    """A known force at the flange, found from joint torques alone."""
    text = (
        "sensors: {tau: {kind: joint_torque, joint: all, std: 0.01},\n"
        "          still: {kind: joint_acceleration, joint: all, constant: 0, std: 0.001}}\n"
        "external_wrenches: {gripper: {force: 50}}"
    )
    problem = parsed(text, arm).problem(arm)
    model, data, q = arm.model, arm.model.createData(), np.array([0.3, -0.5, 0.8])
    force, frame = np.array([5.0, -7.0, 9.0]), model.getFrameId("gripper")
    pin.computeJointJacobians(model, data, q)
    J = pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL)
    tau = pin.computeGeneralizedGravity(model, data, q) - J[:3].T @ force
    found = problem.estimate(q, np.zeros(3), np.concatenate([tau, np.zeros(3)]))
    X = model.frames[frame].placement.toDualActionMatrix()
    np.testing.assert_allclose(found["fx.forearm"], X[:, :3] @ force, atol=0.02)


def test_what_is_attached_belongs_to_the_robot_that_estimates(arm):
    text = (
        "attached: [{frame: gripper, mass: 1.5, com: [0.01, 0, 0.04],\n"
        "            inertia: {ixx: 0.004, iyy: 0.003, izz: 0.002, ixz: 0.0005}},\n"
        "           {link: upper_arm, mass: 0.2}]\n"
        "sensors: {motors: {kind: joint_torque, joint: all, std: 3, bias_std: 4}}"
    )
    setup = parsed(text, arm)
    problem = setup.problem(arm)
    I = np.array([[0.004, 0, 0.0005], [0, 0.003, 0], [0.0005, 0, 0.002]])
    body = pin.Inertia(1.5, np.array([0.01, 0, 0.04]), I)
    placement = arm.model.frames[arm.model.getFrameId("gripper")].placement
    expected = arm.model.inertias[3] + placement.act(body)
    np.testing.assert_allclose(
        problem.robot.model.inertias[3].toDynamicParameters(), expected.toDynamicParameters()
    )
    assert problem.robot.pi("upper_arm")[0] == pytest.approx(arm.pi("upper_arm")[0] + 0.2)
    for robot in (setup.robot(arm), setup.problem_of_log(arm).robot):
        np.testing.assert_array_equal(robot.theta, problem.robot.theta)
    again = problem.with_sensors(setup.log_sensors)
    assert again.sensors[0].bias_sigma is not None
    np.testing.assert_array_equal(again.robot.theta, problem.robot.theta)


def test_a_payload_file_of_the_identification_can_be_pasted(arm):
    entry = {
        "frame": "gripper",
        "mass": 1.0,
        "center_of_mass": [0, 0, 0.1],
        "inertia": dict(ixx=0.1, iyy=0.1, izz=0.1, ixy=0.0, ixz=0.0, iyz=0.0),
    }
    robot = parse_estimation({"attached": [entry]}, arm, "s.yaml").robot(arm)
    same = with_payload(arm, 1.0, link="gripper", com=[0, 0, 0.1], inertia=0.1 * np.eye(3))
    np.testing.assert_array_equal(robot.theta, same.theta)


def test_standing_feet_of_a_floating_root(robot_of):
    text = "base: {standing: [l_sole, r_sole], standing_points: [l_hand]}"
    feet = parsed(text, robot_of("example:icub")).standing
    assert (feet.flat, feet.points) == (("l_sole", "r_sole"), ("l_hand",))


def test_positions_that_are_stated_are_known_without_a_channel(arm):
    text = (
        "sensors: {pan: {kind: encoder, joint: pan, constant: 0.25, std: 0.001},\n"
        "          lift: {kind: encoder, joint: lift, std: 0.001}}"
    )
    assert parsed(text, arm).constant_positions == {"pan": 0.25}


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
        ("external_wrenches: [1]", RobotFileError, ("mapping", "[1]")),
        ("external_wrenches: {base: unknown}", MismatchError, ("part of the ground", "s.yaml")),
        ("external_wrenches: {gripper: {force: -1}}", BodysenseError, ("-1", "gripper, force")),
        ("external_wrenches: {gripper: {force: nan}}", RobotFileError, ("gripper, force",)),
        ("external_wrenches: {gripper: {force: much}}", RobotFileError, ("finite", "much")),
        ("external_wrenches: {gripper: {force: 1, std: 1}}", RobotFileError, ("either std",)),
        ("external_wrenches: {gripper: {std: 1, moment: 1}}", RobotFileError, ("pure force",)),
        ("external_wrenches: {gripper: {std: 1, direction: 1}}", RobotFileError, ("pure force",)),
        (
            "external_wrenches: {gripper: {force: 1, direction: [0, 0, 0]}}",
            BodysenseError,
            ("no length", "gripper"),
        ),
        (
            "external_wrenches: {gripper: {force: [1, 2, 3], direction: [0, 0, 1]}}",
            RobotFileError,
            ("gripper, force", "[1, 2, 3]"),
        ),
        ("external_wrenches: {gripper: {force: 1, at: [0, 1]}}", RobotFileError, ("gripper, at",)),
        ("external_wrenches: {gripper: {force: 1, moment: -1}}", BodysenseError, ("moment",)),
        ("attached: {mass: 1}", RobotFileError, ("a list such as", "attached")),
        ("attached: [{mass: 1}]", RobotFileError, ("attached, 1", "link:")),
        ("attached: [{frame: gripper}]", RobotFileError, ("attached, 1", "mass")),
        ("attached: [{frame: griper, mass: 1}]", UnknownNameError, ("griper", "gripper")),
        ("attached: [{link: base, mass: 1}]", MismatchError, ("ground", "attached, 1")),
        ("attached: [{frame: gripper, mass: -1}]", BodysenseError, ("-1 kg", "attached, 1")),
        ("attached: [{frame: gripper, mass: nan}]", RobotFileError, ("mass", "finite")),
        ("attached: [{frame: gripper, mass: 1, com: [0, 0]}]", RobotFileError, ("com", "3")),
        (
            "attached: [{frame: gripper, mass: 1, inertia: [1, 0.1, 0.1]}]",
            BodysenseError,
            ("not physically consistent", "attached, 1"),
        ),
        (
            "attached: [{frame: gripper, mass: 1, inertia: {ixx: 1, ixy: 0}}]",
            RobotFileError,
            ("iyy and izz",),
        ),
        (
            "attached: [{frame: gripper, mass: 1, com: [0, 0, 0], center_of_mass: [0, 0, 0]}]",
            RobotFileError,
            ("com or center_of_mass",),
        ),
        ("base: {standing: [forearm]}", MismatchError, ("held still", "standing")),
        ("base: {standing: [sole]}", UnknownNameError, ("sole", "base, standing")),
        ("base: {standing: forearm}", RobotFileError, ("list of names",)),
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
