"""Which joints of a robot are locked because its recordings do not have them.

A robot has grippers, wheels, a second arm; a recording has the joints that somebody wanted to
know of. The others are taken as standing still (see `bodysense.robot.locking`), where that is safe:

- A joint without any channel, if where it stands is known or does not matter: it carries no
  recorded joint, or it only moves recorded ones without turning gravity (a lift, a mobile base).
  It is locked at zero, or at the limit next to it.
- A joint with positions but neither torque nor current while others have some, if it stands still
  within its limits or a little beyond: it is locked there.

Everything else is left to the doctor, which says what is missing: joints whose motor moves a
recorded joint too, positions in degrees or mm, and recordings with joints that the robot does not
have, for a missing joint may be one of them under another name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bodysense.doctor.samples import spread
from bodysense.errors import MismatchError
from bodysense.logs.channels import JOINT_QUANTITIES
from bodysense.logs.log import Log
from bodysense.robot.frames import LinkPoses
from bodysense.robot.locking import can_be_locked_at, matching_joints, with_all_of_their_motors
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array

_STANDING = 0.01
"""rad or m: travel below which a joint without torque counts as standing. A link of 1 kg with its
centre 0.1 m from the joint then changes what others feel by some 0.01 N·m."""

_VERTICAL = 1e-6  # sine between the axis of a joint and gravity below which it cannot turn it


def lock_unrecorded(
    robot: Robot, logs: Sequence[Log], asked: Mapping[str, float | None] | None = None
) -> Robot:
    """The robot without joints that the recordings do not have, and without those asked for.

    Args:
        robot: that was recorded.
        logs: all recordings that are to be used with it.
        asked: joints to lock in any case, see `Robot.with_locked_joints`; `None` stands for where
            they stand in the recordings.

    Raises: as `lock_asked`.
    """
    robot = lock_asked(robot, logs, asked or {})
    anything, recorded, driven = (
        _joints_with(logs, *quantities) for quantities in (JOINT_QUANTITIES, ("q",), ("tau", "i"))
    )
    if recorded & set(robot.joint_names) and recorded <= set(robot.unlocked().joint_names):
        harmless = _harmless(robot, [name not in anything for name in robot.joint_names])
        robot = robot.with_locked_joints(dict.fromkeys(with_all_of_their_motors(robot, harmless)))
    if driven & set(robot.joint_names):
        standing = _standing(robot, logs, recorded - driven)
        together = with_all_of_their_motors(robot, standing)
        robot = robot.with_locked_joints({name: standing[name] for name in together})
    return robot


def lock_asked(robot: Robot, logs: Sequence[Log], asked: Mapping[str, float | None]) -> Robot:
    """The robot without joints that are asked for, locked where they stand in the recordings.

    Raises:
        MismatchError: such a joint moves in the recordings, and no position is given.
        UnknownNameError: the robot has no such joint.
    """
    require_robot(robot)
    positions = {
        name: _standing_position(logs, name) if q is None else q
        for name, q in matching_joints(robot, asked).items()
    }
    return robot.with_locked_joints(positions)


def _joints_with(logs: Sequence[Log], *quantities: str) -> set[str]:
    """Joints of which any of the recordings has one of the quantities."""
    parts = (name.partition(".") for log in logs for name in log.channels)
    return {joint for quantity, _, joint in parts if quantity in quantities and joint}


def _harmless(robot: Robot, missing: Sequence[bool]) -> list[str]:
    """Joints without a channel of which it does not matter where they stand."""
    base, parent = int(robot.floating_base), robot.tree.parent
    q = np.zeros((1, robot.nq))
    q[0, 6 * base : 7 * base] = 1.0
    g = robot.tree.gravity
    axes = LinkPoses.from_robot(robot, q).axes[:, 0]
    level = np.linalg.norm(np.cross(axes, g), axis=1) <= _VERTICAL * np.linalg.norm(g)
    level |= robot.tree.prismatic.astype(bool)
    carries = np.zeros(robot.n_joints, dtype=bool)  # a recorded joint
    for j in range(robot.n_joints - 1, -1, -1):
        if parent[j] >= 0:
            carries[parent[j]] |= carries[j] or not missing[j]
    mobile = np.zeros(robot.n_joints, dtype=bool)  # stands on the ground by such joints alone
    for j in range(robot.n_joints):
        on_mobile = mobile[parent[j]] if parent[j] >= 0 else not base
        mobile[j] = missing[j] and level[j] and on_mobile
    return [
        name
        for j, name in enumerate(robot.joint_names)
        if missing[j] and (mobile[j] or not carries[j])
    ]


def _standing(robot: Robot, logs: Sequence[Log], joints: set[str]) -> dict[str, float]:
    """Where joints stand that have positions without torque, of those that do not move."""
    return {
        name: middle
        for j, name in enumerate(robot.joint_names)
        if name in joints
        and (q := _positions(logs, name)).size
        and spread(q) <= _STANDING
        and can_be_locked_at(robot, j, middle := float(np.median(q)))
    }


def _standing_position(logs: Sequence[Log], name: str) -> float | None:
    """Where a joint stands that is to be locked; `None` without a channel of its position."""
    q = _positions(logs, name)
    if not q.size:
        return None
    if spread(q) > _STANDING:
        raise MismatchError(
            f"joint {name!r} is to be locked, but it moves over {spread(q):.3g} rad or m in the "
            f"recordings: leave it free, or say where to lock it: {name}={np.median(q):.3g} "
            "(--lock; its motion then counts as an error of the model)."
        )
    return float(np.median(q))


def _positions(logs: Sequence[Log], name: str) -> Array:
    """All finite positions of a joint."""
    own = [np.asarray(log.channels[f"q.{name}"]) for log in logs if f"q.{name}" in log.channels]
    q = np.concatenate(own) if own else np.zeros(0)
    return np.asarray(q[np.isfinite(q)], dtype=np.float64)
