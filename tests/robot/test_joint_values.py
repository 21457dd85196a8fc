"""Armature and friction as simulators take them."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from bodysense.robot import joint_values, load_robot, write_joint_values, write_mjcf

TERMS = {"Fv": [1.0, 2.0], "Fc": [3.0, 4.0]}


@pytest.fixture
def robot():
    pendulum = load_robot("example:double_pendulum").with_friction("coulomb", coefficients=TERMS)
    return pendulum.with_parameter_values({"Ia1": 0.5, "Ia2": 0.25})


def test_values_are_those_of_the_robot(robot):
    first, second = robot.joint_names
    values = joint_values(robot)
    assert values["mujoco"][first] == {"armature": 0.5, "damping": 1.0, "frictionloss": 3.0}
    assert values["mujoco"][second] == {"armature": 0.25, "damping": 2.0, "frictionloss": 4.0}
    assert values["isaac_lab"] == {
        "joint_names_expr": [first, second],
        "armature": {first: 0.5, second: 0.25},
        "friction": {first: 3.0, second: 4.0},
        "dynamic_friction": {first: 3.0, second: 4.0},
        "viscous_friction": {first: 1.0, second: 2.0},
    }


def test_static_friction_is_that_of_a_stribeck_law(robot):
    law = robot.with_friction("stribeck", coefficients={"Fs": [5.0, 6.0]})
    values = joint_values(law)["isaac_lab"]
    assert list(values["friction"].values()) == [5.0, 6.0]
    assert list(values["dynamic_friction"].values()) == [3.0, 4.0]


def test_what_has_no_place_is_named_and_patterns_are_escaped(robot, tmp_path):
    law = robot.with_friction("coulomb-load", coefficients={**TERMS, "Fl": [0.1, 0.1]})
    text = write_joint_values(law, tmp_path / "joints.yaml").read_text()
    assert "# friction 'coulomb-load': Fl left out" in text
    odd = load_robot("example:panda")
    assert joint_values(odd)["isaac_lab"]["joint_names_expr"] == list(odd.joint_names)


def test_static_friction_is_never_below_the_dynamic_one(robot):
    law = robot.with_friction("stribeck", coefficients={"Fs": [0.2, 6.0]})
    assert list(joint_values(law)["isaac_lab"]["friction"].values()) == [3.0, 6.0]


def test_mujoco_reads_the_same_from_the_file_beside(robot, tmp_path):
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_path(str(write_mjcf(robot, tmp_path / "robot.xml")))
    table = yaml.safe_load(write_joint_values(robot, tmp_path / "joints.yaml").read_text())
    for name, entry in table["mujoco"].items():
        dof = model.joint(name).dofadr[0]
        expected = (model.dof_armature[dof], model.dof_damping[dof], model.dof_frictionloss[dof])
        np.testing.assert_allclose(list(entry.values()), expected, rtol=1e-15)
