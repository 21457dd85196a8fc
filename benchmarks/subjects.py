"""The robots and motions that are measured, and how results are compared."""

from __future__ import annotations

from functools import cache

import numpy as np

from bodysense import FourierTrajectory, Robot, load_robot
from bodysense.spatial import Array


@cache
def tx40() -> Robot:
    """Load the six-axis arm: viscous and Coulomb friction, PD control at 5 kHz."""
    return load_robot("tx40")


@cache
def talos() -> Robot:
    """Load the humanoid with a floating base: 32 joints, 33 links."""
    return load_robot("example:talos", floating_base=True)


@cache
def xarm7() -> Robot:
    """Load a seven-axis arm with viscous and Coulomb friction, smooth about standstill."""
    return load_robot("example:xarm7").with_friction("coulomb", width=0.02)


def excitation(robot: Robot, duration: float) -> FourierTrajectory:
    """Draw a motion within the robot's limits, the same every time; duration in s."""
    lower, upper = robot.position_limits
    return FourierTrajectory.random(
        robot.n_joints,
        duration=duration,
        harmonics=5,
        lower=lower,
        upper=upper,
        velocity=robot.velocity_limit,
        acceleration=robot.acceleration_limit,
        rng=np.random.default_rng(1),
    )


def random_motion(robot: Robot, samples: int) -> tuple[Array, Array, Array]:
    """Draw q (samples, nq), v and a (samples, nv) anywhere, the same every time."""
    rng = np.random.default_rng(2)
    q = rng.uniform(-3.0, 3.0, (samples, robot.nq))
    if robot.floating_base:
        q[:, 3:7] = rng.normal(size=(samples, 4))
        q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    v, a = rng.normal(scale=2.0, size=(2, samples, robot.nv))
    return q, v, a


def largest_difference(x: Array, y: Array) -> float:
    """Return max |x - y|, one entry of the first axis at a time to spare memory."""
    return max((float(np.abs(a - b).max()) for a, b in zip(x, y, strict=True)), default=0.0)


def largest_value(x: Array) -> float:
    """Return max |x|."""
    return max((float(np.abs(a).max()) for a in x), default=0.0)
