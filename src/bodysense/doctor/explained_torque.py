"""What of the torques the robot's links, rotors and friction could need.

    tau_k ≈ c m_j(q, v, a) + Ia a_j + Fv v_j + Fc sign(v_j) + constant,      c, Ia, Fv, Fc >= 0

with m_j the torque that the links of the robot's file would need. None of the four may be negative:
links are lifted, rotors sped up and friction overcome by a torque in the direction of what it
does. So a channel with the wrong sign, or that of another joint, is hardly explained at all, while
a robot file with wrong masses and no friction hardly matters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bodysense.doctor.motion import CondensedMotion, unit_columns
from bodysense.doctor.samples import Mask
from bodysense.robot.dynamics import inverse_dynamics, torque_regressor
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

# Largest load in the hand, as a share of the robot's own mass.
_GREATEST_LOAD = 0.5
# No fit is trusted to be better than this: all clean ones would differ endlessly.
FLOOR = 0.005


class Explained(NamedTuple):
    """What joint j (row) explains of torque channel k (column), as a part of its variance.

    (n_joints, n_joints) each, 0 to 1, for the channels as they are and with opposite sign.
    """

    plain: Array
    opposite: Array


def unexplained(plain: Array, moved: Mask) -> float:
    """How much is left unexplained, all joints together: the sum of logarithms."""
    return float(np.log(np.maximum(1.0 - plain[moved], FLOOR)).sum())


def link_torques(robot: Robot, motion: CondensedMotion) -> Array:
    """(n, n_joints) torques that the links alone need: no rotors, no friction."""
    theta = robot.theta.copy()
    theta[robot.layout.n_inertial :] = 0.0
    return inverse_dynamics(robot, motion.q, motion.v, motion.a, theta=theta)


def loaded_torques(robot: Robot, motion: CondensedMotion, m: Array) -> Array:
    """(n, n_joints) link torques with the load in the hand that explains the channels best.

    A load that the robot's file does not know outweighs the links of a wrist by far. It hangs on
    the last links, and all joints must agree about it.
    """
    from scipy.optimize import lsq_linear

    layout, parent = robot.layout, robot.tree.parent
    leaves = [k for k in range(layout.n_links) if k not in parent]
    columns = np.concatenate([np.arange(layout.size)[layout.link(k)] for k in leaves])
    Y = torque_regressor(robot, motion.q, motion.v, motion.a, columns=columns)
    rows = []
    for j in range(robot.n_joints):
        scale = motion.tau[:, j].std()
        if scale > 0.0:
            both = np.column_stack([Y[:, j], motion.tau[:, j] - m[:, j]])
            rows.append(without_drive(robot, motion, j, both) / scale)
    if not rows:
        return m
    # Half the robot's own mass, at most half a metre away: no arm carries more.
    most = _GREATEST_LOAD * sum(robot.pi(k)[0] for k in range(layout.n_links))
    upper = np.tile(most * np.array([1.0, *[0.5] * 3, *[0.25] * 6]), len(leaves))
    lower = np.where(np.isin(np.arange(columns.size) % 10, (0, 4, 6, 9)), 0.0, -upper)
    if not most > 0.0:
        return m
    # Through the small triangular factor: the same solution, from 4000 times fewer rows.
    R = np.linalg.qr(np.concatenate(rows)).R
    load = lsq_linear(R[:, :-1], R[:, -1], bounds=(lower, upper)).x
    return np.asarray(m + Y @ load)


def explain(robot: Robot, motion: CondensedMotion, m: Array, *, own: bool = False) -> Explained:
    """Hold every torque channel against every joint, or only each against its own.

    m: (n, n_joints) link torques. With `own`, all but the diagonals of the result are zero.
    """
    from scipy.optimize import nnls

    tau = motion.tau - motion.tau.mean(axis=0)
    total = np.einsum("tk,tk->k", tau, tau)
    n = robot.n_joints
    fit = Explained(*np.zeros((2, n, n)))
    for j in range(n):
        Q, R = np.linalg.qr(
            unit_columns(np.stack([m[:, j], *drive_columns(robot, motion, j)], axis=1))
        )
        b = Q.T @ tau
        unseen = np.maximum(total - np.einsum("ik,ik->k", b, b), 0.0)
        for k in [j] if own else range(n):
            if not total[k] > 0.0:
                continue
            for table, sign in ((fit.plain, 1.0), (fit.opposite, -1.0)):
                _, rest = nnls(R, sign * b[:, k])
                table[j, k] = 1.0 - (unseen[k] + rest**2) / total[k]
    return fit


def weigh(robot: Robot, motion: CondensedMotion, m: Array) -> tuple[Array, Array]:
    """(n_joints,) c of each joint's own channel, and the part of the channel that it explains.

    Both of what of the link torques m (n, n_joints) neither friction nor rotor resembles.
    """
    n = robot.n_joints
    factor, share = np.full(n, np.nan), np.zeros(n)
    for j in range(n):
        both = np.column_stack([m[:, j], motion.tau[:, j]])
        own, tau = without_drive(robot, motion, j, both).T
        if own @ own > 0.0 and tau @ tau > 0.0:
            factor[j] = (own @ tau) / (own @ own)
            share[j] = (own @ tau) ** 2 / ((own @ own) * (tau @ tau))
    return factor, share


def drive_columns(robot: Robot, motion: CondensedMotion, j: int) -> list[Array]:
    """What the drives themselves need: acceleration, speed and direction, of coupled motors too."""
    columns = [motion.a[:, j], motion.v[:, j], np.sign(motion.v[:, j])]
    for k in robot.actuators.coupled_motors:
        c = robot.actuators.coupling[k]
        if c[j] != 0.0:
            speed = motion.v @ c
            columns += [c[j] * (motion.a @ c), c[j] * speed, c[j] * np.sign(speed)]
    return columns


def without_drive(robot: Robot, motion: CondensedMotion, j: int, x: Array) -> Array:
    """(n, k) what of x (n, k) no drive of joint j and no constant explains."""
    Q, _ = np.linalg.qr(np.stack([*drive_columns(robot, motion, j), np.ones(motion.n)], axis=1))
    return np.asarray(x - Q @ (Q.T @ x))
