"""A load in the words of controllers, against values computed by hand."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import yaml

from bodysense.identification.payload.makers import maker_values, write_maker_files
from bodysense.identification.payload.payload import Payload
from bodysense.robot import load_robot
from bodysense.spatial.pseudo_inertia import pi_from_mass_com_inertia
from bodysense.status import Status

# The flange is turned by a quarter about z against the link, and 0.1 m ahead of it:
# x_flange = y_link, y_flange = -x_link, z_flange = z_link - 0.1.
ROBOT = """<robot name="r"><link name="base"/><link name="last"><inertial><mass value="1"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial></link>
<link name="{flange}"/>
<joint name="j" type="continuous"><parent link="base"/><child link="last"/></joint>
<joint name="f" type="fixed"><origin xyz="0 0 0.1" rpy="0 0 1.5707963267948966"/>
<parent link="last"/><child link="{flange}"/></joint></robot>"""
INERTIA = np.array([[0.03, 0.001, 0.002], [0.001, 0.04, 0.003], [0.002, 0.003, 0.05]])


def load(link: str, inertia: np.ndarray = INERTIA) -> Payload:
    pi = pi_from_mass_com_inertia(2.0, [0.01, 0.02, 0.15], inertia)
    zero = np.zeros((10, 10))
    return Payload(link, pi, zero, zero, 0.02, (), np.zeros(1), (1.0, 1.0), Status())


def robot(tmp_path, flange: str = "tool0"):
    path = tmp_path / "r.urdf"
    path.write_text(ROBOT.format(flange=flange))
    return load_robot(path)


@pytest.mark.parametrize("flange", ["tool0", "fr3_link8"])
def test_values_are_in_the_frame_of_the_flange(flange, tmp_path):
    values = maker_values(load("last"), robot(tmp_path, flange))
    assert values["frame"] == flange
    assert values["mass"] == 2.0
    np.testing.assert_allclose(values["center_of_mass"], [0.02, -0.01, 0.05], atol=1e-9)
    expected = {"ixx": 0.04, "iyy": 0.03, "izz": 0.05, "ixy": -0.001, "ixz": 0.003, "iyz": -0.002}
    assert values["inertia"] == pytest.approx(expected, abs=1e-9)


def test_universal_robots_get_a_line_of_urscript(tmp_path):
    line = maker_values(load("last"), robot(tmp_path))["universal_robots"]["urscript"]
    match = re.fullmatch(r"set_target_payload\(([^,]*), \[([^]]*)\], \[([^]]*)\]\)", line)
    mass, com, inertia = ([float(x) for x in part.split(",")] for part in match.groups())
    np.testing.assert_allclose(mass, [2.0])
    np.testing.assert_allclose(com, [0.02, -0.01, 0.05], atol=1e-7)
    np.testing.assert_allclose(inertia, [0.04, 0.03, 0.05, -0.001, 0.003, -0.002], atol=1e-7)


def test_older_controllers_get_mass_and_centre_alone(tmp_path):
    line = maker_values(load("last"), robot(tmp_path))["universal_robots"]["urscript_older"]
    match = re.fullmatch(r"set_payload\(([^,]*), \[([^]]*)\]\)", line)
    mass, com = ([float(x) for x in part.split(",")] for part in match.groups())
    np.testing.assert_allclose(mass, [2.0])
    np.testing.assert_allclose(com, [0.02, -0.01, 0.05], atol=1e-7)


def test_franka_robots_get_matrices_column_by_column(tmp_path):
    write_maker_files(tmp_path, load("last"), robot(tmp_path, "panda_link8"))
    config = json.loads((tmp_path / "endeffector-config.json").read_text())
    assert config["mass"] == 2.0
    np.testing.assert_allclose(config["centerOfMass"], [0.02, -0.01, 0.05], atol=1e-9)
    I = np.array(config["inertia"]).reshape(3, 3, order="F")
    expected = [[0.04, -0.001, 0.003], [-0.001, 0.03, -0.002], [0.003, -0.002, 0.05]]
    np.testing.assert_allclose(I, expected, atol=1e-9)
    T = np.array(config["transformation"]).reshape(4, 4, order="F")
    np.testing.assert_array_equal(T, np.eye(4))
    assert set(config) >= {"id", "name", "color"}
    assert yaml.safe_load((tmp_path / "payload.yaml").read_text())["frame"] == "panda_link8"


def test_without_a_flange_the_frame_is_that_of_the_load(tmp_path):
    values = maker_values(load("last"), robot(tmp_path, "hand"))
    assert values["frame"] == "last"
    np.testing.assert_allclose(values["center_of_mass"], [0.01, 0.02, 0.15], atol=1e-9)


def test_an_inertia_that_no_body_has_is_left_out(tmp_path):
    values = maker_values(load("last", np.diag([0.01, 0.01, 0.05])), robot(tmp_path))
    assert "inertia" not in values
    assert values["universal_robots"]["urscript"].count("[") == 1
