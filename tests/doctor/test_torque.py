"""Torques that have the wrong sign, order or unit; and recordings of real arms, damaged."""

from __future__ import annotations

import itertools

import numpy as np
import pinocchio as pin
import pytest
import yaml

from bodysense.doctor import examine
from bodysense.excitation import FourierTrajectory
from bodysense.logs.read import read_log
from bodysense.robot import load_robot, suggested_controller
from bodysense.simulation import rollout

JOINTS = tuple(range(1, 7))
PAIRS = tuple(itertools.combinations(JOINTS, 2))


def altered(raw, changed, **factors):
    channels = dict(raw.channels)
    for name, factor in factors.items():
        channels[name.replace("_", ".", 1)] = channels[name.replace("_", ".", 1)] * factor
    return changed(raw, channels)


def exchanged(raw, changed, a, b, quantities=("tau",)):
    channels = dict(raw.channels)
    for quantity in quantities:
        one, other = f"{quantity}.{a}", f"{quantity}.{b}"
        channels[one], channels[other] = raw.channels[other], raw.channels[one]
    return changed(raw, channels)


@pytest.mark.parametrize("name", ["tx40", "rv2sq"])
@pytest.mark.parametrize("k", JOINTS)
def test_a_torque_with_the_wrong_sign_is_found(name, k, recorded, changed, robot_named):
    robot = robot_named(name, None)
    joint = robot.joint_names[k - 1]
    raw = altered(recorded(name, 6, noise=1e-5), changed, **{f"tau_{joint}": -1.0})
    (finding,) = examine(robot, raw).findings
    assert (finding.kind, finding.severity, finding.where) == (
        "torque-sign",
        "error",
        f"tau.{joint}",
    )
    assert f"`channels: {{tau: {{gain: {{{joint}: -1}}}}}}` into the layout" in finding.action


def test_torques_that_all_have_the_wrong_sign_are_one_finding(clean, changed, only):
    raw = altered(clean, changed, **{f"tau_joint{k}": -1.0 for k in JOINTS})
    finding = only(raw, "torque-sign", "error")
    assert "`channels: {tau: {gain: -1}}`" in finding.action


PENDULUM = """<robot name="pendulum"><link name="base"/><link name="arm"><inertial>
<origin xyz="0 0 -0.3"/><mass value="2"/>
<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.021" iyz="0" izz="0.002"/></inertial></link>
<joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
<limit lower="-1.5" upper="0.2" effort="50" velocity="5"/></joint></robot>"""


def test_a_pendulum_cannot_tell_torques_from_positions(tmp_path, changed):
    """Both with the opposite sign are its equation of motion: both are named."""
    (tmp_path / "pendulum.urdf").write_text(PENDULUM)
    robot, rng = load_robot(tmp_path / "pendulum.urdf"), np.random.default_rng(1)
    motion = FourierTrajectory.for_robot(robot, duration=10.0, rng=rng)
    robot = robot.with_controller(suggested_controller(robot))
    run = rollout(robot, motion, sampling_rate=500.0, torque_noise=0.01, rng=rng)
    (finding,) = examine(robot, altered(run.log(), changed, tau_j=-1.0)).findings
    assert (finding.kind, finding.where) == ("torque-sign", "tau.j")
    assert "or for q and v if the joint is mirrored" in finding.action


@pytest.mark.parametrize("name", ["tx40", "rv2sq"])
def test_one_joint_that_cannot_tell_leaves_opposite_torques_one_finding(
    name, recorded, changed, robot_named
):
    """A joint whose torque is mostly noise fits neither sign, and two others one another's."""
    robot = robot_named(name, None)
    raw = recorded(name, 6, noise=1e-5)
    last = robot.joint_names[-1]
    rng = np.random.default_rng(1)
    noise = np.cumsum(rng.normal(size=raw.t.size)) * 0.05
    channels = {x: -y if x.startswith("tau") else y for x, y in raw.channels.items()}
    channels[f"tau.{last}"] = channels[f"tau.{last}"] + noise
    (finding,) = examine(robot, changed(raw, channels)).findings
    assert (finding.kind, finding.severity) == ("torque-sign", "error")
    assert finding.message.startswith("all torques have the opposite sign")
    assert "`channels: {tau: {gain: -1}}`" in finding.action


def test_two_torques_with_the_wrong_sign_are_one_finding(clean, changed, only):
    finding = only(
        altered(clean, changed, tau_joint2=-1.0, tau_joint3=-1.0), "torque-sign", "error"
    )
    assert finding.where == "tau.joint2, tau.joint3"
    assert "`channels: {tau: {gain: {joint2: -1, joint3: -1}}}`" in finding.action


