"""Where a motion leaves the limits of a robot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bodysense.errors import MismatchError
from bodysense.excitation.motion_limits import share_of
from bodysense.excitation.trajectory import Trajectory
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_ROUNDING = 1e-9


@dataclass(frozen=True)
class LimitBreach:
    """One limit of one joint that a motion breaks.

    Attributes:
        joint: its name.
        quantity: ``position``, ``speed`` or ``acceleration``.
        ratio: greatest use of the limit, above 1. A position counts from the middle of its range,
            in halves of the range; without a range, in turns of pi beyond the limit, plus 1.
        time: of the greatest use [s].
    """

    joint: str
    quantity: str
    ratio: float
    time: float

    def __str__(self) -> str:
        return (
            f"{self.quantity} of {self.joint} ({self.ratio:.3g} times its limit at {self.time:g} s)"
        )


def limit_breaches(robot: Robot, trajectory: Trajectory, rate: float) -> tuple[LimitBreach, ...]:
    """The limits that a motion breaks at its samples, quantity by quantity, joint by joint.

    Args:
        robot: with limits, infinite where it has none.
        trajectory: the motion, one axis a joint.
        rate: of the samples [Hz], e.g. that of the controller.
    """
    if trajectory.n_axes != robot.n_joints:
        raise MismatchError(
            f"the trajectory moves {trajectory.n_axes} axes, {robot.name!r} has {robot.n_joints} "
            f"joints ({', '.join(robot.joint_names)}): it was made for another robot."
        )
    t, q, v, a = trajectory.sample(rate)
    uses = {
        "position": _position_use(q, *robot.position_limits),
        "speed": share_of(np.abs(v), robot.velocity_limit),
        "acceleration": share_of(np.abs(a), robot.acceleration_limit),
    }
    return tuple(
        LimitBreach(joint, quantity, float(use[k, j]), float(t[k]))
        for quantity, use in uses.items()
        for j, (joint, k) in enumerate(zip(robot.joint_names, use.argmax(axis=0), strict=True))
        if use[k, j] > 1.0 + _ROUNDING
    )


def _position_use(q: Array, lower: Array, upper: Array) -> Array:
    """(n_t, n_joints) use of the ranges: 1 at a limit, 0 in the middle, or far from any limit."""
    beyond = np.maximum(q - upper, lower - q)
    half = 0.5 * (upper - lower)
    ranged = np.isfinite(half) & (half > 0.0)
    return np.asarray(np.maximum(1.0 + beyond / np.where(ranged, half, np.pi), 0.0))
