"""What has to be decided before a motion can be designed, and what has to be refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import TrajectoryError, unknown_name
from bodysense.excitation.limits import MotionLimits, share_of
from bodysense.robot.base_parameters import BaseParameters, base_parameters_from_regressor
from bodysense.robot.dynamics import inverse_dynamics, torque_regressor
from bodysense.robot.frames import carried_mass
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.collisions import Collisions
from bodysense.robot.shapes.workspace import WorkspaceMargins
from bodysense.spatial.arrays import Array, as_array

_LIGHT = 0.005
_WIDTH = 0.02
_POSES = 500
_INSIDE = 1e-3


def moving_joints(
    robot: Robot, joints: Sequence[str] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Places of the joints that move, and notes on those that hold unasked.

    Without names all joints move but those that carry less than 0.5 % of the robot's mass, as
    the fingers of a gripper.
    """
    if robot.floating_base:
        raise TrajectoryError(
            f"{robot.name!r} has a floating base, and motions are designed for fixed ones: load it "
            "with floating_base=False."
        )
    if joints is not None:
        for name in joints:
            if name not in robot.joint_names:
                raise unknown_name("joint", name, robot.joint_names)
        result = sorted({robot.joint_names.index(name) for name in joints})
        if not result:
            raise TrajectoryError(
                f"joints is empty, so that nothing moves: name some of "
                f"{', '.join(robot.joint_names)}, or give None for all."
            )
        return np.array(result, dtype=np.int64), ()
    carried = carried_mass(robot)
    light = carried < _LIGHT * carried[robot.tree.parent[: carried.size] < 0].sum()
    if light.all():
        if not light.size:
            raise TrajectoryError(f"{robot.name!r} has no joint: there is nothing to move.")
        light[:] = False
    notes: tuple[str, ...] = ()
    if light.any():
        names = ", ".join(robot.joint_names[j] for j in np.flatnonzero(light))
        notes = (
            f"joints that carry less than {100 * _LIGHT:g} % of the robot's mass hold: {names}; "
            "name all that are to move if these are among them.",
        )
    return np.flatnonzero(~light).astype(np.int64), notes


def with_smooth_friction(robot: Robot, friction: str | None) -> tuple[Robot, tuple[str, ...]]:
    """The robot with a friction law whose sign is smooth, so that it has gradients.

    Args:
        robot: the robot; its own law if `friction` is None.
        friction: name of another law.
    """
    law = robot.friction.model if friction is None else friction
    changed = robot if friction is None else robot.with_friction(friction)
    names = changed.friction.model.shape
    if "width" not in names or changed.friction.model.custom is not None:
        return changed, ()
    width = changed.friction.shape[:, names.index("width")]
    if (width >= _WIDTH).all():
        return changed, ()
    note = f"the sign in friction was smoothed over {_WIDTH:g} rad/s or m/s for the optimisation."
    return changed.with_friction(law, width=np.maximum(width, _WIDTH)), (note,)


def moving_base_parameters(
    robot: Robot, moving: NDArray[np.int64], pose: Array, *, still: bool = False
) -> BaseParameters:
    """Base parameters that the torques of moving joints show while the others hold.

    Found as by `base_parameters`, numerically from random motions, but of these joints alone.
    What the torques of held joints would show does not count: brakes or a grip may hold them.

    Args:
        robot: the robot.
        moving: (m,) places of the joints that move.
        pose: (n_joints,) where the others hold.
        still: whether all joints stand still in each of many poses, so that gravity and offsets
            alone show.
    """
    rng = np.random.default_rng(0)
    n_t = 40 + 4 * robot.layout.size // moving.size
    q = np.tile(pose, (n_t, 1))
    v, a = np.zeros_like(q), np.zeros_like(q)
    q[:, moving] = rng.uniform(-np.pi, np.pi, (n_t, moving.size))
    if not still:
        v[:, moving] = 2.0 * rng.standard_normal((n_t, moving.size))
        a[:, moving] = 4.0 * rng.standard_normal((n_t, moving.size))
    Y = torque_regressor(robot, q, v, a)[:, moving].reshape(-1, robot.layout.size)
    return base_parameters_from_regressor(robot, Y, 1e-5)


def checked_start(
    robot: Robot,
    limits: MotionLimits,
    moving: NDArray[np.int64],
    start: ArrayLike,
    collisions: Collisions | None,
    margins: WorkspaceMargins | None,
) -> Array:
    """The pose at start and end (n_joints,), inside all limits, or `TrajectoryError`."""
    pose = as_array(start, (robot.n_joints,), "start")
    for j in moving:
        room = _INSIDE * (limits.upper[j] - limits.lower[j])
        if not limits.lower[j] + room <= pose[j] <= limits.upper[j] - room:
            raise TrajectoryError(
                f"start has {robot.joint_names[j]} at {pose[j]:g}, outside or at the end of its "
                f"range {limits.lower[j]:g} to {limits.upper[j]:g}: move it at least "
                f"{room:.2g} inside."
            )
    _require_held_inside(robot, limits, moving, pose)
    load = _holding_use(robot, limits, pose[np.newaxis])[0]
    if not (load < 1.0).all():
        j = int(np.argmax(load))
        raise TrajectoryError(
            f"{robot.joint_names[j]} needs {load[j]:.3g} times its torque limit to hold "
            "the start pose: choose another one, or give `limits` with more effort."
        )
    if collisions is not None and collisions.in_collision(pose[np.newaxis])[0]:
        closest = collisions.closest(pose[np.newaxis])
        pair = " and ".join(closest.pair) if closest is not None else "bodies"
        margin = closest.margin if closest is not None else collisions.margin
        raise TrajectoryError(
            f"in the start pose {pair} are closer than {1e3 * margin:.2g} mm: choose a pose that "
            "is free, or name the pair in `ignore` of the collisions."
        )
    if margins is not None and margins.parts:
        room_left = margins.margins(pose[np.newaxis])[0]
        if not (room_left > 0.0).all():
            link, wall = margins.names[int(np.argmin(room_left))]
            raise TrajectoryError(
                f"in the start pose {link} is outside {wall} by {-1e3 * room_left.min():.1f} mm: "
                "choose a pose inside the workspace, or widen it."
            )
    return pose


