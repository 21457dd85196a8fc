from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bodysense.errors import (
    InconsistentInertiaError,
    MissingDependencyError,
    RobotFileError,
    UnknownNameError,
)
from bodysense.robot.io import load as load_module
from bodysense.robot.io.load import load_robot

URDF = """<!-- <mujoco> --><?odd <mujoco>?>
<robot name="a"><link name="w"/><link name="l"><inertial><mass value="1"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<joint name="j" type="continuous"><parent link="w"/><child link="l"/></joint></robot>"""

MJCF = """<!-- <robot> --><mujoco><worldbody><body><joint name="j" type="hinge"/>
<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("name", ["tx40", "rv2sq", "tx40-coupled"])
def test_built_in_robots_have_names(name):
    assert load_robot(name).n_joints == 6


def test_example_robots_have_a_prefix():
    robot = load_robot("example:go2")
    assert robot.floating_base
    assert not load_robot("example:go2", floating_base=False).floating_base


@pytest.mark.parametrize("suffix", [".urdf", ".xml", ".URDF", ".mjcf", ""])
def test_the_root_element_decides_for_urdf(suffix, tmp_path: Path):
    path = tmp_path / f"robot{suffix}"
    path.write_text(URDF)
    robot = load_robot(path)
    assert robot.source is not None
    assert robot.source.format == "urdf"
    path.write_bytes(URDF.encode("utf-16"))
    assert load_robot(str(path)).joint_names == ("j",)


@pytest.mark.parametrize("suffix", [".xml", ".mjcf", ".urdf"])
def test_the_root_element_decides_for_mjcf(suffix, tmp_path: Path):
    pytest.importorskip("mujoco")
    path = tmp_path / f"robot{suffix}"
    path.write_text(MJCF)
    robot = load_robot(path)
    assert robot.source is not None
    assert robot.source.format == "mjcf"


def test_options_reach_the_reader(tmp_path: Path):
    path = tmp_path / "robot.urdf"
    path.write_text(URDF)
    path.write_text(URDF.replace('izz="1"', 'izz="9"'))
    with pytest.raises(InconsistentInertiaError, match="link 'l'"):
        load_robot(path, floating_base=True, allow_inconsistent=False)
    robot = load_robot(path, floating_base=True, friction="viscous")
    assert robot.floating_base
    assert robot.friction.model.name == "viscous"


def test_an_actuator_file_is_laid_over_any_robot(tmp_path: Path):
    drives = tmp_path / "drives.yaml"
    drives.write_text("drive_gain: {joint2: 5}\nfriction: {coefficients: {Fv: {joint1: 2}}}\n")
    plain, robot = load_robot("tx40-coupled"), load_robot("tx40-coupled", actuators=drives)
    expected = plain.theta.copy()
    expected[plain.layout.index("Fv1")] = 2.0
    np.testing.assert_array_equal(robot.theta, expected)
    assert robot.layout == plain.layout
    np.testing.assert_array_equal(robot.actuators.gear_ratio, plain.actuators.gear_ratio)
    np.testing.assert_array_equal(robot.actuators.coupling, plain.actuators.coupling)
    assert robot.actuators.drive_gain[1] == 5.0
    assert robot.actuators.drive_gain[0] == plain.actuators.drive_gain[0]
    assert robot.controller is not None
    assert plain.controller is not None
    np.testing.assert_array_equal(robot.controller.kp, plain.controller.kp)
    assert robot.source == plain.source


def test_an_actuator_file_may_change_the_law(tmp_path: Path):
    drives = tmp_path / "drives.yaml"
    drives.write_text("friction: {model: stribeck, shape: {vs: 0.2}}\nacceleration_limit: 3\n")
    plain, robot = load_robot("tx40"), load_robot("tx40", actuators=drives)
    assert robot.layout.friction_terms == ("Fv", "Fc", "Fs")
    np.testing.assert_array_equal(
        robot.theta[robot.layout.friction("Fc")], plain.theta[plain.layout.friction("Fc")]
    )
    assert robot.friction.shape[:, 1].tolist() == [0.2] * 6
    assert robot.acceleration_limit.tolist() == [3.0] * 6


def test_unknown_names_get_suggestions(monkeypatch):
    with pytest.raises(UnknownNameError, match=r"'tx41': did you mean 'tx40'.*\.urdf"):
        load_robot("tx41")
    with pytest.raises(UnknownNameError, match="'talos': did you mean 'example:talos'"):
        load_robot("talos")
    with pytest.raises(UnknownNameError, match=r"unknown robot '': .*tx40"):
        load_robot("")
    with pytest.raises(UnknownNameError, match="unknown example robot 'nothing'"):
        load_robot("example:nothing")


def test_names_are_listed_without_the_package_of_examples(monkeypatch):
    def missing() -> tuple[str, ...]:
        raise MissingDependencyError("not installed")

    monkeypatch.setattr("bodysense.robot.io.load.example_robot_names", missing)
    assert load_module._example_sources() == ()
    with pytest.raises(UnknownNameError, match="did you mean 'tx40'"):
        load_robot("tx41")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.urdf", r"none\.urdf: No such file"),
        ("none.yaml", r"none\.yaml: No such file"),
        ("none.stl", r"no robot file .*none\.stl'.*\.urdf, \.xml"),
        ("folder", "is a folder"),
        ("page.xml", "root element is <html>, expected <robot>"),
        ("text.xml", "root element is missing"),
        ("text.urdf", "line 1, column 1: broken XML"),
    ],
)
def test_files_that_are_no_robots_are_named(name, message, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "page.xml").write_text("<html/>")
    (tmp_path / "text.xml").write_text("hello")
    (tmp_path / "text.urdf").write_text("hello")
    with pytest.raises(RobotFileError, match=message):
        load_robot(tmp_path / name)


def test_a_chain_cannot_float():
    with pytest.raises(RobotFileError, match=r"tx40 is a DH table.*URDF or MJCF"):
        load_robot("tx40", floating_base=True)
