"""A robot that is not mounted as its file says, and torques that hold no gravity."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.doctor import examine
from bodysense.robot import inverse_dynamics
from bodysense.robot.mounting import with_gravity


def with_torques(raw, robot, changed, gravity):
    """The recording with the torques that the same motion needs under another gravity."""
    q = raw.joints("q", robot.joint_names)
    still = np.zeros_like(q)
    links = robot.theta.copy()
    links[robot.layout.n_inertial :] = 0.0
    more = inverse_dynamics(with_gravity(robot, gravity), q, still, still, theta=links)
    less = inverse_dynamics(robot, q, still, still, theta=links)
    names = [f"tau.{name}" for name in robot.joint_names]
    torques = raw.joints("tau", robot.joint_names) + more - less
    return changed(raw, {**raw.channels, **dict(zip(names, torques.T, strict=True))})


@pytest.mark.parametrize("name", ["tx40", "rv2sq"])
@pytest.mark.parametrize("gravity", [(9.81, 0.0, 0.0), (0.0, -9.81, 0.0), (0.0, 0.0, 9.81)])
def test_a_robot_on_a_wall_or_a_ceiling_is_one_finding(
    name, gravity, recorded, changed, robot_named
):
    robot = robot_named(name, None)
    raw = with_torques(recorded(name, 6, noise=1e-5), robot, changed, gravity)
    (finding,) = examine(robot, raw).findings
    assert (finding.kind, finding.severity) == ("gravity-direction", "error")
    estimate = [float(x) for x in finding.action.partition("--gravity=")[2].strip("`").split(",")]
    np.testing.assert_allclose(estimate, gravity, atol=0.3)
    # With the mounting that it says, nothing is left.
    assert examine(with_gravity(robot, estimate), raw).findings == ()


@pytest.mark.parametrize("name", ["tx40", "rv2sq"])
def test_torques_without_gravity_are_told(name, recorded, changed, robot_named):
    robot = robot_named(name, None)
    raw = with_torques(recorded(name, 6, noise=1e-5), robot, changed, (0.0, 0.0, 0.0))
    (finding,) = examine(robot, raw).findings
    assert (finding.kind, finding.severity) == ("no-gravity", "error")


def test_a_heavy_load_does_not_turn_gravity(recorded, robot_named):
    assert examine(robot_named("rv2sq", None), recorded("rv2sq", 6, load=9.0)).findings == ()


def test_a_robot_without_weight_in_its_torques_has_no_gravity_to_miss():
    """Joints about the vertical: whatever gravity is, it does not show."""
    from bodysense.excitation import FourierTrajectory
    from bodysense.robot import Robot, suggested_controller
    from bodysense.simulation import rollout

    model = pin.Model()
    for k in range(2):
        placement = pin.SE3(np.eye(3), np.array([0.3 * k, 0.0, 0.0]))
        model.addJoint(k, pin.JointModelRZ(), placement, f"joint{k + 1}")
        body = pin.Inertia(2.0, np.array([0.15, 0.0, 0.0]), 0.02 * np.eye(3))
        model.appendBodyToJoint(k + 1, body, pin.SE3.Identity())
        model.addBodyFrame(f"link{k + 1}", k + 1, pin.SE3.Identity(), model.addJointFrame(k + 1))
    robot = Robot.from_pinocchio(model, coefficients={"Fv": 1.0, "Fc": 1.0})
    motion = FourierTrajectory.for_robot(robot, rng=np.random.default_rng(0), harmonics=8)
    run = rollout(robot, motion, sampling_rate=200.0, controller=suggested_controller(robot))
    assert examine(robot, run.log()).findings == ()
