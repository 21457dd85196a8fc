"""A robot with locked joints moves as the whole robot does while they stand still."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import InconsistentInertiaError, MismatchError, ShapeError, UnknownNameError
from bodysense.robot import (
    Actuators,
    Controller,
    Robot,
    inverse_dynamics,
    link_hulls,
    load_robot,
    write_actuators,
    write_mjcf,
    write_urdf,
)
from bodysense.robot.io.urdf import urdf_bytes
from bodysense.sensors import Encoder, Gyroscope, Mount
from bodysense.spatial import Array

PANDA = "example:panda"
SUBJECTS = {  # joints to lock: leaves, inner ones, ones on the ground, beside and below a base
    PANDA: {"*finger*": 0.03},
    "serial": {"joint4": 0.4, "joint5": -0.3, "joint12": 0.1},
    "branched": {"joint1": 0.2, "joint3": -0.5, "joint6": 0.3, "joint12": None},
    "floating": {"joint1": 0.2, "joint2": 0.5, "joint9": 0.0},
    "example:talos": {"arm_*": None, "leg_left_4_joint": 0.4, "head_*": 0.1},
}


def test_a_joint_without_a_position_stays_where_it_is_locked(robot_of):
    robot = robot_of("tx40").with_locked_joints({"joint6": 0.5})
    again = robot.with_locked_joints({"joint5": 0.1, "joint6": None})
    assert dict(again.locked.positions) == {"joint5": 0.1, "joint6": 0.5}


def whole_motion(
    locked: Robot, motion: tuple[Array, Array, Array]
) -> tuple[tuple[Array, Array, Array], list[int]]:
    """A motion of the locked robot as one of the whole, and the places of its velocities there."""
    assert locked.locked is not None
    whole = locked.locked.whole
    own = [whole.joint_names.index(name) for name in locked.joint_names]
    (q, v, a), n = motion, motion[0].shape[0]
    base_q, base_v = whole.nq - whole.n_joints, whole.nv - whole.n_joints
    places_q = [*range(base_q), *(base_q + j for j in own)]
    places = [*range(base_v), *(base_v + j for j in own)]
    full_q, full_v, full_a = (
        np.zeros((n, whole.nq)),
        np.zeros((n, whole.nv)),
        np.zeros((n, whole.nv)),
    )
    for name, position in locked.locked.positions.items():
        full_q[:, base_q + whole.joint_names.index(name)] = position
    full_q[:, places_q], full_v[:, places], full_a[:, places] = q, v, a
    return (full_q, full_v, full_a), places


def changed(robot: Robot, rng: np.random.Generator) -> Robot:
    """Other parameters, whose links are feasible bodies."""
    theta = robot.theta * rng.uniform(0.8, 1.25, robot.theta.size)
    for k in range(robot.layout.n_links):
        theta[robot.layout.link(k)] = robot.pi(k) * rng.uniform(0.9, 1.3)
    return robot.with_parameters(theta)


@pytest.fixture(params=SUBJECTS)
def locked(request, robot_of) -> Robot:
    return robot_of(request.param).with_locked_joints(SUBJECTS[request.param])


def test_torques_are_those_of_the_whole_robot(locked, states_of, rng):
    motion = states_of(locked, rng, 5)
    whole, places = whole_motion(locked, motion)
    assert locked.locked is not None
    expected = inverse_dynamics(locked.locked.whole, *whole)[:, places]
    np.testing.assert_allclose(
        inverse_dynamics(locked, *motion), expected, rtol=1e-10, atol=1e-11 * np.abs(expected).max()
    )


@pytest.mark.parametrize("name", [PANDA, "serial", "example:talos"])
def test_the_model_is_the_reduced_one_of_pinocchio(name, robot_of, states_of, rng):
    whole = robot_of(name)
    locked = whole.with_locked_joints(SUBJECTS[name])
    q0 = pin.neutral(whole.model)
    ids = [whole.model.getJointId(name) for name in locked.locked.positions]
    for k, q in zip(ids, locked.locked.positions.values(), strict=True):
        q0[whole.model.joints[k].idx_q] = q
    reduced = pin.buildReducedModel(whole.model, ids, q0)
    assert list(reduced.names) == list(locked.model.names)
    q, v, a = (x[0] for x in states_of(locked, rng, 1))
    expected = pin.rnea(reduced, reduced.createData(), q, v, a)
    np.testing.assert_allclose(
        pin.rnea(locked.model, locked.model.createData(), q, v, a),
        expected,
        atol=1e-11 * np.abs(expected).max(),
    )
    there, here = reduced.createData(), locked.model.createData()
    pin.framesForwardKinematics(reduced, there, q)
    pin.framesForwardKinematics(locked.model, here, q)
    for frame in reduced.frames:
        name, kind = frame.name, frame.type
        if kind == pin.FrameType.BODY:
            np.testing.assert_allclose(
                here.oMf[locked.model.getFrameId(name, kind)].homogeneous,
                there.oMf[reduced.getFrameId(name, kind)].homogeneous,
                atol=1e-12,
            )


def test_links_and_friction_of_the_others_keep_their_names_and_values(locked):
    whole = locked.locked.whole
    assert set(locked.joint_names) | set(locked.locked.positions) == set(whole.joint_names)
    kept = [whole.joint_names.index(name) for name in locked.joint_names]
    base = int(whole.floating_base)
    links = [whole.link_names[base + j] for j in kept]
    assert list(locked.link_names[base:]) == links
    for term in ("Ia", *whole.layout.friction_terms):
        mine, its = (r.theta[r.layout.places(term)] for r in (locked, whole))
        np.testing.assert_array_equal(mine, its[kept])
    np.testing.assert_array_equal(locked.friction.shape, whole.friction.shape[kept])
    for mine, its in zip(locked.position_limits, whole.position_limits, strict=True):
        np.testing.assert_array_equal(mine, its[kept])


def test_unlocking_an_unchanged_robot_changes_nothing(locked):
    np.testing.assert_array_equal(locked.unlocked().theta, locked.locked.whole.theta)
    assert locked.unlocked().locked is None
    assert locked.unlocked().unlocked().joint_names == locked.locked.whole.joint_names


def test_the_unlocked_robot_has_the_torques_of_the_changed_one(locked, states_of, rng):
    other = changed(locked, rng)
    motion = states_of(locked, rng, 5)
    whole, places = whole_motion(locked, motion)
    expected = inverse_dynamics(other, *motion)
    np.testing.assert_allclose(
        inverse_dynamics(other.unlocked(), *whole)[:, places],
        expected,
        rtol=1e-10,
        atol=1e-11 * np.abs(expected).max(),
    )
    again = other.unlocked().with_locked_joints(locked.locked.positions)
    np.testing.assert_allclose(again.theta, other.theta, rtol=1e-12, atol=1e-12)


def test_the_carrying_link_takes_the_difference(robot_of):
    robot = robot_of(PANDA).with_locked_joints({"*finger*": 0.0})
    heavier = robot.with_link("panda_link7", mass=robot.pi("panda_link7")[0] + 0.25)
    whole, before = heavier.unlocked(), robot_of(PANDA)
    for link in before.link_names:
        gain = 0.25 if link == "panda_link7" else 0.0
        assert whole.pi(link)[0] == pytest.approx(before.pi(link)[0] + gain, abs=1e-12)
    assert whole.notes == before.notes


def test_a_sum_lighter_than_the_locked_links_is_shared(robot_of):
    robot = robot_of(PANDA).with_locked_joints({"*finger*": 0.0})
    theta = robot.theta.copy()
    theta[robot.layout.link("panda_link7")] *= 0.01  # 16 g, with two fingers of 15 g each
    light = robot.with_parameters(theta)
    whole = light.unlocked()
    assert all(check.feasible for check in whole.consistency())
    assert "multiplied by 0.5" in whole.notes[-1] or "multiplied by 0.25" in whole.notes[-1]
    again = whole.with_locked_joints({"*finger*": 0.0})
    np.testing.assert_allclose(again.pi("panda_link7"), light.pi("panda_link7"), atol=1e-15)


def test_infeasible_links_of_locked_joints_are_written_as_they_were(tmp_path, robot_of):
    text = robot_of(PANDA).source.data.decode()
    before, rest = text.split('<link name="panda_leftfinger">')
    massless = rest.replace('mass value="0.015"', 'mass value="0"', 1)
    assert massless != rest
    (tmp_path / "arm.urdf").write_text(f'{before}<link name="panda_leftfinger">{massless}')
    whole = load_robot(tmp_path / "arm.urdf")
    assert any("panda_leftfinger" in n for n in whole.notes if n.startswith("error: infeasible"))
    locked = whole.with_locked_joints({"*finger*": 0.0})
    heavier = locked.with_link("panda_link7", mass=locked.pi("panda_link7")[0] + 0.25)
    write_urdf(heavier, tmp_path / "written.urdf")
    again = load_robot(tmp_path / "written.urdf").with_locked_joints({"*finger*": 0.0})
    np.testing.assert_allclose(again.pi("panda_link7"), heavier.pi("panda_link7"), atol=1e-15)
    with pytest.raises(InconsistentInertiaError, match="panda_leftfinger"):
        write_urdf(whole, tmp_path / "refused.urdf")


def test_files_have_all_joints(tmp_path, robot_of, states_of, rng):
    locked = robot_of(PANDA).with_friction("stribeck", coefficients={"Fs": 0.3})
    locked = changed(locked.with_locked_joints({"*finger*": 0.02}), rng)
    write_urdf(locked, tmp_path / "panda.urdf")
    write_actuators(locked, tmp_path / "panda.yaml")
    write_mjcf(locked, tmp_path / "panda.xml")
    back = load_robot(tmp_path / "panda.urdf", actuators=tmp_path / "panda.yaml")
    assert back.joint_names == robot_of(PANDA).joint_names
    motion = states_of(locked, rng, 4)
    expected = inverse_dynamics(locked, *motion)
    for robot in (back, load_robot(tmp_path / "panda.xml", friction="stribeck")):
        again = robot.with_locked_joints({"*finger*": 0.02})
        assert again.joint_names == locked.joint_names
        if robot is back:  # MJCF has no static friction
            np.testing.assert_allclose(inverse_dynamics(again, *motion), expected, atol=1e-9)
        np.testing.assert_allclose(
            again.theta[again.layout.inertial], locked.theta[locked.layout.inertial], atol=1e-9
        )


def test_an_unchanged_robot_is_written_as_the_file_it_came_from(robot_of):
    robot = robot_of(PANDA)
    assert robot.source is not None
    assert urdf_bytes(robot.with_locked_joints({"*finger*": 0.02})) == robot.source.data


def test_locking_more_joints_keeps_the_first(robot_of):
    once = robot_of(PANDA).with_locked_joints({"panda_finger_joint1": 0.03})
    twice = once.with_locked_joints({"panda_joint7": 0.5, "panda_finger_joint2": None})
    assert dict(twice.locked.positions) == {
        "panda_joint7": 0.5,
        "panda_finger_joint1": 0.03,
        "panda_finger_joint2": 0.0,
    }
    assert twice.n_joints == 6
    assert once.with_locked_joints({}) is once


def test_zero_or_the_limit_next_to_it(robot_of):
    locked = robot_of("example:panda").with_locked_joints({"panda_joint4": None})
    upper = robot_of("example:panda").position_limits[1][3]
    assert upper < 0.0
    assert locked.locked.positions == {"panda_joint4": upper}


def test_drives_and_control_of_the_others(robot_of):
    whole = robot_of("tx40")
    n = whole.n_joints
    whole = whole.with_actuators(
        Actuators.from_values(n, gear_ratio=np.arange(1.0, n + 1), drive_gain=2.0)
    ).with_controller(Controller.from_gains(n, kp=np.arange(1.0, n + 1), kd=1.0, rate=500.0))
    locked = whole.with_locked_joints({"joint3": 0.2})
    np.testing.assert_array_equal(locked.actuators.gear_ratio, [1.0, 2.0, 4.0, 5.0, 6.0])
    np.testing.assert_array_equal(locked.controller.kp, [1.0, 2.0, 4.0, 5.0, 6.0])
    gains = Actuators.from_values(5, gear_ratio=locked.actuators.gear_ratio, drive_gain=7.0)
    control = replace(locked.controller, kp=10.0 * locked.controller.kp)
    back = locked.with_actuators(gains).with_controller(control).unlocked()
    np.testing.assert_array_equal(back.actuators.drive_gain, [7.0, 7.0, 2.0, 7.0, 7.0, 7.0])
    np.testing.assert_array_equal(back.controller.kp, [10.0, 20.0, 3.0, 40.0, 50.0, 60.0])


def test_coupled_motors(robot_of):
    whole = robot_of("tx40-coupled")
    with pytest.raises(MismatchError, match="the motor of joint 'joint6' moves 'joint5' too"):
        whole.with_locked_joints({"joint6": 0.0})
    locked = whole.with_locked_joints({"joint5": 0.1, "joint6": 0.2})
    assert locked.layout.coupled == ()
    np.testing.assert_array_equal(locked.unlocked().theta, whole.theta)
    locked = whole.with_locked_joints({"joint1": 0.0})
    assert [prefix for prefix, _ in locked.layout.coupled] == [p for p, _ in whole.layout.coupled]
    np.testing.assert_array_equal(
        locked.theta[locked.layout.coupling], whole.theta[whole.layout.coupling]
    )


def test_sensors_stay_where_their_frames_move(robot_of):
    whole = robot_of(PANDA).with_sensors(
        [
            Encoder(name="q2", joint="panda_joint2", covariance=np.eye(1)),
            Encoder(name="finger", joint="panda_finger_joint1", covariance=np.eye(1)),
            Gyroscope(name="tip", mount=Mount("panda_leftfinger"), covariance=np.eye(3)),
        ]
    )
    locked = whole.with_locked_joints({"*finger*": 0.02})
    assert [sensor.name for sensor in locked.sensors] == ["q2", "tip"]
    assert locked.sensors[1].measurement(locked).link == "panda_link7"
    assert {sensor.name for sensor in locked.unlocked().sensors} == {"q2", "finger", "tip"}
    without = locked.with_sensors(locked.sensors[1:]).unlocked()
    assert {sensor.name for sensor in without.sensors} == {"finger", "tip"}


def test_shapes_of_locked_links_belong_to_the_link_that_carries_them(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    robot = load_robot(path).with_locked_joints({"slide": 0.5})
    hulls = link_hulls(robot, "collision")
    assert set(hulls) == {"upper"}
    assert hulls["upper"].vertices[:, 0].max() == pytest.approx(1.55)  # 1 + 0.5 + half a box
    assert {body.joint for body in hulls.bodies if body.name == "tool"} == {0}


ARM = f"""<robot name="arm"><link name="base"/>
{
    "".join(
        f'''<link name="{name}"><inertial><mass value="1"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>
<collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision></link>'''
        for name in ("upper", "tool")
    )
}
<joint name="turn" type="continuous"><parent link="base"/><child link="upper"/></joint>
<joint name="slide" type="prismatic"><origin xyz="1 0 0"/><parent link="upper"/>
<child link="tool"/><axis xyz="1 0 0"/><limit lower="0" upper="1" effort="1" velocity="1"/></joint>
</robot>"""


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"panda_jiont1": 0.0}, UnknownNameError, "did you mean 'panda_joint1'"),
        ({"*wheel*": None}, UnknownNameError, "may hold"),
        ({"panda_joint1": 45.0}, ShapeError, r"at 45, beyond its limits, -2\.\d+ to 2\.\d+"),
        ({"panda_joint1": np.nan}, ShapeError, "give its position in rad or m"),
        ({"*": None}, MismatchError, "leave one free"),
        ({"panda_joint1": "high"}, ShapeError, "locked at high: give its position in rad or m"),
        ({"panda_joint1": [1.0, 2.0]}, ShapeError, "give its position in rad or m"),
        ({3: 0.0}, UnknownNameError, "unknown joint '3'"),
        (["panda_joint1"], ShapeError, "expected positions by joint name"),
        ("panda_joint1", ShapeError, "expected positions by joint name"),
    ],
)
def test_bad_positions(asked, error, message, robot_of):
    with pytest.raises(error, match=message):
        robot_of(PANDA).with_locked_joints(asked)


def test_locked_joints_are_in_the_provenance(robot_of):
    robot = robot_of(PANDA).with_locked_joints({"*finger*": 0.02})
    assert robot.origin["locked"] == {"panda_finger_joint1": 0.02, "panda_finger_joint2": 0.02}
    assert "panda_finger_joint1 at 0.02 m" in robot.notes[-1]
