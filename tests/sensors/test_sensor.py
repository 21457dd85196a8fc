"""What all sensors have: covariances, biases, channels, constants, a robot that carries them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.robot import Actuators, Robot, load_robot, suggested_controller
from bodysense.robot.io.actuator_file import with_actuator_file
from bodysense.sensors import (
    SENSORS,
    DirectedContact,
    Encoder,
    ExternalWrench,
    Gyroscope,
    JointTorque,
    Measurement,
    Mount,
    Orientation,
    SkinPatch,
    variances,
)

HAND = Mount("panda_link7")


def gyro(name: str = "gyro", **settings: object) -> Gyroscope:
    return Gyroscope(**{"name": name, "covariance": np.eye(3), "mount": HAND, **settings})


@pytest.mark.parametrize("kind", SENSORS)
def test_every_kind_is_complete(kind, robot_of, sensor_of, rng):
    robot = robot_of("serial")
    cls = SENSORS[kind]
    assert cls.kind == kind
    assert len(cls.units) == len(cls.components)
    sensor = sensor_of(kind, rng, robot.link_names[3], robot.joint_names[3])
    m = sensor.measurement(robot)
    assert isinstance(m, Measurement)
    assert m.size == sensor.size == sensor.covariance.shape[0]
    assert (m.link is None) != (m.joint is None) or kind == "force_torque"
    assert len(sensor.channel_units(robot)) == len(sensor.channels)
    values = rng.normal(size=(4, len(sensor.channels)))
    assert sensor.reading(values).shape[0] == 4
    assert len(sensor.rows) == sensor.size
    assert sensor.place
    assert kind in sensor.who
    assert repr(sensor).startswith(f"<{cls.__name__} '{kind}': ")


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        (np.eye(2), r"covariance of sensor 'gyro' \(gyroscope\) has shape \(2, 2\).*variances"),
        (np.ones(3), "has shape"),
        (np.diag([1, np.nan, 1]), "holds nan"),
        (np.diag([1, np.inf, 1]), "leave out a sensor without information"),
        (np.diag([1, -1e-3, 1]), "not positive: its least eigenvalue is -0.001"),
        ([[1, 2, 0], [2, 1, 0], [0, 0, 1]], "not positive.*no correlation exceeds 1"),
        ([[1, 0.1, 0], [0, 1, 0], [0, 0, 1]], "not symmetric"),
        ("loud", "matrix of numbers"),
    ],
)
def test_covariances_that_cannot_be(covariance, message):
    with pytest.raises(ShapeError, match=message):
        gyro(covariance=covariance)


def test_exact_and_correlated_readings_are_fine(rng):
    assert not gyro(covariance=np.zeros((3, 3))).covariance.any()
    factor = rng.normal(size=(3, 1))
    singular = gyro(covariance=factor @ factor.T).covariance
    np.testing.assert_array_equal(singular, singular.T)
    with pytest.raises(ValueError, match="read-only"):
        singular[0, 0] = 1.0


def test_variances_of_deviations():
    np.testing.assert_allclose(variances(0.1, 2), 0.01 * np.eye(2))
    np.testing.assert_allclose(variances([1, 2, 0], 3), np.diag([1, 4, 0]))
    for bad in (-1.0, [1, 2], np.nan, "much"):
        with pytest.raises(ShapeError, match="std"):
            variances(bad, 3)


def test_biases():
    assert gyro().bias_sigma is None
    np.testing.assert_array_equal(gyro(bias_sigma=0.1).bias_sigma, [0.1] * 3)
    np.testing.assert_array_equal(gyro(bias_sigma=[1, 0, 2]).bias_sigma, [1, 0, 2])
    for bad in (-1.0, [1, 2], np.inf):
        with pytest.raises(ShapeError, match="bias_sigma of sensor 'gyro'"):
            gyro(bias_sigma=bad)


def test_channels_are_those_of_logs(robot_of):
    robot = robot_of("serial")
    assert gyro("imu").channels == ("imu.x", "imu.y", "imu.z")
    assert gyro(channels=("a", "b", "c")).channels == ("a", "b", "c")
    slides = robot.joint_types.index("prismatic")
    turns = robot.joint_types.index("revolute")
    for kind, start, units in (
        ("encoder", "q", ("rad", "m")),
        ("joint_velocity", "v", ("rad/s", "m/s")),
        ("joint_acceleration", "a", ("rad/s²", "m/s²")),
        ("joint_torque", "tau", ("N·m", "N")),
    ):
        for j, unit in zip((turns, slides), units, strict=True):
            joint = robot.joint_names[j]
            sensor = SENSORS[kind](name="s", covariance=np.eye(1), joint=joint)
            assert sensor.channels == (f"{start}.{joint}",)
            assert sensor.channel_units(robot) == (unit,)
    skin = SkinPatch(name="palm", covariance=np.eye(1), mount=HAND, normals=[[0, 0, 1]])
    assert skin.channels == ("palm",)
    quaternion = Orientation(name="imu", covariance=np.eye(3), mount=HAND)
    assert quaternion.channels == ("imu.x", "imu.y", "imu.z", "imu.w")


@pytest.mark.parametrize("channels", [("a", "b"), ("a", "b", "b")])
def test_channels_that_do_not_fit(channels):
    with pytest.raises(ShapeError, match=r"are a, b.*give 3 different ones \(x, y, z\)"):
        gyro(channels=channels)


def test_constants_stand_in_for_channels(robot_of, rng):
    free = ExternalWrench(name="free", covariance=np.eye(6), mount=HAND, constant=np.zeros(6))
    assert free.channels == free.channel_units(robot_of("example:panda")) == ()
    np.testing.assert_array_equal(free.reading(np.zeros((5, 0))), np.zeros((5, 6)))
    flat = gyro(constant=[0.0, 0.0, np.nan])  # turns about z alone, which is measured
    assert flat.channels == ("gyro.z",)
    yaw = np.array([[0.5], [np.nan]])
    np.testing.assert_array_equal(flat.reading(yaw), [[0, 0, 0.5], [0, 0, np.nan]])
    contact = DirectedContact(
        name="push", covariance=np.eye(6), mount=HAND, direction=[0, 0, 1], channels=("force",)
    )
    np.testing.assert_array_equal(contact.reading([7.0]), [0, 0, 0, 0, 0, 7])
    assert contact.channel_units(robot_of("example:panda")) == ("N",)
    with pytest.raises(ShapeError, match=r"constant reading of sensor 'gyro'.*3 numbers"):
        gyro(constant=[0.0])
    with pytest.raises(ShapeError, match=r"'q' .* no unit quaternion"):
        Orientation(name="q", covariance=np.eye(3), mount=HAND, constant=np.zeros(4))
    with pytest.raises(ShapeError, match="give none, for its readings are constant"):
        gyro(constant=np.zeros(3), channels=("a",))
    with pytest.raises(ShapeError, match=r"shape \(4,\).*its 3 channels \(gyro\.x"):
        gyro().reading(rng.normal(size=4))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: gyro(" "), "give it a name"),
        (lambda: Mount("hand", 2 * np.eye(3)), "R of the mount in 'hand' is not a rotation"),
        (lambda: Mount.from_xyz_rpy("hand", [0, 0]), "xyz"),
        (lambda: Mount("hand", p=[0, 0, np.nan]), "p of the mount"),
        (
            lambda: SkinPatch(name="s", covariance=[[1]], mount=HAND, normals=np.zeros((1, 3))),
            "normal 1 .* has no length",
        ),
        (
            lambda: SkinPatch(name="s", covariance=[[1]], mount=HAND, normals=np.zeros((0, 3))),
            "at least one cell",
        ),
        (
            lambda: SkinPatch(name="s", covariance=[[1]], mount=HAND, normals=np.eye(3)[[0, 0, 1]]),
            "split it into flatter",
        ),
        (
            lambda: SkinPatch(
                name="s", covariance=[[1]], mount=HAND, normals=[[1, 0, 0], [-1, 0, 0]]
            ),
            "split it into flatter",
        ),
        (
            lambda: DirectedContact(
                name="c", covariance=np.eye(5), mount=HAND, direction=np.zeros(3)
            ),
            "direction of sensor 'c' .* no length",
        ),
    ],
)
def test_settings_that_cannot_be(build, message):
    with pytest.raises(ShapeError, match=message):
        build()


def test_a_side_that_does_not_exist():
    with pytest.raises(UnknownNameError, match=r"unknown side 'motor'.*joint, drive"):
        JointTorque(name="t", covariance=np.eye(1), joint="j", side="motor")


# -- on a robot ----------------------------------------------------------------------------


def test_a_robot_keeps_its_sensors_through_every_change(tmp_path: Path):
    bare = load_robot("tx40")
    robot = bare.with_sensors(
        Encoder(name=f"e.{joint}", covariance=np.eye(1), joint=joint) for joint in bare.joint_names
    )
    assert len(robot.sensors) == 6
    drives = tmp_path / "drives.yaml"
    drives.write_text("gear_ratio: 2\n")
    for changed in (
        robot.with_parameters(1.1 * robot.theta),
        robot.with_friction("stribeck"),
        robot.with_actuators(Actuators.from_values(robot.n_joints, gear_ratio=3.0)),
        robot.with_link(0, mass=3.0),
        with_actuator_file(robot, drives),
        robot.with_controller(suggested_controller(robot)),
    ):
        assert isinstance(changed, Robot)
        assert changed.sensors == robot.sensors
    assert robot.with_sensors([]).sensors == ()
    assert bare.sensors == ()


def test_a_robot_takes_only_sensors_that_fit(robot_of):
    robot = robot_of("example:panda")
    with pytest.raises(MismatchError, match=r"named 'imu'.*rename one"):
        robot.with_sensors([gyro("imu"), gyro("imu")])
    with pytest.raises(UnknownNameError, match="nowhere"):
        robot.with_sensors([gyro(mount=Mount("nowhere"))])
    with pytest.raises(ShapeError, match="'imu' is not a sensor"):
        robot.with_sensors(["imu"])
