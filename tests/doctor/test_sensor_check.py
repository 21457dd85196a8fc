"""Sensors that are mounted, signed or scaled otherwise than their file says; see the benchmark."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import yaml

# `benchmarks` is no part of the installed package: it lies in the root of the repository.
sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.sensor_check import SUBJECTS, faults_of, findings_of, is_named, turned
from benchmarks.sensor_subjects import arm
from bodysense.doctor.axis_fit import SIGNED_AXES, VectorPair, fit_axes, usual_samples
from bodysense.doctor.sensor_check import check_sensors
from bodysense.logs.filtering import smooth_motion
from bodysense.logs.read import read_log
from bodysense.robot import load_robot, with_payload
from bodysense.robot.frames import moving_frame
from bodysense.sensors import Accelerometer, Gyroscope, JointTorque, Mount, variances
from bodysense.spatial import exp_so3

UR5, HELD, FLOATING = "example:ur5", "iCub, held", "iCub, floating"


@cache
def subject(name, pushes=1):
    return SUBJECTS[name](np.random.default_rng([1, pushes]), pushes)


def told(findings):
    return [f for f in findings if f.severity != "note"]


@pytest.mark.parametrize(("name", "pushes"), [(UR5, 0), *((name, 2) for name in SUBJECTS)])
def test_sound_sensors_are_not_accused(name, pushes):
    assert told(findings_of(subject(name, pushes))) == []


@pytest.mark.parametrize("fault", faults_of(UR5))
def test_fault_on_an_arm_that_is_pushed_is_named(fault):
    kind, change = faults_of(UR5)[fault]
    wrong, who = change(subject(UR5), np.random.default_rng(3))
    findings = findings_of(wrong)
    assert is_named(findings, kind, who), findings


@pytest.mark.parametrize("fault", faults_of(HELD))
@pytest.mark.parametrize("name", [HELD, FLOATING])
def test_fault_on_a_humanoid_is_named(name, fault):
    kind, change = faults_of(name)[fault]
    wrong, who = change(subject(name), np.random.default_rng(4))
    findings = findings_of(wrong)
    assert is_named(findings, kind, who), findings


@pytest.mark.parametrize("G", [SIGNED_AXES[9], exp_so3([0.3, -0.5, 0.2]), SIGNED_AXES[30]])
@pytest.mark.parametrize("name", ["wrist", "acc", "gyro"])
def test_remedy_is_the_true_mounting(name, G):
    sound = subject(UR5)
    (sensor,) = (s for s in sound.sensors if s.name == name)
    findings = findings_of(sound.with_reading(name, lambda y: turned(G, y)))
    (finding,) = told(findings)
    angles = re.search(r"rpy: \[(.*?)\]", finding.action)
    handed = np.sign(np.linalg.det(G))
    R = pin.rpy.rpyToMatrix(*map(float, angles.group(1).split(", ")))
    np.testing.assert_allclose(R, sensor.mount.R @ (handed * G).T, atol=0.02)
    assert ("sign: -1" in finding.action or "gain: -1" in finding.action) == (handed < 0.0)


def test_corrected_sensor_is_not_accused_again():
    sound, G = subject(UR5), SIGNED_AXES[12]
    wrong = sound.with_reading("wrist", lambda y: -turned(G, y))
    (finding,) = told(findings_of(wrong))
    angles = [float(x) for x in re.search(r"rpy: \[(.*?)\]", finding.action).group(1).split(", ")]
    mount = replace(sound.sensors[0].mount, R=pin.rpy.rpyToMatrix(*angles))
    right = replace(sound.sensors[0], mount=mount, sign=-1)
    assert told(findings_of(replace(wrong, sensors=(right, *sound.sensors[1:])))) == []


def test_reversed_wrench_is_an_error_with_its_remedy():
    (finding,) = findings_of(subject(UR5).with_reading("wrist", np.negative))
    assert (finding.kind, finding.severity) == ("sensor-sign", "error")
    assert finding.action == "write `sign: -1` into the entry of 'wrist' in the sensors file"


def test_unknown_tool_is_weighed_and_can_be_attached():
    robot, sound = load_robot(UR5), subject(UR5, 0)
    bare = replace(sound, robot=robot)
    (finding,) = told(findings_of(bare))
    pattern = r"beyond it is ([\d.]+) ± ([\d.]+) kg, the model has ([\d.]+)"
    mass, half, model = map(float, re.search(pattern, finding.message).groups())
    assert model == pytest.approx(robot.pi("wrist_3_link")[0], rel=0.01)
    assert abs(mass - sound.robot.pi("wrist_3_link")[0]) < half + 0.06 * mass  # masses are rough
    (tool,) = yaml.safe_load(re.search("`(attached.*?)`", finding.action).group(1))["attached"]
    carrying = with_payload(robot, tool["mass"], link=tool["frame"], com=tool["com"])
    assert told(findings_of(replace(bare, robot=carrying))) == []


def still(sound, **readings):
    """The subject's first sample, again and again."""
    T = len(sound.t)
    q = np.repeat(sound.q[:1], T, axis=0)
    noise = np.random.default_rng(5)
    y = {
        s.name: np.repeat(sound.readings[s.name][:1], T, axis=0)
        + noise.multivariate_normal(np.zeros(s.size), s.covariance, T)
        for s in sound.sensors
    }
    zero = np.zeros_like(q)
    return replace(sound, q=q, dq=zero, ddq=zero, readings={**y, **readings})


