"""Which way gravity acts on the robot, as its torques tell: mounted as the file says, or not.

Gravity is linear in the torques, and so can be estimated together with drives:

    tau_j ≈ m_j(q, v, a; g = 0) + G_j(q) g + drive_j + constant,      g (3,) in the base's frame

The masses of the file may be rough: the length of g is off as they are, its direction is not.
"""

from __future__ import annotations

import numpy as np

from bodysense.doctor.explained_torque import explain as explain_torques
from bodysense.doctor.explained_torque import link_torques, unexplained, without_drive
from bodysense.doctor.motion import CondensedMotion
from bodysense.doctor.samples import Mask
from bodysense.robot.mounting import under_gravity
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.status import Finding

# A base is never off level by this [rad] without anybody knowing: it was mounted so.
_TURNED = 0.35
# Masses of a file are hardly ten times too large: below, torques hold no gravity at all.
_LEAST_GRAVITY = 0.1
# How much better another direction must explain the torques: the sum of logarithms over joints.
_BETTER = 1.0
# Share of a joint's torque that gravity of the file makes, from which gravity shows at all.
_SHOWS = 0.05


def gravity_finding(
    robot: Robot, motion: CondensedMotion, own: Array, moved: Mask
) -> tuple[float, list[Finding]]:
    """What is left unexplained with the gravity that fits best, and what that says.

    Args:
        robot: as its file describes it.
        motion: (n, n_joints) each.
        own: (n_joints,) what each joint explains of its own channel, gravity as in the file.
        moved: joints that move, of which one at least does.
    """
    given = np.array(robot.model.gravity.linear)
    size = float(np.linalg.norm(given))
    if not size > 0.0 or not motion.tau[:, moved].std(axis=0).all():
        return np.inf, []
    table = _gravity_rows(robot, motion, moved)
    if (table[:, :, :3] @ given).std(axis=1).max() < _SHOWS * size:
        return np.inf, []
    rows = table.reshape(-1, 4)
    g: Array = size * np.linalg.lstsq(rows[:, :3], rows[:, 3], rcond=1e-6)[0].astype(np.float64)
    length = float(np.linalg.norm(g))
    angle = float(np.arccos(np.clip(g @ given / (length * size), -1.0, 1.0))) if length else 0.0
    absent = length < _LEAST_GRAVITY * size
    if not absent and angle < _TURNED:
        return np.inf, []
    other: Array = np.zeros(3) if absent else g * (size / length)
    m = link_torques(under_gravity(robot, other), motion)
    left = unexplained(explain_torques(robot, motion, m, own=True).plain.diagonal(), moved)
    if left > unexplained(own, moved) - (0.0 if absent else _BETTER):
        return np.inf, []
    return left, [_missing() if absent else _turned(other, angle)]


def _gravity_rows(robot: Robot, motion: CondensedMotion, moved: Mask) -> Array:
    """(joints that move, n, 4) torque of gravity along x, y, z, and what it has to explain.

    As parts of what each joint's torque does, without what drives may need.
    """
    still = motion._replace(v=np.zeros_like(motion.v), a=np.zeros_like(motion.a))
    weightless = link_torques(under_gravity(robot, np.zeros(3)), motion)
    axes = np.linalg.norm(robot.model.gravity.linear) * np.eye(3)
    G = np.stack([link_torques(under_gravity(robot, g), still) for g in axes], axis=2)
    rows = []
    for j in np.flatnonzero(moved):
        both = np.column_stack([G[:, j], motion.tau[:, j] - weightless[:, j]])
        rows.append(without_drive(robot, motion, int(j), both) / motion.tau[:, j].std())
    return np.stack(rows)


def _turned(g: Array, angle: float) -> Finding:
    direction = ", ".join(f"{x:.2f}" for x in g)
    return Finding(
        "gravity-direction",
        "error",
        "robot",
        "gravity points another way than the robot's file (or --mount) says, by "
        f"{np.rad2deg(angle):.0f}°: torques fit a gravity of ({direction}) m/s² in the axes of the "
        "root link",
        "is the robot mounted on a wall, a ceiling or a tilted base? Say how it is mounted, with "
        f"`--gravity={','.join(f'{x:.2f}' for x in g)}`",
    )


def _missing() -> Finding:
    return Finding(
        "no-gravity",
        "error",
        "tau",
        "torques hold no gravity: they fit the robot in motion, but not the weight of its links",
        "are they gravity compensated, as controllers report them? Record the whole torque, or "
        "add what was subtracted",
    )
