"""Limits of motions: of joints, how much of them a motion uses, and of what is near the robot."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import MismatchError, TrajectoryError
from bodysense.excitation.trajectory import Trajectory
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.robot import Robot, require_robot
from bodysense.robot.shapes.collisions import Collisions
from bodysense.robot.shapes.workspace import WorkspaceMargins
from bodysense.spatial.arrays import Array, one_each, read_only

_UNLIMITED = 1e6  # from here on, files mean "no limit"
_NOTHING = 1e-12  # rounding of what is zero
_SPARE = 1e-4  # of a limit, stays unused: peaks lie between the samples, other rates meet them
_ROUNDING = 1e-9  # beyond a limit, that breaks none
_VELOCITY, _ACCELERATION = 2.0, 10.0  # [rad/s or m/s], squared: where a robot has no limit


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
    def from_robot(
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
            velocity: instead of the robot's own, one number or one per joint.
            acceleration: instead of the robot's own.
            effort: instead of the robot's own.
        """
        require_robot(robot)
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
        ratio: greatest use, 1 at the limit; a position counts from the middle of its range, in
            halves of the range. Zero where there is no limit.
        time: of the greatest use [s].
        trajectory: which of several trajectories, from 0.
    """

    joint: str
    quantity: str
    ratio: float
    time: float
    trajectory: int = 0

    @property
    def excess(self) -> float:
        """How far the use is beyond 1, and a little to spare; up to zero the limit is kept."""
        return self.ratio - 1.0 + _SPARE

    def __str__(self) -> str:
        return (
            f"{self.quantity} of {self.joint} ({self.ratio:.3g} times its limit at {self.time:g} s)"
        )


def share_of(value: Array, limit: Array) -> Array:
    """Values (n, n_joints) in limits (n_joints,); what is not there uses no limit, not even 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(value > _NOTHING, value / limit, 0.0))


def limit_uses(
    robot: Robot, limits: MotionLimits, trajectories: Sequence[Trajectory], rate: float
) -> tuple[LimitUse, ...]:
    """The greatest use of every limit over all trajectories, sampled at `rate` [Hz]."""
    half = 0.5 * (limits.upper - limits.lower)
    best: dict[tuple[str, str], LimitUse] = {}
    for index, trajectory in enumerate(trajectories):
        t, q, v, a = trajectory.sample(rate)
        shares = {
            "position": share_of(np.abs(q - limits.middle), half),
            "speed": share_of(np.abs(v), limits.velocity),
            "acceleration": share_of(np.abs(a), limits.acceleration),
            "torque": share_of(np.abs(inverse_dynamics(robot, q, v, a)), limits.effort),
        }
        for use in _greatest(robot, t, shares, index):
            key = (use.quantity, use.joint)
            if key not in best or use.ratio > best[key].ratio:
                best[key] = use
    return tuple(best.values())


def limit_breaches(robot: Robot, trajectory: Trajectory, rate: float) -> tuple[LimitUse, ...]:
    """The limits that a motion breaks at its samples, quantity by quantity, joint by joint.

    They are the robot's own of position, speed and acceleration; beyond a position that is limited
    on one side only, the ratio counts turns of pi, plus 1.

    Args:
        robot: with limits, infinite where it has none.
        trajectory: the motion, one axis per joint.
        rate: of the samples [Hz], e.g. that of the controller.
    """
    require_robot(robot)
    if trajectory.n_axes != robot.n_joints:
        raise MismatchError(
            f"the trajectory moves {trajectory.n_axes} axes, {robot.name!r} has {robot.n_joints} "
            f"joints ({', '.join(robot.joint_names)}): it was made for another robot."
        )
    t, q, v, a = trajectory.sample(rate)
    shares = {
        "position": _position_use(q, *robot.position_limits),
        "speed": share_of(np.abs(v), robot.velocity_limit),
        "acceleration": share_of(np.abs(a), robot.acceleration_limit),
    }
    return tuple(use for use in _greatest(robot, t, shares) if use.ratio > 1.0 + _ROUNDING)


def _greatest(
    robot: Robot, t: Array, shares: Mapping[str, Array], trajectory: int = 0
) -> Iterator[LimitUse]:
    """The greatest of the shares (n_t, n_joints) of each quantity and joint."""
    for quantity, share in shares.items():
        for j, (joint, k) in enumerate(zip(robot.joint_names, share.argmax(axis=0), strict=True)):
            yield LimitUse(joint, quantity, float(share[k, j]), float(t[k]), trajectory)


def _position_use(q: Array, lower: Array, upper: Array) -> Array:
    """(n_t, n_joints) use of the ranges: 1 at a limit, 0 in the middle, or far from any limit."""
    beyond = np.maximum(q - upper, lower - q)
    half = 0.5 * (upper - lower)
    ranged = np.isfinite(half) & (half > 0.0)
    return np.asarray(np.maximum(1.0 + beyond / np.where(ranged, half, np.pi), 0.0))


# Collisions and workspace as slacks of a motion: 0 at the margin, 1 from a distance on.

_REACH = 0.08  # [m] from the margin, where a pair begins to count
_SHARE = 0.25  # of the largest distance of a pair that may be kept in addition
_BETWEEN = 0.003  # [m] kept in addition, for what happens between the samples


class Clearance(Protocol):
    """What keeps a robot clear of itself or its surroundings: slacks by pose."""

    def slacks(self, q: Array) -> tuple[NDArray[np.intp], Array, Array]:
        """Samples (k,), slacks (k,) below 1 and their gradients (k, n_joints) of what is near.

        Slack 0 is touching (with the margin), 1 and above is far.
        """
        ...


@dataclass(frozen=True, eq=False)
class CollisionClearance:
    """Slacks of pairs of bodies: (distance - margin - between) / reach.

    Attributes:
        collisions: the pairs.
        between: kept in addition to their margins [m], a quarter of a pair's largest distance at
            most. Close pairs pass each other smoothly, so that between two samples they come closer
            by half their relative acceleration times the square of half the time between:
            millimetres.
    """

    collisions: Collisions
    between: float = _BETWEEN
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def slacks(self, q: Array) -> tuple[NDArray[np.intp], Array, Array]:
        kept = self.kept
        with self._one_at_a_time:
            near = self.collisions.near(q, kept + _REACH)
        return near.sample, (near.distance - kept[near.pair]) / _REACH, near.gradient / _REACH

    @cached_property
    def kept(self) -> Array:
        """(n_pairs,) distances at which slacks are zero [m]."""
        between = np.minimum(self.between, _SHARE * self.collisions.farthest)
        return np.asarray(self.collisions.margins + between)


@dataclass(frozen=True, eq=False)
class WorkspaceClearance:
    """Slacks of links to the walls of a workspace: margin / reach."""

    margins: WorkspaceMargins
    between: float = _BETWEEN

    def slacks(self, q: Array) -> tuple[NDArray[np.intp], Array, Array]:
        margins, gradients = self.margins.margins_and_gradients(q)
        sample, link = np.nonzero(margins < self.between + _REACH)
        slack = (margins[sample, link] - self.between) / _REACH
        return sample, slack, gradients[sample, link] / _REACH