@pytest.fixture(scope="module")
def standing():
    """An arm at rest, with exact readings of its first sample."""
    robot = subject(UR5, 0).robot
    rest = arm(UR5, np.random.default_rng(6))
    model, data = robot.model, robot.model.createData()
    zero = np.zeros(robot.nv)
    rest = replace(rest, robot=robot)
    pin.forwardKinematics(model, data, rest.q[0], zero, zero)
    pin.rnea(model, data, rest.q[0], zero, zero)
    first = {}
    for s in rest.sensors:
        if isinstance(s, JointTorque):
            first[s.name] = data.tau[[model.joints[model.getJointId(s.joint)].idx_v]]
            continue
        place = pin.SE3(np.array(s.mount.R), np.array(s.mount.p))
        if s.name == "wrist":
            first[s.name] = place.actInv(data.f[-1]).vector
        else:
            g = -(data.oMi[model.njoints - 1] * place).rotation.T @ model.gravity.linear
            first[s.name] = g if s.name == "acc" else np.zeros(3)
    return still(replace(rest, readings={name: y[None] for name, y in first.items()}))


def test_arm_at_rest_is_not_accused(standing):
    assert findings_of(standing) == ()


def test_single_pose_shows_the_opposite_and_says_what_it_may_be(standing):
    (finding,) = findings_of(standing.with_reading("wrist", np.negative))
    assert (finding.kind, finding.severity) == ("sensor-sign", "warning")
    assert "or a bias" in finding.message
    assert "several poses" in finding.action


@pytest.mark.parametrize("other", [3.0, 0.5])
def test_single_pose_cannot_tell_a_tool_from_a_bias(standing, other):
    findings = findings_of(standing.with_reading("wrist", lambda y: other * y))
    assert told(findings) == []
    assert [f.kind for f in findings] == ["sensor-bias"]
    assert "look alike" in findings[0].message


def test_accelerometer_of_a_robot_at_rest_that_reads_gravity(standing):
    (finding,) = findings_of(standing.with_reading("acc", np.negative))
    assert finding.kind == "sensor-sign"
    assert "gain: -1" in finding.action
    assert "upside down" in finding.action


def test_turn_about_gravity_is_left_open_at_rest(standing):
    (finding,) = findings_of(standing.with_reading("acc", lambda y: turned(SIGNED_AXES[5], y)))
    assert (finding.kind, finding.severity) == ("sensor-frame", "warning")
    assert "these samples cannot tell" in finding.message


def test_held_torques_of_the_opposite_sign(standing):
    names = [s.name for s in standing.sensors if isinstance(s, JointTorque)]
    wrong = standing
    for name in names:
        wrong = wrong.with_reading(name, np.negative)
    (finding,) = findings_of(wrong)
    assert (finding.kind, finding.severity) == ("torque-sign", "warning")
    assert "opposite of what holds" in finding.message


def test_wrench_sensor_with_contacts_on_both_sides_is_left_alone():
    sound = subject(HELD)
    wrong = sound.with_reading("l_foot_ft_sensor", np.negative)
    base = {**sound.base, "touched": ("base_link", "l_ankle_2")}
    assert told(findings_of(wrong))
    assert told(findings_of(replace(wrong, base=base))) == []


def test_push_that_lasts_is_no_sensor_fault(standing):
    push = np.where(np.arange(1000)[:, None] > 300, [20.0, -8.0, 5.0, 1.0, 0.5, 0.0], 0.0)
    findings = findings_of(standing.with_reading("wrist", lambda y: y + push))
    assert told(findings) == []


def test_missing_and_few_readings():
    sound = subject(UR5)
    gaps = sound.with_reading("wrist", lambda y: np.where(np.arange(1000)[:, None] % 3, y, np.nan))
    assert told(findings_of(gaps)) == []
    assert [f.kind for f in findings_of(gaps.with_reading("wrist", np.negative))] == ["sensor-sign"]
    nothing = sound.with_reading("wrist", lambda y: np.full_like(y, np.nan))
    assert told(findings_of(nothing)) == []
    s = sound
    few = {name: y[:20] for name, y in s.readings.items()}
    assert check_sensors(s.robot, s.sensors, s.t[:20], s.q[:20], s.dq[:20], s.ddq[:20], few) == ()
    absent = replace(sound, readings={k: y for k, y in s.readings.items() if k != "wrist"})
    assert told(findings_of(absent)) == []
    dead = sound.with_reading("wrist", np.zeros_like)
    assert all(np.isfinite(len(f.message)) for f in findings_of(dead))