@pytest.mark.parametrize("k", [2, 3])
def test_a_mirrored_joint_is_told_from_a_mirrored_torque(k, clean, changed, found):
    raw = altered(clean, changed, **{f"q_joint{k}": -1.0, f"v_joint{k}": -1.0})
    errors = found(raw).of("error")
    assert [(f.kind, f.where) for f in errors] == [("position-sign", f"q.joint{k}")]


@pytest.mark.parametrize("pair", PAIRS)
def test_swapped_torques_are_found(pair, clean, changed, only):
    a, b = (f"joint{k}" for k in pair)
    finding = only(exchanged(clean, changed, a, b), "swapped-joints", "error")
    assert finding.where == f"{a}, {b}"
    assert f"tau.{a}, tau.{b}" in finding.action


def test_torques_in_a_circle_are_found(clean, changed, only):
    raw = exchanged(clean, changed, "joint1", "joint2")
    raw = exchanged(raw, changed, "joint2", "joint4")
    assert only(raw, "swapped-joints", "error").where == "joint1, joint2, joint4"


@pytest.mark.parametrize("pair", [(1, 2), (2, 3), (3, 5)])
def test_swapped_positions_are_told_from_swapped_torques(pair, clean, changed, found):
    a, b = (f"joint{k}" for k in pair)
    errors = found(exchanged(clean, changed, a, b, ("q", "v"))).of("error")
    assert [(f.kind, f.where) for f in errors] == [("swapped-joints", f"{a}, {b}")]
    assert f"q.{a}, q.{b}" in errors[0].action


@pytest.mark.parametrize(
    ("factor", "edit"),
    [(1000.0, "unit: mN·m"), (0.001, "unit: kN·m"), (1.0 / 32.0, "gain: 3"), (20.0, "gain: 0.05")],
)
def test_torques_out_of_scale_are_found(factor, edit, clean, changed, only):
    raw = altered(clean, changed, **{f"tau_joint{k}": factor for k in JOINTS})
    finding = only(raw, "wrong-scale", "error")
    assert finding.where == "tau (all joints)"
    assert edit in finding.action


def test_a_single_torque_out_of_scale_is_named(clean, changed, only):
    raw = altered(clean, changed, tau_joint2=1.0 / 40.0)
    assert only(raw, "wrong-scale", "error").where == "tau.joint2"


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.25, 2.0])
def test_gains_that_are_somewhat_off_are_no_finding(factor, clean, changed, found):
    assert found(altered(clean, changed, tau_joint2=factor, tau_joint5=factor)).findings == ()


# -- real recordings ---------------------------------------------------------------------------

MOTIONS = ("ur-20_02_12-50sec_12harm", "ur-20_01_31-load", "ur-20_02_19_15harm50secLoad")


@pytest.fixture(scope="module")
def ur10e(recordings):
    return load_robot(recordings / "ur10e" / "ur10e.urdf")


def ur10e_log(recordings, name):
    from bodysense.logs.layout import parse_layout

    joints = [
        *("shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint"),
        *("wrist_1_joint", "wrist_2_joint", "wrist_3_joint"),
    ]
    gains = [11.98, 11.976, 9.839, 10.763, 10.764, 10.76]
    layout = {
        "joints": joints,
        "header": False,
        "time": {"column": 1},
        "channels": {
            "q": {"columns": list(range(2, 8))},
            "v": {"columns": list(range(8, 14))},
            "tau": {"columns": list(range(14, 20)), "gain": gains},
        },
    }
    return read_log(recordings / "ur10e" / f"{name}.csv", parse_layout(layout))


@pytest.mark.parametrize("name", MOTIONS)
def test_real_motions_are_usable(name, recordings, ur10e, check_diagnosis):
    diagnosis = examine(ur10e, ur10e_log(recordings, name))
    check_diagnosis(diagnosis)
    assert diagnosis.usable
    assert {f.severity for f in diagnosis.findings} == {"note"}
    kinds = {f.kind for f in diagnosis.findings}
    assert {"jitter", "standstill"} <= kinds
    assert diagnosis.rate == pytest.approx(94.0, abs=1.5)


def test_garbage_in_a_real_recording(recordings, ur10e):
    diagnosis = examine(ur10e, ur10e_log(recordings, MOTIONS[2]))
    where = {f.kind: f.where for f in diagnosis.findings}
    assert where["garbage-rows"] == "rows 2-10"
    assert where["truncated-rows"] == "row 6107"
    assert where["fragment"] == "row 1"
    assert where["quantised"] == "q (all joints)"


@pytest.mark.parametrize("k", range(6))
@pytest.mark.parametrize("name", MOTIONS[:2])
def test_a_wrong_sign_in_a_real_recording(name, k, recordings, ur10e, changed):
    joint = ur10e.joint_names[k]
    raw = altered(ur10e_log(recordings, name), changed, **{f"tau_{joint}": -1.0})
    errors = examine(ur10e, raw).of("error")
    assert [(f.kind, f.where) for f in errors] == [("torque-sign", f"tau.{joint}")]