def _require_held_inside(
    robot: Robot, limits: MotionLimits, moving: NDArray[np.int64], pose: Array
) -> None:
    """Raise `TrajectoryError` where a joint that holds does so outside its range."""
    for j in np.setdiff1d(np.arange(robot.n_joints), moving):
        if not limits.lower[j] <= pose[j] <= limits.upper[j]:
            raise TrajectoryError(
                f"start has {robot.joint_names[j]}, which holds, at {pose[j]:g}, outside its range "
                f"{limits.lower[j]:g} to {limits.upper[j]:g}: hold it inside, or give `limits` "
                "with a wider range."
            )


def free_poses(
    robot: Robot,
    limits: MotionLimits,
    moving: NDArray[np.int64],
    pose: Array,
    collisions: Collisions | None,
    margins: WorkspaceMargins | None,
) -> Array:
    """(n, n_joints) random poses in which the robot can stand, or `TrajectoryError`.

    The quarter nearest to the middle of the ranges, from where motions reach farthest, that one
    first.
    """
    rng = np.random.default_rng(0)
    q = holdable_poses(robot, limits, moving, pose, collisions, margins, _POSES, rng)
    away = (np.abs(q - limits.middle) / (limits.upper - limits.lower + 1e-12))[:, moving]
    return np.asarray(q[np.argsort(away.max(axis=1))[: max(1, q.shape[0] // 4)]])


def holdable_poses(
    robot: Robot,
    limits: MotionLimits,
    moving: NDArray[np.int64],
    pose: Array,
    collisions: Collisions | None,
    margins: WorkspaceMargins | None,
    count: int,
    rng: np.random.Generator,
) -> Array:
    """(n, n_joints) those of `count` random poses that are free, or `TrajectoryError` if none is.

    The first is the middle of the ranges, if that is free; other joints hold as in `pose`.
    """
    q = np.tile(pose, (count, 1))
    share = rng.uniform(0.05, 0.95, (count, moving.size))
    share[0] = 0.5
    q[:, moving] = limits.lower[moving] + share * (limits.upper - limits.lower)[moving]
    loads = _holding_use(robot, limits, q)
    if not (loads < 1.0).all(axis=1).any():
        worst = int(np.argmax(loads.min(axis=0)))
        held = "" if worst in moving else ", which holds,"
        raise TrajectoryError(
            f"gravity alone takes more than the torque limits in every pose: "
            f"{robot.joint_names[worst]}{held} needs {loads[:, worst].min():.3g} times its limit "
            "at least. Correct the effort limits or the masses"
            + (", or hold it in another pose by `start`." if held else ".")
        )
    drawn = q[(loads < 1.0).all(axis=1)]
    q = drawn[free_mask(robot, limits, drawn, collisions, margins)]
    if not q.size:
        raise TrajectoryError(_why_none_is_free(drawn, collisions, margins))
    return q


def _why_none_is_free(
    q: Array, collisions: Collisions | None, margins: WorkspaceMargins | None
) -> str:
    """What stands in the way in all poses q (n, n_joints), and the remedy."""
    if margins is not None and margins.parts:
        room = margins.margins(q)
        inside = (room > 0.0).all(axis=1)
        if not inside.any():
            link, wall = margins.names[int(np.argmin((room > 0.0).mean(axis=0)))]
            return (
                f"in none of {q.shape[0]} random poses all links are inside the workspace: {link} "
                f"is most often outside {wall}. Widen the workspace."
            )
        q = q[inside]
    if collisions is None:
        return f"none of {q.shape[0]} random poses can be held: widen the limits."
    distances = collisions.distances(q, beyond=max(collisions.margin, 0.0) + 0.01)
    close = distances < collisions.margins
    pair = " and ".join(collisions.pairs[int(np.argmax(close.mean(axis=0)))])
    # A pose is free with the margin that its closest pair has left.
    largest = np.where(close, distances, np.inf).min(axis=1).max()
    which = "" if margins is None else " inside the workspace"
    text = (
        f"none of {q.shape[0]} random poses{which} is free of collisions with a margin of "
        f"{1e3 * collisions.margin:g} mm: {pair} are most often closer. "
    )
    if largest > 0.0:
        return text + f"Take a margin of {np.floor(1e4 * largest) / 10.0:g} mm at most."
    return text + "They touch even without a margin: correct the shapes, or ignore the pair."


def free_mask(
    robot: Robot,
    limits: MotionLimits,
    q: Array,
    collisions: Collisions | None,
    margins: WorkspaceMargins | None,
) -> NDArray[np.bool_]:
    """(n,) whether the robot can stand in poses q: torque, collisions, workspace."""
    free = (_holding_use(robot, limits, q) < 1.0).all(axis=1)
    if collisions is not None:
        free &= ~collisions.in_collision(q)
    if margins is not None and margins.parts:
        free &= (margins.margins(q) > 0.0).all(axis=1)
    return np.asarray(free)


def _holding_use(robot: Robot, limits: MotionLimits, q: Array) -> Array:
    """(n, n_joints) share of the torque limits that gravity takes in poses q (n, n_joints)."""
    still = np.zeros_like(q)
    return share_of(np.abs(inverse_dynamics(robot, q, still, still)), limits.effort)
