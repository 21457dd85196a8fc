from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.errors import MismatchError, ShapeError, TrajectoryError
from bodysense.excitation import FourierTrajectory, HoldTrajectory, MotionLimits, SampledTrajectory
from bodysense.excitation.limits import (
    CollisionClearance,
    WorkspaceClearance,
    limit_breaches,
    limit_uses,
)
from bodysense.robot import Collisions, Robot, Workspace, link_hulls, load_robot


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


def hinges(*ranges: tuple[float, float], speed: float = np.inf) -> Robot:
    return arm(effort=np.inf, speed=speed, ranges=ranges)


@given(
    q=st.floats(-20.0, 20.0),
    middle=st.floats(-5.0, 5.0),
    half=st.floats(0.1, 5.0),
)
def test_a_position_counts_from_the_middle_of_its_range(q, middle, half):
    robot = hinges((middle - half, middle + half))
    found = limit_breaches(robot, HoldTrajectory([q], 1.0), 10.0)
    ratio = abs(q - middle) / half
    if ratio > 1.0 + 1e-6:
        assert [(b.joint, b.quantity, b.time) for b in found] == [("hinge1", "position", 0.0)]
        assert found[0].ratio == pytest.approx(ratio)
    elif ratio < 1.0 - 1e-6:
        assert found == ()


def test_limits_on_one_side_on_none_and_without_room():
    robot = hinges((-np.inf, 1.0), (-np.inf, np.inf), (0.0, 0.0))
    assert limit_breaches(robot, HoldTrajectory([-50.0, 99.0, 0.0], 1.0), 10.0) == ()
    found = limit_breaches(robot, HoldTrajectory([1.0 + np.pi, 99.0, -np.pi], 1.0), 10.0)
    assert [(b.joint, b.ratio) for b in found] == [("hinge1", 2.0), ("hinge3", 2.0)]


def test_the_worst_moment_of_each_joint_is_named():
    robot = hinges((-1.0, 1.0), (-4.0, 4.0), speed=2.0)
    # From 0 to 3 within a second, at rest at both ends: the quintic, fastest half way, 15/8 of
    # the mean speed.
    motion = SampledTrajectory([0.0, 1.0], [[0.0, 0.0], [3.0, 3.0]])
    position, *speeds = limit_breaches(robot, motion, 100.0)
    assert (position.joint, position.ratio, position.time) == ("hinge1", pytest.approx(3.0), 1.0)
    assert [(b.joint, b.quantity, b.time) for b in speeds] == [
        ("hinge1", "speed", 0.5),
        ("hinge2", "speed", 0.5),
    ]
    assert speeds[0].ratio == pytest.approx(3.0 * 15.0 / 8.0 / 2.0)
    assert str(position) == "position of hinge1 (3 times its limit at 1 s)"


def test_accelerations(rng):
    robot = load_robot("tx40")  # 50 rad/s²
    motion = FourierTrajectory.for_robot(robot, rng=rng, duration=2.0, harmonics=5)
    assert limit_breaches(robot, motion, 1000.0) == ()
    quick = FourierTrajectory(0.2, motion.a, motion.b, motion.q0)
    found = {b.joint: b for b in limit_breaches(robot, quick, 1e4) if b.quantity[0] == "a"}
    peaks = np.abs(quick.sample(1e4)[3]).max(axis=0)
    assert set(found) == {f"joint{k + 1}" for k in np.flatnonzero(peaks > 50.0)}
    for k in np.flatnonzero(peaks > 50.0):
        assert found[f"joint{k + 1}"].ratio == pytest.approx(peaks[k] / 50.0)
    assert found


def test_a_motion_of_another_robot():
    with pytest.raises(MismatchError, match="moves 2 axes, 'TX40' has 6 joints"):
        limit_breaches(load_robot("tx40"), HoldTrajectory([0.0, 0.0], 1.0), 10.0)


def test_what_a_robot_does_not_limit():
    limits = MotionLimits.from_robot(arm(effort=np.inf))
    np.testing.assert_allclose(limits.lower, [-1.0, -np.pi])
    np.testing.assert_allclose(limits.upper, [2.0, np.pi])
    np.testing.assert_allclose(limits.velocity, 2.0)
    np.testing.assert_allclose(limits.acceleration, 10.0)
    assert np.isinf(limits.effort).all()


def test_a_range_that_is_open_on_one_side_is_one_turn():
    limits = MotionLimits.from_robot(arm(ranges=((-np.inf, 1.0), (0.5, np.inf))))
    np.testing.assert_allclose(limits.upper - limits.lower, 2.0 * np.pi)
    assert (limits.upper[0], limits.lower[1]) == (1.0, 0.5)


def test_a_share_of_all_limits():
    limits = MotionLimits.from_robot(arm(speed=3.0), share=0.5, acceleration=[4.0, 6.0])
    np.testing.assert_allclose(limits.lower, [-0.25, -np.pi / 2])
    np.testing.assert_allclose(limits.velocity, 1.5)
    np.testing.assert_allclose(limits.acceleration, [2.0, 3.0])
    np.testing.assert_allclose(limits.effort, 25.0)


