"""What each joint carries, against Pinocchio's mass of subtrees."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.robot import load_robot
from bodysense.robot.payload import carried_mass


@pytest.mark.parametrize("name", ["tx40", "example:panda", "example:talos"])
def test_it_is_the_mass_of_the_subtree(name):
    robot = load_robot(name)
    data = robot.model.createData()
    pin.computeSubtreeMasses(robot.model, data)
    first = robot.model.njoints - robot.n_joints
    np.testing.assert_allclose(carried_mass(robot), list(data.mass)[first:], rtol=1e-12)
