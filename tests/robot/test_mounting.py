"""A robot under another gravity is the robot whose base is turned."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import MismatchError, RobotFileError, ShapeError, UnknownNameError
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.robot import (
    Robot,
    forward_dynamics,
    gravity_of_mount,
    inverse_dynamics,
    load_robot,
    torque_regressor,
    with_gravity,
    write_actuators,
    write_mjcf,
    write_urdf,
)
from bodysense.robot.io.actuator_file import with_actuator_file
from bodysense.robot.mounting import GRAVITY, MOUNTS, gravity_notes

ANGLES = [*MOUNTS.values(), (0.3, -0.4, 1.2), (-2.0, 0.1, 0.5)]
NAMED = {"floor": [0, 0, -9.81], "wall": [9.81, 0, 0], "ceiling": [0, 0, 9.81]}


def turned(robot: Robot, rpy: tuple[float, float, float]) -> pin.Model:
    """The model with its base turned in the world, under usual gravity."""
    model = robot.model.copy()
    R = pin.rpy.rpyToMatrix(*rpy)
    for i in range(1, model.njoints):
        if model.parents[i] == 0:
            model.jointPlacements[i] = pin.SE3(R, np.zeros(3)) * model.jointPlacements[i]
    model.gravity.linear = np.array([0.0, 0.0, -GRAVITY])
    return model


@pytest.mark.parametrize("rpy", ANGLES)
def test_torques_are_those_of_the_turned_robot(rpy, robot_of, states_of, rng):
    robot = with_gravity(robot_of("example:ur5"), mount=rpy)
    model = turned(robot, rpy)
    q, v, a = states_of(robot, rng, 4)
    friction = inverse_dynamics(robot, q, v, a) - inverse_dynamics(
        robot.with_parameters(np.r_[robot.theta[: robot.layout.n_inertial], np.zeros(18)]), q, v, a
    )
    tau = inverse_dynamics(robot, q, v, a)
    for k in range(4):
        expected = pin.rnea(model, model.createData(), q[k], v[k], a[k]) + friction[k]
        rounding = 1e-10 * np.abs(expected).max()
        np.testing.assert_allclose(tau[k], expected, atol=rounding)
        Y = torque_regressor(robot, q[k : k + 1], v[k : k + 1], a[k : k + 1])
        np.testing.assert_allclose(Y[0] @ robot.theta, expected, atol=rounding)
    np.testing.assert_allclose(forward_dynamics(robot, q, v, tau), a, atol=1e-7 * np.abs(a).max())
    np.testing.assert_allclose(
        BodyTree.of(robot).root_acceleration(None)[:3], -robot.model.gravity.linear
    )


@pytest.mark.parametrize(("mount", "gravity"), NAMED.items())
def test_named_mounts(mount, gravity):
    np.testing.assert_array_equal(gravity_of_mount(mount), gravity)
    moon = np.array(gravity) / 9.81 * 1.62
    np.testing.assert_allclose(gravity_of_mount(MOUNTS[mount], 1.62), moon)


def test_a_weightless_robot_is_not_mounted(robot_of):
    weightless = with_gravity(robot_of("tx40"), np.zeros(3))
    with pytest.raises(MismatchError, match="weightless, whichever way"):
        with_gravity(weightless, mount="wall")


def test_a_new_urdf_file_says_that_its_base_is_turned(robot_of):
    (note,) = gravity_notes(with_gravity(robot_of("tx40"), mount="ceiling"))
    assert "load it without --mount and --gravity" in note
    assert gravity_notes(robot_of("tx40")) == ()


def test_the_size_of_gravity_stays(robot_of):
    moon = with_gravity(robot_of("tx40"), [0.0, 0.0, -1.62])
    np.testing.assert_allclose(with_gravity(moon, mount="wall").model.gravity.linear, [1.62, 0, 0])
    weightless = with_gravity(robot_of("tx40"), np.zeros(3))
    assert not weightless.tree.gravity.any()
    assert robot_of("tx40").model.gravity.linear[2] == -9.81


def test_locked_joints_stay_locked(robot_of):
    robot = with_gravity(
        robot_of("example:panda").with_locked_joints({"*finger*": 0.02}), mount="wall"
    )
    assert robot.n_joints == 7
    np.testing.assert_array_equal(robot.unlocked().model.gravity.linear, NAMED["wall"])


@pytest.mark.parametrize(
    ("lines", "gravity"),
    [
        ("mount: ceiling", NAMED["ceiling"]),
        ("mount: [0, 1.5707963267948966, 0]", NAMED["wall"]),
        ("gravity: [0, 9.8, 0.5]", [0, 9.8, 0.5]),
    ],
)
@pytest.mark.parametrize("name", ["example:ur5", "tx40"])
def test_the_actuator_file_says_it(name, lines, gravity, tmp_path):
    path = tmp_path / "mount.yaml"
    path.write_text(lines)
    robot = load_robot(name, actuators=path)
    np.testing.assert_allclose(robot.model.gravity.linear, gravity, atol=1e-15)


def test_a_mount_that_means_nothing_is_refused_in_a_file_too(tmp_path, robot_of):
    path = tmp_path / "mount.yaml"
    path.write_text("mount: wall")
    with pytest.raises(RobotFileError, match="floats, so that it is not mounted"):
        load_robot("example:talos", actuators=path)
    weightless = with_gravity(robot_of("example:ur5"), np.zeros(3))
    with pytest.raises(RobotFileError, match="weightless, whichever way"):
        with_actuator_file(weightless, path)


def test_a_dh_file_says_it_too(tmp_path):
    text = Path(load_robot("rv2sq").source.path).read_text()
    path = tmp_path / "rv2sq.yaml"
    path.write_text(text.replace("actuators:", "actuators:\n  mount: wall"))
    np.testing.assert_array_equal(load_robot(path).model.gravity.linear, NAMED["wall"])


def test_files_of_a_mounted_robot(tmp_path, robot_of, states_of, rng):
    robot = with_gravity(robot_of("example:ur5"), mount=(0.3, -0.4, 1.2))
    write_urdf(robot, tmp_path / "ur5.urdf")
    write_actuators(robot, tmp_path / "ur5.yaml")
    write_mjcf(robot, tmp_path / "ur5.xml")
    assert (tmp_path / "ur5.urdf").read_bytes() == robot.source.data
    motion = states_of(robot, rng, 3)
    expected = inverse_dynamics(robot, *motion)
    for back in (
        load_robot(tmp_path / "ur5.urdf", actuators=tmp_path / "ur5.yaml"),
        load_robot(tmp_path / "ur5.xml"),
    ):
        np.testing.assert_allclose(inverse_dynamics(back, *motion), expected, atol=1e-8)
    # A new URDF file is turned instead, so that its actuator file must not say it again.
    robot = with_gravity(robot_of("rv2sq"), mount="wall")
    write_urdf(robot, tmp_path / "new.urdf")
    write_actuators(robot, tmp_path / "new.yaml")
    back = load_robot(tmp_path / "new.urdf", actuators=tmp_path / "new.yaml")
    motion = states_of(robot, rng, 3)
    np.testing.assert_allclose(
        inverse_dynamics(back, *motion), inverse_dynamics(robot, *motion), atol=1e-9
    )


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, MismatchError, "one of them"),
        ({"gravity": [0, 0, -9.81], "mount": "wall"}, MismatchError, "one of them"),
        ({"mount": "roof"}, UnknownNameError, "unknown mount 'roof'"),
        ({"gravity": [1.0, 0.0, 0.0]}, ShapeError, "size is 1; give it in m/s²"),
        ({"gravity": [0.0, 0.0, -981.0]}, ShapeError, "size is 981"),
        ({"gravity": [0.0, math.nan, 0.0]}, ShapeError, "gravity"),
        ({"gravity": [[0], [0, 1]]}, ShapeError, "gravity must be an array of numbers"),
        ({"gravity": "down"}, ShapeError, "gravity must be an array of numbers"),
        ({"mount": [0.0, 1.0]}, ShapeError, "mount"),
    ],
)
def test_bad_gravity(given, error, message, robot_of):
    with pytest.raises(error, match=message):
        with_gravity(robot_of("tx40"), **given)


def test_a_floating_base_is_not_mounted(robot_of):
    with pytest.raises(MismatchError, match="floats, so that it is not mounted"):
        with_gravity(robot_of("floating"), mount="wall")
    assert with_gravity(robot_of("floating"), [9.81, 0, 0]).floating_base


@pytest.mark.parametrize(
    ("lines", "error", "message"),
    [
        ("mount: wall\ngravity: [0, 0, 9.81]", RobotFileError, "exclude each other"),
        ("mount: roof", UnknownNameError, "roof"),
        ("mount: [1, 2]", RobotFileError, "mount: expected a list of 3 numbers"),
        ("gravity: [0, 0, 1]", RobotFileError, "mount.yaml, gravity: its size is 1"),
    ],
)
def test_bad_files(lines, error, message, tmp_path):
    path = tmp_path / "mount.yaml"
    path.write_text(lines)
    with pytest.raises(error, match=message):
        load_robot("example:ur5", actuators=path)
