from __future__ import annotations

import dataclasses

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import (
    InconsistentInertiaError,
    RobotFileError,
    ShapeError,
    UnknownNameError,
    UnsupportedJointError,
)
from bodysense.robot import Actuators, Controller, Friction, Robot, inverse_dynamics
from bodysense.robot.frames import sample_poses
from bodysense.robot.locking import can_be_locked_at


@pytest.fixture
def model(random_model) -> pin.Model:
    return random_model(np.random.default_rng(5), 4)


# -- from Pinocchio --------------------------------------------------------------------------


def test_from_pinocchio(model):
    before = model.saveToString()
    robot = Robot.from_pinocchio(model, coefficients={"Fv": [1, 2, 3, 4], "Fc": 0.5})
    assert model.saveToString() == before
    assert robot.name == "random-4"
    assert robot.joint_names == ("joint1", "joint2", "joint3", "joint4")
    assert robot.link_names == ("link1", "link2", "link3", "link4")
    assert (robot.nq, robot.nv, robot.n_joints) == (4, 4, 4)
    assert not robot.floating_base
    assert robot.friction.model.name == "coulomb"
    for k in range(4):
        np.testing.assert_array_equal(robot.pi(k), model.inertias[k + 1].toDynamicParameters())
        np.testing.assert_array_equal(robot.pi(f"link{k + 1}"), robot.pi(k))
    np.testing.assert_array_equal(robot.theta[robot.layout.rotor], model.armature)
    np.testing.assert_array_equal(robot.theta[robot.layout.friction("Fv")], [1, 2, 3, 4])
    np.testing.assert_array_equal(robot.theta[robot.layout.friction("Fc")], [0.5] * 4)
    assert robot.parameter("M3") == model.inertias[3].mass
    assert robot.controller is robot.source is None
    assert robot.notes == ()


def test_rotor_inertia_is_the_models_armature_unless_given(model):
    robot = Robot.from_pinocchio(model, coefficients={"Ia": 0.25})
    np.testing.assert_array_equal(robot.theta[robot.layout.rotor], [0.25] * 4)
    np.testing.assert_array_equal(robot.model.armature, [0.25] * 4)


def test_floating_robot(robot_of):
    robot = robot_of("floating")
    assert robot.floating_base
    assert (robot.nq, robot.nv, robot.n_joints) == (19, 18, 12)
    assert robot.layout.names[0] == "M0"
    assert robot.parameter("M0") == robot.model.inertias[1].mass
    np.testing.assert_array_equal(robot.model.armature[6:], robot.theta[robot.layout.rotor])
    np.testing.assert_array_equal(robot.model.armature[:6], 0.0)
    assert all(limit.shape == (12,) for limit in robot.position_limits)
    assert robot.velocity_limit.shape == robot.effort_limit.shape == (12,)


def test_a_model_without_joints():
    robot = Robot.from_pinocchio(pin.Model())
    assert robot.nq == robot.nv == robot.layout.size == 0


@pytest.mark.parametrize(
    ("error", "message", "given_values"),
    [
        (
            ShapeError,
            "4 joints, but the friction is for 3",
            {"friction": Friction.from_model("none", 3)},
        ),
        (
            ShapeError,
            "4 joints, but the set of actuators is for 5",
            {"actuators": Actuators.from_values(5)},
        ),
        (
            ShapeError,
            r"Fv has shape \(3,\): give one number, or 4",
            {"coefficients": {"Fv": [1] * 3}},
        ),
        (ShapeError, "Fc holds nan", {"coefficients": {"Fc": np.nan}}),
        (UnknownNameError, "unknown coefficient 'Fs': .*Fc", {"coefficients": {"Fs": 1.0}}),
        (UnknownNameError, "unknown coefficient 'Fvm'", {"coefficients": {"Fvm": 1.0}}),
        (ShapeError, r"acceleration_limit has shape \(2,\)", {"acceleration_limit": [1, 2]}),
        (
            ShapeError,
            "4 joints, but the controller is for 6",
            {"controller": Controller.from_gains(6, kp=1, kd=1, rate=100)},
        ),
    ],
)
def test_bad_arguments(error, message, given_values, model):
    with pytest.raises(error, match=message):
        Robot.from_pinocchio(model, **given_values)


