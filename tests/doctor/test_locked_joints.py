"""Joints that a recording does not have are locked where that is safe, and only there."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import MappingProxyType

import numpy as np
import pytest

from bodysense.doctor import examine, lock_asked, lock_unrecorded
from bodysense.errors import MismatchError, UnknownNameError
from bodysense.logs.log import Log
from bodysense.robot import Robot, load_robot
from bodysense.spatial import Array

ARM = tuple(f"arm_{k}_joint" for k in range(1, 8))


@cache
def panda() -> Robot:
    return load_robot("example:panda")


@cache
def tiago() -> Robot:
    return load_robot("example:tiago", floating_base=False, allow_inconsistent=True)


def log_of(joints: tuple[str, ...], quantities: str = "q tau", **channels: Array) -> Log:
    """A recording in which all of these joints move, but for channels that are given."""
    t = np.arange(0.0, 2.0, 0.01)
    every = {
        f"{x}.{name}": np.sin(t + k) for x in quantities.split() for k, name in enumerate(joints)
    }
    return Log.of(t, every | {name.replace("__", "."): x for name, x in channels.items()})


def without(log: Log, *names: str) -> Log:
    kept = {name: x for name, x in log.channels.items() if name not in names}
    return replace(log, channels=MappingProxyType(kept))


def locked_in(robot: Robot, *logs: Log, **asked: float | None) -> dict[str, float]:
    result = lock_unrecorded(robot, logs, asked)
    return {} if result.locked is None else dict(result.locked.positions)


def test_nothing_is_locked_of_a_robot_that_was_recorded():
    robot = panda()
    assert lock_unrecorded(robot, [log_of(robot.joint_names)]) is robot


def test_a_gripper_without_channels():
    arm = panda().joint_names[:7]
    expected = {"panda_finger_joint1": 0.0, "panda_finger_joint2": 0.0}
    assert locked_in(panda(), log_of(arm)) == expected
    assert locked_in(panda(), log_of(arm), log_of(arm[:6])) == expected  # of the second: a finding


def test_all_but_the_arm_of_a_mobile_manipulator():
    robot = lock_unrecorded(tiago(), [log_of(ARM)])
    assert robot.joint_names == ARM
    assert len(robot.locked.positions) == 41
    assert set(robot.locked.positions) == set(tiago().joint_names) - set(ARM)


@pytest.mark.parametrize("name", ["panda_joint3", "panda_joint7"])
def test_where_a_joint_stands_matters_inside_the_arm_and_not_at_its_end(name):
    log = log_of(tuple(joint for joint in panda().joint_names[:7] if joint != name))
    locked = locked_in(panda(), log)
    assert (name in locked) == (name == "panda_joint7")
    assert "panda_finger_joint1" in locked
    if name == "panda_joint3":
        errors = examine(lock_unrecorded(panda(), [log]), log).of("error")
        (finding,) = [error for error in errors if error.kind == "missing-joint"]
        assert "--lock panda_joint3=POSITION" in finding.action
        assert locked_in(panda(), log, panda_joint3=0.5)["panda_joint3"] == 0.5


def test_a_first_joint_that_turns_gravity_is_not_locked():
    joints = panda().joint_names[:7]
    assert "panda_joint1" in locked_in(panda(), log_of(joints[1:]))  # vertical
    assert "panda_joint1" in locked_in(panda(), log_of(joints[2:]), panda_joint2=0.4)
    assert "panda_joint2" not in locked_in(panda(), log_of(joints[2:]))


def test_a_log_with_joints_of_another_name_is_left_to_the_doctor():
    arm = panda().joint_names[:7]
    log = log_of((*arm, "gripper"))
    assert locked_in(panda(), log) == {}
    assert "gripper" in examine(panda(), log).of("error")[0].message
    assert locked_in(panda(), log_of(("a", "b"))) == {}
    assert set(locked_in(panda(), log, **{"*finger*": 0.01})) == set(panda().joint_names[7:])


def test_a_joint_without_torque_is_locked_where_it_stands(rng):
    joints, n = panda().joint_names, 200
    still = {f"q__{name}": 0.03 + 1e-4 * rng.normal(size=n) for name in joints[7:]}
    log = without(log_of(joints, **still), *(f"tau.{name}" for name in joints[7:]))
    locked = locked_in(panda(), log)
    assert locked == {name: pytest.approx(0.03, abs=1e-4) for name in joints[7:]}
    assert examine(lock_unrecorded(panda(), [log]), log).usable


@pytest.mark.parametrize("position", [20.0, -0.1], ids=["mm", "below"])
def test_a_position_far_beyond_the_limits_is_left_to_the_doctor(position):
    joints = panda().joint_names
    still = {f"q__{name}": np.full(200, position) for name in joints[7:]}
    log = without(log_of(joints, **still), *(f"tau.{name}" for name in joints[7:]))
    assert locked_in(panda(), log) == {}
    assert not examine(lock_unrecorded(panda(), [log]), log).usable


def test_joints_of_coupled_motors_are_left_to_the_doctor():
    robot = load_robot("tx40-coupled")
    assert locked_in(robot, log_of(robot.joint_names[:5])) == {}
    assert set(locked_in(robot, log_of(robot.joint_names[:4]))) == {"joint5", "joint6"}
    still = without(log_of(robot.joint_names, q__joint6=np.full(200, 0.1)), "tau.joint6")
    assert locked_in(robot, still) == {}


def test_a_joint_that_moves_without_torque_is_named_with_what_to_do():
    joints = panda().joint_names
    log = without(log_of(joints), *(f"tau.{name}" for name in joints[7:]))
    assert locked_in(panda(), log) == {}
    (finding,) = [f for f in examine(panda(), log).of("error") if f.kind == "no-torque"]
    assert "--lock panda_finger_joint1=POSITION" in finding.action
    assert set(locked_in(panda(), log, **{"*finger*": 0.02})) == set(joints[7:])


def test_a_log_without_any_torque_locks_nothing():
    assert locked_in(panda(), log_of(panda().joint_names, "q")) == {}


def test_joints_that_are_asked_for_are_locked_where_they_stand():
    joints = panda().joint_names
    log = log_of(joints, q__panda_joint7=np.full(200, 0.7))
    assert locked_in(panda(), log, panda_joint7=None) == {"panda_joint7": 0.7}
    assert lock_asked(panda(), [log], {"panda_joint7": 0.1}).locked.positions == {
        "panda_joint7": 0.1
    }
    with pytest.raises(MismatchError, match=r"moves over 0.98 rad or m .*panda_joint1=0\.\d+"):
        lock_asked(panda(), [log], {"panda_joint1": None})
    with pytest.raises(UnknownNameError, match="unknown joint 'wrist'"):
        lock_asked(panda(), [log], {"wrist": None})