def test_axes_and_signs_are_all_there():
    assert len(np.unique(SIGNED_AXES, axis=0)) == 48
    np.testing.assert_allclose(
        SIGNED_AXES @ SIGNED_AXES.transpose(0, 2, 1), np.tile(np.eye(3), (48, 1, 1))
    )
    assert (np.linalg.det(SIGNED_AXES[2:25]) > 0.0).all()
    assert (np.linalg.det(SIGNED_AXES[25:]) < 0.0).all()


@pytest.mark.parametrize("k", range(48))
def test_every_mounting_is_recovered_with_any_scale_and_bias(k):
    rng = np.random.default_rng(k)
    u = rng.normal(size=(200, 3)) * [1.0, 0.7, 0.5] @ exp_so3(rng.normal(size=3))
    y = rng.uniform(0.1, 10.0) * u @ SIGNED_AXES[k].T
    y += rng.normal(size=3) + 0.02 * y.std() * rng.normal(size=u.shape)
    fit = fit_axes(VectorPair.of(y, u, biased=True))
    np.testing.assert_array_equal(fit.G, SIGNED_AXES[k])
    assert fit.wrong == (k > 0)


def test_nothing_is_claimed_of_noise():
    rng = np.random.default_rng(0)
    for _ in range(50):
        pair = VectorPair.of(rng.normal(size=(100, 3)), rng.normal(size=(100, 3)), biased=True)
        assert fit_axes(pair).kind == "unclear"


@pytest.mark.parametrize("m", [1, 3, 6])
def test_contacts_of_two_fifths_of_the_time_stand_out(m):
    rng = np.random.default_rng(m)
    t = np.linspace(0.0, 10.0, 600)
    Z = np.column_stack([np.sin(t), np.cos(1.3 * t), np.sin(0.7 * t + 1.0), np.ones_like(t)])
    Y = Z @ rng.normal(size=(4, m)) + 0.02 * rng.normal(size=(600, m))
    pushed = (t % 5.0) < 2.0
    use = usual_samples(Z, Y + 2.0 * pushed[:, None])
    assert not use[pushed].any()
    assert use[~pushed].mean() > 0.97


def icub_recorded(recordings, name):
    """The humanoid's log, with an IMU that its file has on the base's axes."""
    robot = load_robot(recordings / "icub" / "icub.urdf", floating_base=True)
    log = read_log(recordings / "icub" / f"{name}.parquet")
    missing = [joint for joint in robot.joint_names if f"q.{joint}" not in log.channels]
    robot = robot.with_locked_joints(dict.fromkeys(missing, 0.0))
    t = np.arange(log.t[0], log.t[-1], 0.01)
    at = {name: np.interp(t, log.t, values) for name, values in log.channels.items()}
    motion = smooth_motion(np.stack([at[f"q.{j}"] for j in robot.joint_names], axis=1), 100.0, 6.0)
    mount = Mount(robot.link_names[0])
    sensors = (
        Gyroscope(name="gyro", mount=mount, covariance=variances(0.01, 3)),
        Accelerometer(name="acc", mount=mount, covariance=variances(0.1, 3)),
    )
    y = {name: np.stack([at[f"imu.{name}.{c}"] for c in "xyz"], axis=1) for name in ("gyro", "acc")}
    return robot, sensors, t, motion, y


def mounting(finding):
    angles = re.search(r"rpy: \[(.*?)\]", finding.action).group(1).split(", ")
    return pin.rpy.rpyToMatrix(*map(float, angles))


def angle(R, S):
    return np.rad2deg(np.linalg.norm(pin.log3(R.T @ S)))


def test_unknown_mounting_of_a_real_imu_is_the_same_from_all_sides(recordings):
    robot, sensors, t, motion, y = icub_recorded(recordings, "sway")
    sole = moving_frame(robot, "l_sole", "the sole").placement.rotation
    held = {"root": "l_ankle_2", "gravity": sole @ [0.0, 0.0, -9.81]}
    acc, gyro = check_sensors(robot, sensors, t, *motion, y, **held)
    assert (acc.kind, acc.severity, gyro.kind) == ("sensor-frame", "error", "sensor-frame")
    assert angle(mounting(acc), mounting(gyro)) < 15.0  # it hardly turns
    # Another recording, without knowing which way is up, by the feet that stand in turn:
    robot, sensors, t, motion, y = icub_recorded(recordings, "walk")
    (walking,) = check_sensors(robot, sensors, t, *motion, y, touched=("l_ankle_2", "r_ankle_2"))
    assert walking.kind == "sensor-frame"
    assert angle(mounting(acc), mounting(walking)) < 10.0
    assert (mounting(walking) @ y["acc"].mean(axis=0))[2] > 9.0  # the robot walks upright
