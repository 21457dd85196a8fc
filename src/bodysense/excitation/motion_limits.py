"""The limits that a motion is designed within."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import TrajectoryError
from bodysense.excitation.trajectory import Trajectory
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, one_each, read_only

_UNLIMITED = 1e6
_NOTHING = 1e-12  # rounding of what is zero
_VELOCITY, _ACCELERATION = 2.0, 10.0


@dataclass(frozen=True, eq=False)
class MotionLimits:
    """Ranges and greatest absolute values of all joints, (n_joints,) each.

    Attributes:
        lower: lowest positions [rad or m].
        upper: highest positions.
        velocity: greatest speeds [rad/s or m/s].
        acceleration: greatest accelerations [rad/s² or m/s²].
        effort: greatest torques or forces, infinite for no limit [N·m or N].
    """

    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array
    effort: Array

    @classmethod
    def of(
        cls,
        robot: Robot,
        *,
        share: float = 1.0,
        velocity: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
        effort: ArrayLike | None = None,
    ) -> MotionLimits:
        """The limits of a robot, or a share of them.

        Joints without a range turn pi to either side at most. Speeds without a limit stay below
        2 rad/s or m/s and accelerations below 10 rad/s² or m/s², as in
        `FourierTrajectory.for_robot`; torques without a limit are not limited.

        Args:
            robot: the robot.
            share: of every limit to use, above 0 and up to 1; ranges shrink about their middle.
            velocity: instead of the robot's own, one number or one a joint.
            acceleration: instead of the robot's own.
            effort: instead of the robot's own.
        """
        if not 0.0 < share <= 1.0:
            raise TrajectoryError(f"share is {share}: give a number above 0 and up to 1.")
        n = robot.n_joints
        lower, upper = (np.array(limit) for limit in robot.position_limits)
        lower = np.where(lower < -_UNLIMITED, np.where(upper > _UNLIMITED, -np.pi, -np.inf), lower)
        upper = np.where(upper > _UNLIMITED, np.where(lower == -np.pi, np.pi, np.inf), upper)
        # A range that is open on one side is closed a turn away from its other end.
        lower = np.where(np.isinf(lower), upper - 2.0 * np.pi, lower)
        upper = np.where(np.isinf(upper), lower + 2.0 * np.pi, upper)
        middle, half = 0.5 * (lower + upper), 0.5 * share * (upper - lower)
        speed = robot.velocity_limit if velocity is None else velocity
        rate = robot.acceleration_limit if acceleration is None else acceleration
        torque = robot.effort_limit if effort is None else effort
        speed = one_each(speed, n, "velocity", infinite=True)
        rate = one_each(rate, n, "acceleration", infinite=True)
        torque = one_each(torque, n, "effort", infinite=True)
        return cls(
            read_only(middle - half),
            read_only(middle + half),
            read_only(share * np.where(speed > _UNLIMITED, _VELOCITY, speed)),
            read_only(share * np.where(rate > _UNLIMITED, _ACCELERATION, rate)),
            read_only(share * np.where(torque > _UNLIMITED, np.inf, torque)),
        )

    @property
    def middle(self) -> Array:
        """(n_joints,) middle of the ranges."""
        return np.asarray(0.5 * (self.lower + self.upper))

    def require_room(self, names: Sequence[str], joints: Sequence[int]) -> None:
        """Raise `TrajectoryError` unless all the given joints can move at all."""
        for j in joints:
            if not self.upper[j] > self.lower[j]:
                raise TrajectoryError(
                    f"joint {names[j]} has the range {self.lower[j]:g} to {self.upper[j]:g}: there "
                    "is no room to move; widen it, or leave the joint out of `joints`."
                )
            for quantity, limit in (
                ("velocity", self.velocity),
                ("acceleration", self.acceleration),
                ("effort", self.effort),
            ):
                if not limit[j] > 0.0:
                    raise TrajectoryError(
                        f"joint {names[j]} has the limit {limit[j]:g} of {quantity}: it cannot "
                        "move; give a number above zero, or leave the joint out of `joints`."
                    )


@dataclass(frozen=True)
class LimitUse:
    """How much of one limit of one joint a motion uses.

    Attributes:
        joint: its name.
        quantity: ``position``, ``speed``, ``acceleration`` or ``torque``.
        ratio: greatest use, 1 at the limit; a position counts from the middle of its range. Zero
            where there is no limit.
        time: of the greatest use [s].
        trajectory: which of several trajectories, from 0.
    """

    joint: str
    quantity: str
    ratio: float
    time: float
    trajectory: int = 0

    def __str__(self) -> str:
        return f"{self.quantity} of {self.joint} {100.0 * self.ratio:.1f} % at {self.time:.3g} s"


def share_of(value: Array, limit: Array) -> Array:
    """Values (n, n_joints) in limits (n_joints,); what is not there uses no limit, not even 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(value > _NOTHING, value / limit, 0.0))


def limit_uses(
    robot: Robot, limits: MotionLimits, trajectories: Sequence[Trajectory], rate: float
) -> tuple[LimitUse, ...]:
    """The greatest use of every limit over all trajectories, sampled at `rate` [Hz]."""
    found: list[LimitUse] = []
    half = 0.5 * (limits.upper - limits.lower)
    for index, trajectory in enumerate(trajectories):
        t, q, v, a = trajectory.sample(rate)
        tau = inverse_dynamics(robot, q, v, a)
        uses = {
            "position": share_of(np.abs(q - limits.middle), half),
            "speed": share_of(np.abs(v), limits.velocity),
            "acceleration": share_of(np.abs(a), limits.acceleration),
            "torque": share_of(np.abs(tau), limits.effort),
        }
        for quantity, use in uses.items():
            for j, name in enumerate(robot.joint_names):
                k = int(use[:, j].argmax())
                found.append(LimitUse(name, quantity, float(use[k, j]), float(t[k]), index))
    best: dict[tuple[str, str], LimitUse] = {}
    for use_of in found:
        key = (use_of.quantity, use_of.joint)
        if key not in best or use_of.ratio > best[key].ratio:
            best[key] = use_of
    return tuple(best.values())
