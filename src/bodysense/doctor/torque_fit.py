"""How well the physics of a joint explains a torque channel.

    tau_k ≈ c m_j(q, v, a) + Ia a_j + Fv v_j + Fc sign(v_j) + constant,      c, Ia, Fv, Fc >= 0

with m_j the torque that the links of the robot's file would need. None of the four may be negative:
links are lifted, rotors sped up and friction overcome by a torque in the direction of what it
does. So a channel with the wrong sign, or that of another joint, is hardly explained at all, while
a robot file with wrong masses and no friction hardly matters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bodysense.doctor.diagnosis import LogSamples
from bodysense.robot.dynamics import inverse_dynamics, torque_regressor
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

# A short and smooth version of the samples, for checks that need velocities and accelerations.
#
# Positions and torques pass the same filter, so that what it takes from the one it takes from the
# other: averages of 10 ms, then a Gaussian of 20 ms.

_STEP = 0.01  # s: 100 Hz shows all that an arm does
_SIGMA = 2.0  # steps
_LEAST = 30  # steps in a piece
# Checks of units need thousands of samples, not a day of them.
_MOST = 20_000


class Condensed(NamedTuple):
    """Even, smooth samples of all pieces, one after the other.

    Attributes:
        q: (n, n_joints) positions.
        v: (n, n_joints) velocities, from positions.
        a: (n, n_joints) accelerations, from positions.
        tau: (n, n_joints) torques; (n, 0) where they are not examined.
        v_recorded: (n, n_joints) velocities as recorded, if they were.
    """

    q: Array
    v: Array
    a: Array
    tau: Array
    v_recorded: Array | None

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.q.shape[0])


def condensed(samples: LogSamples) -> Condensed:
    """Average, resample, smooth and differentiate; pieces that are too short are left out."""
    width = max(_STEP, samples.period)
    blocks = [samples.q, samples.tau, *([] if samples.v is None else [samples.v])]
    parts: list[list[Array]] = []
    for part in samples.slices():
        result = _even(samples.t[part], [values[part] for values in blocks], width)
        if result is not None:
            q = result[0]
            v = np.gradient(q, width, axis=0)
            a = np.gradient(v, width, axis=0)
            parts.append([q, v, a, *result[1:]])
    if not parts:
        empty = np.zeros((0, len(samples.joint_names)))
        return Condensed(empty, empty, empty, empty, None if samples.v is None else empty)
    whole = [np.concatenate(group) for group in zip(*parts, strict=True)]
    every = 1 + whole[0].shape[0] // _MOST
    whole = [np.ascontiguousarray(values[::every]) for values in whole]
    q, v, a, tau = whole[:4]
    return Condensed(q, v, a, tau, whole[4] if len(whole) > 4 else None)


def _even(t: Array, blocks: list[Array], width: float) -> list[Array] | None:
    """The blocks at even times `width` apart, smoothed; nothing where that is impossible."""
    from scipy.ndimage import gaussian_filter1d

    if t.size < _LEAST or not np.isfinite(width):
        return None
    place = np.floor((t - t[0]) / width)
    # A piece has no long gaps: more steps than samples by far are no time axis.
    if not place[-1] < 10.0 * t.size or place[-1] < _LEAST:
        return None
    first = np.concatenate([[0], np.flatnonzero(np.diff(place)) + 1])
    count = np.diff(np.append(first, t.size))
    # From the first time, for sums of large times would lose the small steps.
    mean = np.add.reduceat(t - t[0], first) / count
    even = np.arange(mean[0], mean[-1], width)
    if even.size < _LEAST:
        return None
    results = []
    for values in blocks:
        columns = np.add.reduceat(values, first, axis=0) / count[:, np.newaxis]
        grid = np.empty((even.size, values.shape[1]))
        for j, x in enumerate(columns.T):
            grid[:, j] = np.interp(even, mean, x)
        results.append(gaussian_filter1d(grid, _SIGMA, axis=0, mode="nearest"))
    # The ends lean on values that are not there.
    inner = slice(int(2 * _SIGMA), even.size - int(2 * _SIGMA))
    return [values[inner] for values in results]


_GREATEST_LOAD = 0.5


class Fit(NamedTuple):
    """What joint j (row) explains of torque channel k (column), as a part of its variance.

    Attributes:
        plain: (n_joints, n_joints) for the channels as they are, 0 to 1.
        opposite: (n_joints, n_joints) for the channels with opposite sign.
    """

    plain: Array
    opposite: Array


class Weight(NamedTuple):
    """How a channel compares with the weight and inertia of the links, joint by joint.

    Attributes:
        factor: (n_joints,) c of the channel on what of m neither friction nor rotor resembles.
        share: (n_joints,) part of the rest of the channel that it explains, 0 to 1.
        size: (n_joints,) root mean square of m [N·m].
    """

    factor: Array
    share: Array
    size: Array


def link_torques(robot: Robot, motion: Condensed) -> Array:
    """(n, n_joints) torques that the links alone need: no rotors, no friction."""
    theta = robot.theta.copy()
    theta[robot.layout.n_inertial :] = 0.0
    return inverse_dynamics(robot, motion.q, motion.v, motion.a, theta=theta)


def loaded_torques(robot: Robot, motion: Condensed, m: Array) -> Array:
    """(n, n_joints) link torques with the load in the hand that explains the channels best.

    A load that the robot's file does not know outweighs the links of a wrist by far. It hangs on
    the last links, and all joints must agree about it.
    """
    from scipy.optimize import lsq_linear

    layout, parent = robot.layout, robot.tree.parent
    leaves = [k for k in range(layout.n_links) if k not in parent]
    columns = np.concatenate([np.arange(layout.size)[layout.link(k)] for k in leaves])
    Y = torque_regressor(robot, motion.q, motion.v, motion.a, columns=columns)
    rows, targets = [], []
    for j in range(robot.n_joints):
        scale = motion.tau[:, j].std()
        if scale > 0.0:
            Q, _ = np.linalg.qr(np.stack([*_drive(robot, motion, j), np.ones(motion.n)], axis=1))
            free = np.column_stack([Y[:, j], motion.tau[:, j] - m[:, j]])
            free = (free - Q @ (Q.T @ free)) / scale
            rows.append(free[:, :-1])
            targets.append(free[:, -1])
    if not rows:
        return m
    # Half the robot's own mass, at most half a metre away: no arm carries more.
    most = _GREATEST_LOAD * sum(robot.pi(k)[0] for k in range(layout.n_links))
    upper = np.tile(most * np.array([1.0, *[0.5] * 3, *[0.25] * 6]), len(leaves))
    lower = np.where(np.isin(np.arange(columns.size) % 10, (0, 4, 6, 9)), 0.0, -upper)
    if not most > 0.0:
        return m
    # Through the small triangular factor: the same solution, from 4000 times fewer rows.
    stacked = np.column_stack([np.concatenate(rows), np.concatenate(targets)])
    R = np.linalg.qr(stacked).R
    load = lsq_linear(R[:, :-1], R[:, -1], bounds=(lower, upper)).x
    return np.asarray(m + Y @ load)


def explained(robot: Robot, motion: Condensed, m: Array, *, own: bool = False) -> Fit:
    """Hold every torque channel against every joint, or only each against its own.

    Args:
        robot: the robot.
        motion: what was recorded.
        m: (n, n_joints) link torques.
        own: leave all but the diagonals of the result zero.
    """
    from scipy.optimize import nnls

    tau = motion.tau - motion.tau.mean(axis=0)
    total = np.einsum("tk,tk->k", tau, tau)
    n = robot.n_joints
    fit = Fit(np.zeros((n, n)), np.zeros((n, n)))
    for j in range(n):
        Q, R = np.linalg.qr(_unit(np.stack([m[:, j], *_drive(robot, motion, j)], axis=1)))
        b = Q.T @ tau
        unseen = np.maximum(total - np.einsum("ik,ik->k", b, b), 0.0)
        for k in [j] if own else range(n):
            if not total[k] > 0.0:
                continue
            for table, sign in ((fit.plain, 1.0), (fit.opposite, -1.0)):
                _, rest = nnls(R, sign * b[:, k])
                table[j, k] = 1.0 - (unseen[k] + rest**2) / total[k]
    return fit


def weight(robot: Robot, motion: Condensed, m: Array) -> Weight:
    """Scale of each joint's own channel against its link torques m (n, n_joints)."""
    n = robot.n_joints
    factor, share = np.full(n, np.nan), np.zeros(n)
    for j in range(n):
        Q, _ = np.linalg.qr(np.stack([*_drive(robot, motion, j), np.ones(motion.n)], axis=1))
        own, tau = m[:, j] - Q @ (Q.T @ m[:, j]), motion.tau[:, j] - Q @ (Q.T @ motion.tau[:, j])
        if own @ own > 0.0 and tau @ tau > 0.0:
            factor[j] = (own @ tau) / (own @ own)
            share[j] = (own @ tau) ** 2 / ((own @ own) * (tau @ tau))
    return Weight(factor, share, np.sqrt(np.mean(m * m, axis=0)))


def _drive(robot: Robot, motion: Condensed, j: int) -> list[Array]:
    """What the drives themselves need: acceleration, speed and direction, of coupled motors too."""
    columns = [motion.a[:, j], motion.v[:, j], np.sign(motion.v[:, j])]
    for k in robot.actuators.coupled_motors:
        c = robot.actuators.coupling[k]
        if c[j] != 0.0:
            speed = motion.v @ c
            columns += [c[j] * (motion.a @ c), c[j] * speed, c[j] * np.sign(speed)]
    return columns


def _unit(columns: Array) -> Array:
    """The columns without their means, each of length one."""
    columns = columns - columns.mean(axis=0)
    norm = np.linalg.norm(columns, axis=0)
    return np.asarray(columns / np.where(norm > 0.0, norm, np.inf))
