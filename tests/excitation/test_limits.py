from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.errors import MismatchError
from bodysense.excitation import FourierTrajectory, HoldTrajectory, SampledTrajectory
from bodysense.excitation.limits import limit_breaches
from bodysense.robot import Robot, load_robot


def hinges(*ranges: tuple[float, float], speed: float = np.inf) -> Robot:
    """A chain of hinges with the given ranges."""
    model = pin.Model()
    for k, (lower, upper) in enumerate(ranges):
        joint = model.addJoint(
            k,
            pin.JointModelRZ(),
            pin.SE3.Identity(),
            f"hinge{k + 1}",
            np.array([np.inf]),
            np.array([speed]),
            np.array([lower]),
            np.array([upper]),
        )
        model.appendBodyToJoint(joint, pin.Inertia.FromSphere(1.0, 0.1), pin.SE3.Identity())
    return Robot.from_pinocchio(model)


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
