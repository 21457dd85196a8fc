"""What each joint carries, against Pinocchio's mass of subtrees."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.errors import (
    InconsistentInertiaError,
    MismatchError,
    ShapeError,
    UnknownNameError,
)
from bodysense.robot import Robot, inverse_dynamics, load_robot
from bodysense.robot.frames import carried_mass, with_payload
from bodysense.spatial import exp_so3, random_pi
from bodysense.spatial.pseudo_inertia import inertia_at_com

ZERO = np.zeros((3, 3))
H_6 = (0.0, 0.0, 0.0084)  # first moment of the TX40's last link


def by_pinocchio(robot: Robot, frame_name: str, body: pin.Inertia) -> pin.Model:
    """The robot's model with the body appended by Pinocchio itself."""
    model = robot.model.copy()
    frame = model.frames[model.getFrameId(frame_name, pin.FrameType.BODY)]
    model.appendBodyToJoint(frame.parentJoint, body, frame.placement)
    return model


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("example:ur10", "tool0"),  # a fixed frame off the last link
        ("example:ur10", "forearm_link"),
        ("branched", "link3"),
        ("floating", "link1"),  # the base itself
    ],
)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_payload_is_the_body_that_pinocchio_appends(name, link, seed, robot_of):
    rng = np.random.default_rng(seed)
    robot = robot_of(name)
    pi = random_pi(rng, 1)[0]
    com, inertia = pi[1:4] / pi[0], inertia_at_com(pi)
    loaded = with_payload(robot, pi[0], link=link, com=com, inertia=inertia)
    model = by_pinocchio(robot, link, pin.Inertia(pi[0], com, inertia))
    for mine, theirs in zip(loaded.model.inertias, model.inertias, strict=True):
        np.testing.assert_allclose(
            mine.toDynamicParameters(), theirs.toDynamicParameters(), atol=1e-10
        )


def test_torques_are_those_of_the_loaded_model(robot_of, states_of, rng):
    robot = robot_of("example:ur10")
    loaded = with_payload(robot, 2.8, link="tool0", com=(0.01, -0.02, 0.05))
    q, v, a = states_of(robot, rng, 20)
    model = by_pinocchio(robot, "tool0", pin.Inertia(2.8, np.array([0.01, -0.02, 0.05]), ZERO))
    data = model.createData()
    rigid = np.array([pin.rnea(model, data, *state) for state in zip(q, v, a, strict=True)])
    before = inverse_dynamics(robot, q, v, a)
    plain = robot.model.createData()
    unloaded = np.array(
        [pin.rnea(robot.model, plain, *state) for state in zip(q, v, a, strict=True)]
    )
    added = inverse_dynamics(loaded, q, v, a) - before
    np.testing.assert_allclose(added, rigid - unloaded, atol=1e-10)


def test_a_frame_that_turns_is_heeded():
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelRZ(), pin.SE3.Identity(), "hinge")
    model.appendBodyToJoint(joint, pin.Inertia(1.0, np.zeros(3), np.eye(3)), pin.SE3.Identity())
    placement = pin.SE3(exp_so3([0.0, 0.0, np.pi / 2]), np.array([1.0, 0.0, 0.0]))
    model.addFrame(pin.Frame("flange", joint, 0, placement, pin.FrameType.OP_FRAME))
    loaded = with_payload(Robot.from_pinocchio(model), 2.0, link="flange", com=(0.5, 0.0, 0.0))
    # The flange's x axis is the link's y axis: the mass sits at (1, 0.5, 0).
    np.testing.assert_allclose(loaded.pi(0)[:4], [3.0, 2.0, 1.0, 0.0], atol=1e-12)
    assert loaded.pi(0)[9] == pytest.approx(1.0 + 2.0 * (1.0**2 + 0.5**2))


def test_by_default_the_last_link_holds_it_and_nothing_else_changes():
    robot = load_robot("tx40")
    loaded = with_payload(robot, 2.0, com=(0.0, 0.0, 0.1))
    changed = np.flatnonzero(loaded.theta != robot.theta)
    assert [robot.layout.names[k] for k in changed] == ["M6", "MZ6", "XX6", "YY6"]
    assert loaded.parameter("M6") == pytest.approx(2.2)
    assert loaded.parameter("XX6") == pytest.approx(robot.parameter("XX6") + 2.0 * 0.1**2)
    assert loaded.controller is robot.controller


@given(
    mass=st.floats(1e-6, 1e6),
    com=st.tuples(*[st.floats(-100.0, 100.0)] * 3),
)
def test_every_point_mass_can_be_held(mass, com, robot_of):
    pi = with_payload(robot_of("tx40"), mass, com=com).pi("link6")
    assert pi[0] == 0.2 + mass
    np.testing.assert_allclose(pi[1:4], np.add(H_6, np.array(com) * mass), atol=1e-15)


def test_two_payloads_add_up():
    robot = load_robot("tx40")
    twice = with_payload(with_payload(robot, 1.0, com=(0.1, 0, 0)), 1.0, com=(0.1, 0, 0))
    np.testing.assert_allclose(twice.theta, with_payload(robot, 2.0, com=(0.1, 0, 0)).theta)


def test_a_link_without_mass_may_hold_one(random_model, rng):
    model = random_model(rng, 2)
    model.inertias[2] = pin.Inertia.Zero()
    robot = Robot.from_pinocchio(model)
    assert with_payload(robot, 0.5).pi(1)[0] == 0.5


@pytest.mark.parametrize("mass", [0.0, -1.0, np.nan, np.inf])
def test_a_mass_that_is_none(mass):
    with pytest.raises(ShapeError, match="mass of the payload is"):
        with_payload(load_robot("tx40"), mass)


def test_an_unknown_link():
    with pytest.raises(UnknownNameError, match=r"unknown link or frame 'link7'.*'link6'"):
        with_payload(load_robot("tx40"), 1.0, link="link7")


def test_a_frame_on_the_ground(robot_of):
    with pytest.raises(MismatchError, match="'base_link' of 'ur10' is part of the ground"):
        with_payload(robot_of("example:ur10"), 1.0, link="base_link")


def test_a_robot_with_several_last_links(robot_of):
    with pytest.raises(MismatchError, match=r"ends in 2 links \(panda_leftfinger, panda_right"):
        with_payload(robot_of("example:panda"), 1.0)


def test_a_body_that_cannot_exist():
    with pytest.raises(InconsistentInertiaError, match="the payload is not physically consistent"):
        with_payload(load_robot("tx40"), 1.0, inertia=np.diag([1.0, 1.0, 3.0]))


def test_a_centre_with_two_coordinates():
    with pytest.raises(ShapeError, match="com"):
        with_payload(load_robot("tx40"), 1.0, com=(0.0, 0.1))


@pytest.mark.parametrize("name", ["tx40", "example:panda", "example:talos"])
def test_carried_mass_is_the_mass_of_the_subtree(name):
    robot = load_robot(name)
    data = robot.model.createData()
    pin.computeSubtreeMasses(robot.model, data)
    first = robot.model.njoints - robot.n_joints
    np.testing.assert_allclose(carried_mass(robot), list(data.mass)[first:], rtol=1e-12)