def test_bad_models(model):
    model.addJoint(4, pin.JointModelSpherical(), pin.SE3.Identity(), "ball")
    with pytest.raises(UnsupportedJointError, match="'ball' of robot 'random-4' is a Spherical"):
        Robot.from_pinocchio(model)


def test_names_must_be_distinct(random_model, rng):
    model = random_model(rng, 3)
    model.names[2] = "joint1"
    with pytest.raises(RobotFileError, match="joint name 'joint1' occurs twice"):
        Robot.from_pinocchio(model)
    model = random_model(rng, 3)
    model.addJoint(3, pin.JointModelRX(), pin.SE3.Identity(), "link1")  # moves a nameless body
    with pytest.raises(RobotFileError, match="link name 'link1' occurs twice"):
        Robot.from_pinocchio(model)


# -- limits ----------------------------------------------------------------------------------


def test_limits(model):
    huge = np.finfo(float).max
    index = [model.joints[i].idx_q for i in range(1, 5)]
    single = [k for i, k in enumerate(index, start=1) if model.joints[i].nq == 1]
    lower, upper = -np.ones(model.nq), np.full(model.nq, 2.0)
    lower[single[0]], upper[single[0]] = -huge, huge
    model.lowerPositionLimit, model.upperPositionLimit = lower, upper
    model.velocityLimit = np.array([3.0, huge, 0.0, np.inf])
    model.effortLimit = np.array([np.inf, 0.0, 7.0, huge])
    robot = Robot.from_pinocchio(model, acceleration_limit=[1, 2, 3, np.inf])
    lower, upper = robot.position_limits
    for j in range(4):
        free = model.joints[j + 1].nq == 2 or index[j] == single[0]
        assert (lower[j], upper[j]) == ((-np.inf, np.inf) if free else (-1.0, 2.0))
    np.testing.assert_array_equal(robot.velocity_limit, [3, np.inf, np.inf, np.inf])
    np.testing.assert_array_equal(robot.effort_limit, [np.inf, np.inf, 7, np.inf])
    np.testing.assert_array_equal(robot.acceleration_limit, [1, 2, 3, np.inf])
    np.testing.assert_array_equal(Robot.from_pinocchio(model).acceleration_limit, [np.inf] * 4)


def test_a_range_is_known_where_limits_leave_one(robot_of):
    model = robot_of("tx40").model.copy()
    model.lowerPositionLimit = np.array([-1.0, 0.0, 1.0, -np.inf, 0.5, -1.0])
    model.upperPositionLimit = np.array([2.0, 0.0, -1.0, 1.0, 0.5, np.inf])
    robot = dataclasses.replace(robot_of("tx40"), model=model)
    lower, upper = robot.position_range
    np.testing.assert_array_equal(lower, [-1.0, -np.inf, -np.inf, -np.inf, -np.inf, -1.0])
    np.testing.assert_array_equal(upper, [2.0, np.inf, np.inf, 1.0, np.inf, np.inf])
    poses = sample_poses(robot, 200)
    assert (np.ptp(poses, axis=0) > 1.0).all()
    assert can_be_locked_at(robot, 1, 3.0)
    assert not can_be_locked_at(robot, 0, 4.0)


def test_limits_are_copies(robot_of):
    robot = robot_of("tx40")
    robot.position_limits[0][:] = 0.0
    robot.velocity_limit[:] = 0.0
    assert (robot.position_limits[0] < -1.0).all()
    assert (robot.velocity_limit > 1.0).all()


# -- immutability ----------------------------------------------------------------------------


