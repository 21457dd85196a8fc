"""Sensor files: every kind of entry, short forms, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from bodysense.errors import (
    BodysenseError,
    MismatchError,
    RobotFileError,
    ShapeError,
    UnknownNameError,
)
from bodysense.sensors import SENSORS, load_sensors, parse_sensors, sensor_file

EVERYTHING = """
sensors:
  q: {kind: encoder, joint: all, std: 0.001}
  v: {kind: joint_velocity, joint: [panda_joint1, panda_joint2], std: 1e-2}
  still: {kind: joint_acceleration, joint: panda_joint3, constant: 0, std: 0}
  motors: {kind: joint_torque, joint: all, side: drive, std: 2.0}
  gyro: {kind: gyroscope, link: panda_link3, xyz: [0, 0, 0.1], rpy: [0, 0, 1.5], std: 0.01,
         bias_std: 0.02, channels: [g.x, g.y, g.z]}
  acc: {kind: accelerometer, frame: panda_link3, std: [0.1, 0.1, 0.2]}
  alpha: {kind: angular_accelerometer, link: panda_link4, std: 1}
  imu: {kind: orientation, link: panda_link5, covariance: [[2, 1, 0], [1, 2, 0], [0, 0, 1]]}
  ft: {kind: force_torque, joint: panda_joint6, std: 1}
  arm: {kind: force_torque, link: panda_link2, sign: -1, std: 1,
        sub_link: [0.3, 0, 0, 0.01, 0.1, 0, 0.1, 0, 0, 0.1]}
  free: {kind: external_wrench, link: all, constant: 0, std: 0.1}
  hit: {kind: external_wrench, link: panda_link6, std: [1, 1, 1, 0.1, 0.1, 0.1]}
  palm: {kind: skin_patch, link: panda_link7, normal: [0, 0, -1], std: 1}
  skin: {kind: skin_patch, link: panda_link6, std: 1,
         cells: [{normal: [0, 0, -1], xyz: [0, 0, 0]}, {normal: [0, 0.1, -1], xyz: [1, 0, 0]}]}
  push: {kind: directed_contact, link: panda_link5, xyz: [0, 0, 0.2], direction: [1, 0, 0], std: 1}
  weighed: {kind: directed_contact, link: panda_link4, direction: [0, 2, 0], std: 1,
            channels: [scale]}
