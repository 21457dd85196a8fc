from __future__ import annotations

import json
import math
import re

import numpy as np
import pinocchio as pin
import pytest

from bodysense.robot.inspection import Inspection, inspect_robot
from bodysense.robot.io.load import load_robot


@pytest.fixture(scope="module")
def tx40() -> Inspection:
    return inspect_robot(load_robot("tx40-coupled"))


def test_links_and_joints_are_those_of_the_robot(tx40: Inspection):
    robot = load_robot("tx40-coupled")
    assert tx40.total_mass == pytest.approx(pin.computeTotalMass(robot.model), rel=1e-14)
    assert [link.index for link in tx40.links] == [1, 2, 3, 4, 5, 6]
    for k, link in enumerate(tx40.links, start=1):
        assert link.name == robot.link_names[k - 1]
        assert link.mass == robot.parameter(f"M{k}")
        np.testing.assert_allclose(link.com, robot.model.inertias[k].lever, rtol=0, atol=1e-15)
        assert link.consistent
        assert 0.0 < link.margin <= 1.0
    assert [joint.parent for joint in tx40.joints] == ["world", *robot.link_names[:-1]]
    assert tx40.joints[3].gear_ratio == -48
    assert tx40.joints[4].friction == {"Fv": robot.parameter("Fv5"), "Fc": robot.parameter("Fc5")}
    assert tx40.couplings == (("joint6", "joint5", 1.0),)
    assert tx40.coupling_coefficients == {"Fvm6": 0.8, "Fcm6": 1.6}
    assert tx40.to_dict()["controller_rate"] == 5000


def test_every_parameter_is_told_of_once(tx40: Inspection):
    names = load_robot("tx40-coupled").layout.names
    leading = [expression.split()[0] for expression in tx40.base_values]
    assert sorted([*leading, *tx40.base.regrouped, *tx40.base.unidentifiable]) == sorted(names)
    content = tx40.to_dict()
    counts = [content[f"n_base_{kind}"] for kind in ("inertial", "rotor", "friction")]
    assert sum(counts) == len(content["base"])
    assert content["n_parameters"] == len(names)


def test_values_are_those_of_the_combinations(tx40: Inspection):
    robot = load_robot("tx40-coupled")
    plain = re.compile(r"\w+( [+-] [A-Z]\w*)*")  # all coefficients one
    checked = 0
    for expression, value in tx40.base_values.items():
        if plain.fullmatch(expression):
            words = f"+ {expression}".split()
            signs = [1.0 if sign == "+" else -1.0 for sign in words[::2]]
            terms = [robot.parameter(name) for name in words[1::2]]
            assert value == pytest.approx(np.dot(signs, terms), abs=1e-13)
            checked += 1
    assert checked > 40


def test_a_floating_robot_with_links_that_cannot_exist():
    found = inspect_robot(load_robot("example:romeo_small"))
    assert found.robot.floating_base
    assert found.links[0].index == 0
    assert "RShoulderYawLink" in [link.name for link in found.infeasible]
    assert all(link.reason for link in found.infeasible)
    assert found.joints[0].parent == found.links[0].name
    assert not found.base.unidentifiable
    content = found.to_dict()
    assert content["consistent"] is False


def test_links_without_volume_are_told_apart_from_infeasible_ones():
    found = inspect_robot(load_robot("example:icub"))
    assert not found.infeasible
    assert "r_hip_1" in [link.name for link in found.flat]
    content = found.to_dict()
    assert content["feasible"] is True
    assert content["consistent"] is False


def test_massless_links_have_no_centre_of_mass():
    found = inspect_robot(load_robot("example:human"))
    assert not found.infeasible  # these links carry others: joints with several axes
    massless = found.flat[0]
    assert massless.mass == 0.0
    assert all(math.isnan(value) for value in massless.com)
    links = json.loads(json.dumps(found.to_dict(), allow_nan=False))["links"]
    assert links[massless.index]["com"] == [None, None, None]


def test_a_single_body_has_ten_base_parameters():
    found = inspect_robot(load_robot("example:hector"))
    assert list(found.base.names) == [
        f"{term}0" for term in ("M", "MX", "MY", "MZ", "XX", "XY", "YY", "XZ", "YZ", "ZZ")
    ]
    assert found.joints == ()


def test_the_dictionary_is_finite_json():
    found = inspect_robot(load_robot("example:double_pendulum_continuous"))
    assert {joint.type for joint in found.joints} == {"continuous"}
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert content["joints"][0]["lower"] is None
    assert content["joints"][0]["acceleration"] is None
    assert content["base"][0]["expression"] == found.base.names[0]
    assert content["consistent"] is True