@pytest.mark.parametrize("pair", tuple(itertools.combinations(range(6), 2)))
def test_a_swap_in_a_real_recording(pair, recordings, ur10e, changed):
    a, b = (ur10e.joint_names[k] for k in pair)
    errors = examine(ur10e, exchanged(ur10e_log(recordings, MOTIONS[0]), changed, a, b)).of("error")
    assert [(f.kind, f.where) for f in errors] == [("swapped-joints", f"{a}, {b}")]


def test_currents_taken_for_torques_in_a_real_recording(recordings, ur10e, changed):
    raw = ur10e_log(recordings, MOTIONS[0])
    currents = {f"tau_{joint}": 0.09 for joint in ur10e.joint_names}
    errors = examine(ur10e, altered(raw, changed, **currents)).of("error")
    assert [(f.kind, f.where) for f in errors] == [("wrong-scale", "tau (all joints)")]
    assert "currents" in errors[0].action


@pytest.mark.parametrize("k", range(1, 11))
def test_standing_still_is_no_motion(k, recordings, ur10e):
    diagnosis = examine(ur10e, ur10e_log(recordings, f"static_p{k}"))
    assert [f.kind for f in diagnosis.of("error")] == ["all-still"]
    assert diagnosis.of("warning") == ()


def test_a_push_is_told(recordings, ur10e):
    diagnosis = examine(ur10e, ur10e_log(recordings, "ur-20_01_22-push_pose_1"))
    assert [f.kind for f in diagnosis.of("error")] == ["all-still"]
    assert [f.kind for f in diagnosis.of("warning")] == ["external-force"]


@pytest.mark.parametrize("mirrored", [(2,), (3,), (2, 3), (1, 2, 3, 4, 5, 6)])
def test_mirrored_joints_are_no_ceiling(mirrored, recorded, changed, robot_named):
    """Positions and torques of joints whose axes point the other way; written so, nothing is left.

    Of a robot whose links are not symmetric: there it would make no difference.
    """
    robot = robot_named("example:ur5", None)
    raw = recorded("example:ur5", 3)
    names = [robot.joint_names[k - 1] for k in mirrored]

    def turned(channels, which):
        return {name: -x if name.partition(".")[2] in which else x for name, x in channels.items()}

    diagnosis = examine(robot, changed(raw, turned(raw.channels, names)))
    (finding,) = diagnosis.of("error")
    assert finding.kind == "mirrored-joint"
    edit = yaml.safe_load(finding.action.partition("`")[2].partition("`")[0])
    gains = edit["channels"]
    assert gains["q"] == gains["tau"]
    advised = robot.joint_names if gains["q"] == {"gain": -1} else list(gains["q"]["gain"])
    again = turned(turned(raw.channels, names), advised)
    assert not examine(robot, changed(raw, again)).of("error")
    if len(mirrored) < 3:
        assert set(names) <= set(advised)


def with_bodies(robot, mass=1.0, inertia=lambda I: I):
    """The robot with other masses and moments about the centres of mass, which stay."""
    theta = robot.theta.copy()
    for k in range(robot.layout.n_links):
        body = pin.Inertia.FromDynamicParameters(robot.pi(k))
        other = pin.Inertia(mass * body.mass, body.lever, inertia(body.inertia))
        theta[robot.layout.link(k)] = other.toDynamicParameters()
    return robot.with_parameters(theta)


@pytest.mark.parametrize("factor", [1e3, 1e-3])
def test_units_of_the_file_are_not_blamed_on_the_log(factor, clean, recorded, robot_named):
    robot = with_bodies(robot_named("tx40", None), mass=factor)
    errors = examine(robot, recorded("tx40", 3)).of("error")
    assert {f.kind for f in errors} == {"unit-of-mass"}
    assert all(f.where.startswith("the robot's file") for f in errors), errors


@pytest.mark.parametrize("value", [1e-6, 0.0])
def test_placeholder_inertias_are_no_reason_to_refuse_a_log(value, recorded, robot_named):
    """Masses are right, and inertias are identified from the log."""
    robot = with_bodies(robot_named("tx40", None), inertia=lambda I: value * np.eye(3))
    assert not examine(robot, recorded("tx40", 3)).of("error")


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_inertias_in_another_unit_are_a_warning(factor, recorded, robot_named):
    robot = with_bodies(robot_named("tx40", None), inertia=lambda I: factor * I)
    diagnosis = examine(robot, recorded("tx40", 3))
    assert not diagnosis.of("error")
    assert "unit-of-inertia" in {finding.kind for finding in diagnosis.of("warning")}
