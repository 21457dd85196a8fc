from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import ShapeError, TrajectoryError
from bodysense.excitation import FourierTrajectory, HoldTrajectory, MotionLimits
from bodysense.excitation.limits import limit_breaches, limit_uses
from bodysense.robot import Robot


def arm(*, effort=50.0, speed=np.inf, ranges=((-1.0, 2.0), (-np.inf, np.inf))) -> Robot:
    """A planar arm in a vertical plane, with two links of 1 kg at 1 m from their joints."""
    model = pin.Model()
    for k, (lower, upper) in enumerate(ranges):
        placement = pin.SE3(np.eye(3), np.array([1.0 if k else 0.0, 0.0, 0.0]))
        limits = (np.array([x]) for x in (effort, speed, lower, upper))
        joint = model.addJoint(k, pin.JointModelRY(), placement, f"hinge{k + 1}", *limits)
        body = pin.Inertia(1.0, np.array([1.0, 0.0, 0.0]), 0.01 * np.eye(3))
        model.appendBodyToJoint(joint, body, pin.SE3.Identity())
    return Robot.from_pinocchio(model)


def test_what_a_robot_does_not_limit():
    limits = MotionLimits.of(arm(effort=np.inf))
    np.testing.assert_allclose(limits.lower, [-1.0, -np.pi])
    np.testing.assert_allclose(limits.upper, [2.0, np.pi])
    np.testing.assert_allclose(limits.velocity, 2.0)
    np.testing.assert_allclose(limits.acceleration, 10.0)
    assert np.isinf(limits.effort).all()


def test_a_range_that_is_open_on_one_side_is_one_turn():
    limits = MotionLimits.of(arm(ranges=((-np.inf, 1.0), (0.5, np.inf))))
    np.testing.assert_allclose(limits.upper - limits.lower, 2.0 * np.pi)
    assert (limits.upper[0], limits.lower[1]) == (1.0, 0.5)


def test_a_share_of_all_limits():
    limits = MotionLimits.of(arm(speed=3.0), share=0.5, acceleration=[4.0, 6.0])
    np.testing.assert_allclose(limits.lower, [-0.25, -np.pi / 2])
    np.testing.assert_allclose(limits.velocity, 1.5)
    np.testing.assert_allclose(limits.acceleration, [2.0, 3.0])
    np.testing.assert_allclose(limits.effort, 25.0)


def test_uses_of_a_pose_in_closed_form():
    robot = arm()
    # Level, both centres of mass at 1 m and 2 m, and the second one at 1 m of its joint.
    uses = limit_uses(robot, MotionLimits.of(robot), [HoldTrajectory([0.0, 0.0], 0.1)], 100.0)
    found = {(use.quantity, use.joint): use.ratio for use in uses}
    assert found["torque", "hinge1"] == pytest.approx(3.0 * 9.81 / 50.0)
    assert found["torque", "hinge2"] == pytest.approx(9.81 / 50.0)
    assert found["position", "hinge1"] == pytest.approx(0.5 / 1.5)
    assert found["speed", "hinge1"] == 0.0


def test_uses_agree_with_breaches(rng):
    robot = arm(speed=1.0)
    motion = FourierTrajectory.random(
        2,
        duration=3.0,
        harmonics=4,
        lower=-2.5,
        upper=2.5,
        velocity=2.0,
        acceleration=20.0,
        rng=rng,
    )
    uses = limit_uses(robot, MotionLimits.of(robot), [motion], 200.0)
    found = {(use.quantity, use.joint): use for use in uses}
    breaches = limit_breaches(robot, motion, 200.0)
    assert breaches
    for breach in breaches:
        use = found[breach.quantity, breach.joint]
        assert (use.ratio, use.time) == pytest.approx((breach.ratio, breach.time))


def test_the_greatest_use_of_several_motions():
    robot = arm()
    motions = [HoldTrajectory([0.5, q], 0.1) for q in (0.1, 2.0, 1.0)]
    uses = limit_uses(robot, MotionLimits.of(robot), motions, 100.0)
    use = next(u for u in uses if (u.quantity, u.joint) == ("position", "hinge2"))
    assert (use.trajectory, use.ratio) == (1, pytest.approx(2.0 / np.pi))
    assert "position of hinge2" in str(use)


def test_no_room_to_move():
    limits = MotionLimits.of(arm(ranges=((1.0, 1.0), (0.0, 1.0))))
    limits.require_room(("one", "two"), [1])
    with pytest.raises(TrajectoryError, match="joint one has the range 1 to 1"):
        limits.require_room(("one", "two"), [0, 1])


@pytest.mark.parametrize("quantity", ["velocity", "acceleration", "effort"])
def test_a_limit_of_zero(quantity):
    limits = MotionLimits.of(arm(), **{quantity: 0.0})
    with pytest.raises(TrajectoryError, match=f"limit 0 of {quantity}"):
        limits.require_room(("one", "two"), [0])


@pytest.mark.parametrize("share", [0.0, 1.1, np.nan])
def test_a_share_that_is_none(share):
    with pytest.raises(TrajectoryError, match="share"):
        MotionLimits.of(arm(), share=share)


def test_limits_that_are_no_numbers():
    with pytest.raises(ShapeError, match="velocity"):
        MotionLimits.of(arm(), velocity=np.nan)