"""


def table(text: str) -> object:
    return yaml.safe_load(text)["sensors"]


def test_every_kind_can_be_written_down(robot_of, tmp_path: Path):
    robot = robot_of("example:panda")
    path = tmp_path / "sensors.yaml"
    path.write_text(EVERYTHING)
    sensors = {sensor.name: sensor for sensor in load_sensors(path, robot)}
    assert {sensor.kind for sensor in sensors.values()} == set(SENSORS)
    n, links = robot.n_joints, len(robot.link_names)
    assert len(sensors) == n + 2 + 1 + n + 6 + links + 5
    assert sensors["q.panda_joint1"].channels == ("q.panda_joint1",)
    assert sensors["v.panda_joint2"].covariance == pytest.approx(1e-4)
    assert sensors["still"].channels == ()
    assert sensors["motors.panda_joint1"].side == "drive"
    gyro = sensors["gyro"]
    assert gyro.channels == ("g.x", "g.y", "g.z")
    np.testing.assert_array_equal(gyro.bias_sigma, [0.02] * 3)
    np.testing.assert_array_equal(gyro.mount.p, [0, 0, 0.1])
    assert gyro.mount.R[0, 0] == pytest.approx(np.cos(1.5))
    np.testing.assert_allclose(np.diag(sensors["acc"].covariance), [0.01, 0.01, 0.04])
    assert sensors["imu"].covariance[0, 1] == 1.0
    assert sensors["arm"].sign == -1
    assert sensors["arm"].sub_link[0] == 0.3
    np.testing.assert_array_equal(sensors[f"free.{robot.link_names[1]}"].constant, np.zeros(6))
    assert sensors["skin"].points[1, 0] == 1.0
    assert (sensors["push"].size, sensors["weighed"].size) == (5, 6)
    np.testing.assert_array_equal(sensors["weighed"].direction, [0, 1, 0])
    assert robot.with_sensors(sensors.values()).sensors == tuple(sensors.values())


def test_the_file_in_the_documentation_is_yaml():
    text = sensor_file.__doc__.split("\n\n")[1].replace("…", "0, 0, 0, 0, 0")
    assert {entry["kind"] for entry in table(text).values()} <= set(SENSORS)


def test_nothing_is_no_sensor(robot_of, tmp_path: Path):
    robot = robot_of("example:panda")
    assert parse_sensors(None, robot, "file") == ()
    path = tmp_path / "sensors.yaml"
    path.write_text("sensors:\n")
    assert load_sensors(path, robot) == ()


@pytest.mark.parametrize(
    ("entry", "error", "message"),
    [
        ("encoder", RobotFileError, "expected a mapping such as"),
        ("{joint: all, std: 1}", RobotFileError, "kind: it is missing"),
        ("{kind: 3}", RobotFileError, "kind: 3 is not a name"),
        ("{kind: gyro, link: panda_link3}", UnknownNameError, "did you mean 'gyroscope'"),
        ("{kind: encoder, std: 1}", RobotFileError, "joint: it is missing"),
        ("{kind: encoder, joint: 7, std: 1}", RobotFileError, "joint: 7 is not a name"),
        ("{kind: encoder, joint: elbow, std: 1}", UnknownNameError, "unknown joint 'elbow'"),
        ("{kind: encoder, joint: [elbow], std: 1}", UnknownNameError, "unknown joint 'elbow'"),
        ("{kind: encoder, joint: all, std: -1}", ShapeError, "std holds -1: a standard deviation"),
        ("{kind: encoder, joint: all}", RobotFileError, "give either std, one number or 1"),
        ("{kind: encoder, joint: all, std: [1, 2]}", RobotFileError, "std: expected a list of 1"),
        ("{kind: encoder, joint: all, std: .nan}", RobotFileError, "std: expected a finite number"),
        (
            "{kind: encoder, joint: all, std: much}",
            RobotFileError,
            "expected a finite number, got 'much'",
        ),
        ("{kind: encoder, joint: all, link: x, std: 1}", UnknownNameError, "unknown key 'link'"),
        ("{kind: encoder, joint: all, std: 1, channels: [a]}", RobotFileError, "makes several"),
        ("{kind: gyroscope, std: 1}", RobotFileError, "give the link that it is on"),
        ("{kind: gyroscope, link: a, frame: b, std: 1}", RobotFileError, "give the link that"),
        ("{kind: gyroscope, link: panda_link33, std: 1}", UnknownNameError, "did you mean 'panda"),
        ("{kind: gyroscope, link: panda_link0, std: 1}", MismatchError, "part of the ground"),
        ("{kind: gyroscope, link: panda_link3, std: 1, covariance: 1}", RobotFileError, "either"),
        ("{kind: gyroscope, link: panda_link3, covariance: [1]}", RobotFileError, "3 rows of 3"),
        (
            "{kind: gyroscope, link: panda_link3, covariance: [[1, 2, 0], [2, 1, 0], [0, 0, 1]]}",
            ShapeError,
            "not positive",
        ),
        ("{kind: gyroscope, link: panda_link3, std: 1, xyz: [0, 0]}", RobotFileError, "xyz: exp"),
        ("{kind: gyroscope, link: panda_link3, std: 1, bias_std: -1}", ShapeError, "bias_sigma"),
        ("{kind: gyroscope, link: panda_link3, std: 1, channels: x}", RobotFileError, "channels"),
        ("{kind: gyroscope, link: panda_link3, std: 1, channels: [x]}", ShapeError, "3 different"),
        ("{kind: joint_torque, joint: all, std: 1, side: up}", UnknownNameError, "side 'up'"),
        ("{kind: force_torque, std: 1}", ShapeError, "nowhere"),
        ("{kind: force_torque, joint: panda_joint2, xyz: [0, 0, 1], std: 1}", RobotFileError, "li"),
        ("{kind: force_torque, joint: panda_joint2, sign: 3, std: 1}", ShapeError, "sign"),
        ("{kind: force_torque, link: panda_link2, sub_link: 1, std: 1}", RobotFileError, "of 10"),
        ("{kind: external_wrench, link: panda_link2, constant: [0], std: 1}", RobotFileError, "6"),
        ("{kind: skin_patch, link: panda_link2, std: 1}", RobotFileError, "give either a normal"),
        ("{kind: skin_patch, link: panda_link2, std: 1, cells: 3}", RobotFileError, "list of cell"),
        (
            "{kind: skin_patch, link: panda_link2, std: 1, cells: [{normal: [0, 0, 1]}]}",
            RobotFileError,
            "cells, 1, xyz",
        ),
        ("{kind: directed_contact, constant: 0}", UnknownNameError, "unknown key 'constant'"),
        ("{kind: directed_contact, link: panda_link2, std: 1}", RobotFileError, "direction: exp"),
    ],
)
def test_bad_entries_are_named(entry, error, message, robot_of):
    robot = robot_of("example:panda")
    with pytest.raises(BodysenseError) as caught:
        parse_sensors(table(f"sensors: {{bad: {entry}}}"), robot, "my.yaml, sensors")
    assert type(caught.value) is error
    assert "my.yaml, sensors, bad" in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("bad", ["[1, 2]", "encoders", "3"])
def test_a_section_that_is_no_mapping(bad, robot_of):
    with pytest.raises(RobotFileError, match=r"here: expected a mapping from name to sensor"):
        parse_sensors(table(f"sensors: {bad}"), robot_of("example:panda"), "here")


def test_names_that_meet(robot_of):
    text = """
sensors:
  q: {kind: encoder, joint: all, std: 1}
  q.panda_joint1: {kind: encoder, joint: panda_joint1, std: 1}
"""
    with pytest.raises(RobotFileError, match=r"there is a 'q\.panda_joint1' already"):
        parse_sensors(table(text), robot_of("example:panda"), "here")


def test_other_sections_are_refused(robot_of, tmp_path: Path):
    path = tmp_path / "sensors.yaml"
    path.write_text("sensor: {}\n")
    with pytest.raises(UnknownNameError, match=r"unknown key 'sensor'.*sensors\.yaml"):
        load_sensors(path, robot_of("example:panda"))