def test_a_robot_cannot_be_changed(robot_of):
    robot = robot_of("tx40")
    with pytest.raises(dataclasses.FrozenInstanceError):
        robot.name = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        robot.theta = np.zeros(78)
    for array in (
        robot.theta,
        robot.pi(0),
        robot.acceleration_limit,
        robot.friction.shape,
        robot.actuators.gear_ratio,
        robot.controller.kp,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_changes_make_a_new_robot(robot_of):
    robot = robot_of("tx40")
    theta, text = robot.theta.copy(), robot.model.saveToString()
    robot.with_parameters(2.0 * theta)
    robot.with_parameter_values({"M1": 1.0})
    robot.with_friction("stribeck", coefficients={"Fs": 1.0})
    robot.with_actuators(Actuators.from_values(6, gear_ratio=3.0), {"Ia": 9.0})
    robot.with_controller(Controller.from_gains(6, kp=1, kd=1, rate=10))
    np.testing.assert_array_equal(robot.theta, theta)
    assert robot.model.saveToString() == text


def test_theta_is_copied(robot_of):
    theta = robot_of("tx40").theta.copy()
    robot = robot_of("tx40").with_parameters(theta)
    theta[:] = 0.0
    assert robot.parameter("M1") == 8.61


# -- other parameters ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tx40-coupled", "floating"])
def test_with_parameters(name, robot_of, rng):
    robot = robot_of(name)
    theta = rng.normal(size=robot.layout.size)  # unphysical, with negative masses
    other = robot.with_parameters(theta)
    np.testing.assert_array_equal(other.theta, theta)
    for k in range(robot.layout.n_links):
        np.testing.assert_allclose(
            other.model.inertias[k + 1].toDynamicParameters(),
            theta[robot.layout.link(k)],
            rtol=0,
            atol=1e-12,
        )
    np.testing.assert_array_equal(
        other.model.armature[other.nv - other.n_joints :], theta[robot.layout.rotor]
    )
    for field in ("name", "layout", "friction", "actuators", "controller", "source", "notes"):
        assert getattr(other, field) is getattr(robot, field)
    np.testing.assert_array_equal(other.acceleration_limit, robot.acceleration_limit)
    back = other.with_parameters(robot.theta)
    np.testing.assert_array_equal(back.theta, robot.theta)


def test_with_parameter_values(robot_of):
    robot = robot_of("tx40")
    other = robot.with_parameter_values({"M6": 0.5, "Fv2": 3})
    expected = robot.theta.copy()
    expected[[robot.layout.index("M6"), robot.layout.index("Fv2")]] = 0.5, 3.0
    np.testing.assert_array_equal(other.theta, expected)
    assert other.model.inertias[6].mass == 0.5
    with pytest.raises(UnknownNameError, match="unknown parameter 'MX7': did you mean 'MX"):
        robot.with_parameter_values({"MX7": 1.0})


def test_massless_links(robot_of):
    robot = robot_of("tx40")
    moments = {"M6": 0.0, "MX6": 0.0, "MY6": 0.0, "MZ6": 0.0, "XY6": 0.01, "XX6": -0.5}
    massless = robot.with_parameter_values(moments)
    inertia = massless.model.inertias[6]
    assert inertia.mass == 0.0
    np.testing.assert_array_equal(
        inertia.inertia, [[-0.5, 0.01, 0], [0.01, 0.00353, 0], [0, 0, 0.000353]]
    )
    np.testing.assert_array_equal(inertia.toDynamicParameters(), massless.pi(5))
    nothing = robot.with_parameters(np.zeros(78))
    assert nothing.model.inertias[1] == pin.Inertia.Zero()
    with pytest.raises(ShapeError, match=r"link 'link6' has no mass but a first moment .*kernels"):
        robot.with_parameter_values({"M6": 0.0})


def test_bad_parameters(robot_of):
    robot = robot_of("tx40")
    with pytest.raises(ShapeError, match=r"theta has shape \(77,\), expected \(78"):
        robot.with_parameters(robot.theta[:-1])
    with pytest.raises(ShapeError, match="theta holds nan"):
        robot.with_parameter_values({"ZZ3": np.nan})
    with pytest.raises(ShapeError, match="theta has shape"):
        robot.with_parameters(robot.theta[None])


# -- other friction and drives ---------------------------------------------------------------


def test_with_friction_keeps_what_is_not_given(robot_of):
    robot = robot_of("tx40-coupled")
    other = robot.with_friction("stribeck-offset", coefficients={"Fs": 1.5, "Fo": range(6)}, vs=0.1)
    layout = other.layout
    assert layout.friction_terms == ("Fv", "Fc", "Fs", "Fo")
    np.testing.assert_array_equal(other.theta[layout.inertial], robot.theta[robot.layout.inertial])
    np.testing.assert_array_equal(other.theta[layout.rotor], robot.theta[robot.layout.rotor])
    for term in ("Fv", "Fc"):
        np.testing.assert_array_equal(
            other.theta[layout.friction(term)], robot.theta[robot.layout.friction(term)]
        )
    np.testing.assert_array_equal(other.theta[layout.friction("Fs")], [1.5] * 6)
    np.testing.assert_array_equal(other.theta[layout.friction("Fo")], range(6))
    assert other.parameter("Fvm6") == 0.8
    assert other.parameter("Fcm6") == 1.6
    np.testing.assert_array_equal(other.friction.shape[:, 1], [0.1] * 6)
    for field in ("name", "actuators", "controller", "source", "notes"):
        assert getattr(other, field) is getattr(robot, field) or field == "name"
    assert other.name == robot.name
    np.testing.assert_array_equal(other.acceleration_limit, robot.acceleration_limit)
    np.testing.assert_array_equal(other.position_limits, robot.position_limits)
    np.testing.assert_array_equal(other.velocity_limit, robot.velocity_limit)
    back = other.with_friction("coulomb", coefficients={})
    assert back.layout == robot.layout
    np.testing.assert_array_equal(back.theta, robot.theta)


def test_with_friction_keeps_the_shape_that_both_laws_have(robot_of):
    widths = np.linspace(0.01, 0.06, 6)
    robot = robot_of("tx40").with_friction("coulomb", width=widths)
    other = robot.with_friction("stribeck", vs=0.3)
    np.testing.assert_array_equal(other.friction.shape[:, 0], widths)
    np.testing.assert_array_equal(other.friction.shape[:, 1:], np.tile([0.3, 2.0], (6, 1)))
    np.testing.assert_array_equal(other.with_friction("coulomb").friction.shape[:, 0], widths)
    assert (other.with_friction("coulomb", width=0.5).friction.shape == 0.5).all()


@pytest.mark.parametrize("name", ["serial", "floating", "example:talos"])
def test_inertias_survive_other_friction_and_drives_to_the_last_bit(name, robot_of, rng):
    robot = robot_of(name)
    theta = rng.normal(size=robot.layout.size)
    theta[0] = 1e-6  # a centre of mass kilometres away
    theta[robot.layout.link(1)] = [-2.0, *rng.normal(size=9)]
    theta[robot.layout.link(2)] = [0.0, 0.0, 0.0, 0.0, *rng.normal(size=6)]
    robot = robot.with_parameters(theta)
    for other in (
        robot.with_friction("none", coefficients={}),
        robot.with_actuators(Actuators.from_values(robot.n_joints, gear_ratio=2.0)),
    ):
        np.testing.assert_array_equal(
            other.theta[: other.layout.rotor.stop], theta[: robot.layout.rotor.stop]
        )
        for k in range(1, robot.model.njoints):
            np.testing.assert_array_equal(
                other.model.inertias[k].matrix(), robot.model.inertias[k].matrix()
            )


def test_with_actuators(robot_of):
    robot = robot_of("tx40")
    coupling = np.eye(6)
    coupling[5, 4] = 1.0
    drives = Actuators.from_values(6, gear_ratio=50.0, coupling=coupling)
    other = robot.with_actuators(drives, {"Fvm": 0.8, "Ia": [1, 2, 3, 4, 5, 6]})
    assert other.actuators is drives
    assert other.layout.names[-2:] == ("Fvm6", "Fcm6")
    assert (other.parameter("Fvm6"), other.parameter("Fcm6")) == (0.8, 0.0)
    np.testing.assert_array_equal(other.theta[other.layout.rotor], [1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(other.model.armature, [1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(
        other.theta[other.layout.friction("Fc")], robot.theta[robot.layout.friction("Fc")]
    )
    # the same couplings keep their values under another friction law or other gears
    geared = other.with_actuators(Actuators.from_values(6, gear_ratio=9.0, coupling=coupling))
    np.testing.assert_array_equal(geared.theta, other.theta)
    back = other.with_actuators(Actuators.from_values(6))
    assert back.layout == robot.layout
    with pytest.raises(ShapeError, match=r"6 joints, but the set of actuators is for 2"):
        robot.with_actuators(Actuators.from_values(2))


def test_bad_friction(robot_of):
    robot = robot_of("tx40")
    with pytest.raises(UnknownNameError, match="unknown friction model 'stribek'"):
        robot.with_friction("stribek", coefficients={})
    with pytest.raises(UnknownNameError, match="unknown coefficient 'Fs'"):
        robot.with_friction("coulomb", coefficients={"Fs": 1.0})
    with pytest.raises(ShapeError, match=r"Fv has shape \(5,\): give one number, or 6"):
        robot.with_friction("coulomb", coefficients={"Fv": np.ones(5)})


def test_with_controller(robot_of):
    controller = Controller.from_gains(6, kp=1, kd=2, rate=100)
    other = robot_of("tx40").with_controller(controller)
    assert other.controller is controller
    np.testing.assert_array_equal(other.theta, robot_of("tx40").theta)
    with pytest.raises(ShapeError, match="6 joints, but the controller is for 2"):
        other.with_controller(Controller.from_gains(2, kp=1, kd=2, rate=100))


# -- physical consistency --------------------------------------------------------------------


def test_impossible_links_are_named(model):
    model.inertias[2] = pin.Inertia(-1.0, np.zeros(3), np.eye(3))
    model.inertias[4] = pin.Inertia(1.0, np.zeros(3), np.diag([1.0, 1.0, 5.0]))
    with pytest.raises(InconsistentInertiaError) as caught:
        Robot.from_pinocchio(model, allow_inconsistent=False)
    message = str(caught.value)
    assert "robot 'random-4': link 'link2': the mass is -1 kg" in message
    assert "link 'link4': " in message
    assert "the triangle inequality fails by 3 kg m^2" in message
    assert "link1" not in message
    assert "leave out allow_inconsistent=False" in message
    robot = Robot.from_pinocchio(model)
    assert [check.consistent for check in robot.consistency()] == [True, False, True, False]
    assert robot.parameter("M2") == -1.0


def test_at_most_five_links_are_named(random_model, rng):
    model = random_model(rng, 8)
    for k in range(1, 9):
        model.inertias[k] = pin.Inertia(-1.0, np.zeros(3), np.eye(3))
    with pytest.raises(InconsistentInertiaError, match=r"'link5': .*; and 3 more\. Correct"):
        Robot.from_pinocchio(model, allow_inconsistent=False)


def test_the_model_and_theta_say_the_same_after_every_change(robot_of, states_of, rng):
    robot = robot_of("serial").with_friction("none", coefficients={})
    robot = robot.with_actuators(Actuators.from_values(12, gear_ratio=5.0), {"Ia": 0.3})
    robot = robot.with_parameter_values({"M3": 4.0, "Ia2": 0.7})
    q, v, a = states_of(robot, rng, 3)
    data = robot.model.createData()
    expected = [pin.rnea(robot.model, data, *state) for state in zip(q, v, a, strict=True)]
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        inverse_dynamics(robot, q, v, a), expected, rtol=0, atol=1e-11 * scale
    )