def test_uses_of_a_pose_in_closed_form():
    robot = arm()
    # Level, both centres of mass at 1 m and 2 m, and the second one at 1 m of its joint.
    uses = limit_uses(
        robot, MotionLimits.from_robot(robot), [HoldTrajectory([0.0, 0.0], 0.1)], 100.0
    )
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
    uses = limit_uses(robot, MotionLimits.from_robot(robot), [motion], 200.0)
    found = {(use.quantity, use.joint): use for use in uses}
    breaches = limit_breaches(robot, motion, 200.0)
    assert breaches
    for breach in breaches:
        use = found[breach.quantity, breach.joint]
        assert (use.ratio, use.time) == pytest.approx((breach.ratio, breach.time))


def test_the_greatest_use_of_several_motions():
    robot = arm()
    motions = [HoldTrajectory([0.5, q], 0.1) for q in (0.1, 2.0, 1.0)]
    uses = limit_uses(robot, MotionLimits.from_robot(robot), motions, 100.0)
    use = next(u for u in uses if (u.quantity, u.joint) == ("position", "hinge2"))
    assert (use.trajectory, use.ratio) == (1, pytest.approx(2.0 / np.pi))
    assert "position of hinge2" in str(use)


def test_no_room_to_move():
    limits = MotionLimits.from_robot(arm(ranges=((1.0, 1.0), (0.0, 1.0))))
    limits.require_room(("one", "two"), [1])
    with pytest.raises(TrajectoryError, match="joint one has the range 1 to 1"):
        limits.require_room(("one", "two"), [0, 1])


@pytest.mark.parametrize("quantity", ["velocity", "acceleration", "effort"])
def test_a_limit_of_zero(quantity):
    limits = MotionLimits.from_robot(arm(), **{quantity: 0.0})
    with pytest.raises(TrajectoryError, match=f"limit 0 of {quantity}"):
        limits.require_room(("one", "two"), [0])


@pytest.mark.parametrize("share", [0.0, 1.1, np.nan])
def test_a_share_that_is_none(share):
    with pytest.raises(TrajectoryError, match="share"):
        MotionLimits.from_robot(arm(), share=share)


def test_limits_that_are_no_numbers():
    with pytest.raises(ShapeError, match="velocity"):
        MotionLimits.from_robot(arm(), velocity=np.nan)


@pytest.mark.parametrize("kind", ["collisions", "workspace"])
def test_slacks_and_their_gradients(kind, robot_of, rng):
    robot = robot_of("example:ur5")
    q = rng.uniform(-1.5, 1.5, (40, 6))
    clearance: CollisionClearance | WorkspaceClearance
    if kind == "collisions":
        clearance = CollisionClearance(Collisions.from_robot(robot, margin=0.02))
    else:
        room = Workspace(lower=(-np.inf, -np.inf, -0.4)).around(robot, link_hulls(robot))
        clearance = WorkspaceClearance(room)
    sample, slack, gradient = clearance.slacks(q)
    assert slack.size > 5
    assert (slack < 1.0).all()
    # The nearest of each sample is a smooth function of the pose almost everywhere.
    step, agreed = 1e-6, 0
    for t in np.unique(sample)[:8]:
        nearest = int(np.flatnonzero(sample == t)[np.argmin(slack[sample == t])])
        if slack[nearest] < 0.0:
            continue
        for j in range(6):
            ends = []
            for sign in (1.0, -1.0):
                moved = q[[t]]
                moved[0, j] += sign * step
                ends.append(clearance.slacks(moved)[1].min())
            slope = (ends[0] - ends[1]) / (2.0 * step)
            assert gradient[nearest, j] == pytest.approx(slope, abs=2e-3)
            agreed += 1
    assert agreed > 0


def test_slack_zero_is_the_margin_and_a_little_more(robot_of, rng):
    robot = robot_of("example:ur5")
    q = rng.uniform(-2.0, 2.0, (200, 6))
    collisions = Collisions.from_robot(robot, margin=0.03)
    sample, slack, _ = CollisionClearance(collisions, between=0.0).slacks(q)
    hit = np.zeros(200, dtype=bool)
    hit[sample[slack < 0.0]] = True
    np.testing.assert_array_equal(hit, collisions.in_collision(q))
    assert hit.any()


def test_pairs_that_are_built_close_leave_room_to_move(robot_of, rng):
    collisions = Collisions.from_robot(robot_of("example:ur5"), margin=0.03)
    clearance = CollisionClearance(collisions)
    assert (clearance.kept < collisions.farthest).all()
    assert (clearance.kept > collisions.margins).all()
    sample, slack, _ = clearance.slacks(rng.uniform(-2.0, 2.0, (300, 6)))
    assert np.unique(sample[slack <= 0.0]).size < 300
