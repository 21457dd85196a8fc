"""From a regression to the model that filters run on: noise of positions, torques and friction.

Torques drive the prediction, so that their noise and all that the model does not describe are its
process noise. What matters is the density of both at the frequencies of the motion. It follows from
a regression's residuals, which have passed its parallel filter with taps c at the rate r: their
variance is density · r Σ c², and white noise of that density has the variance density · f in
intervals of length 1 / f.
"""

from __future__ import annotations

import numpy as np

from bodysense.errors import MismatchError
from bodysense.identification.filtering.body_model import (
    BodyModel,
    Piece,
    Torque,
    filter_stride,
    pieces,
)
from bodysense.identification.linear.method import fit_noise_weights
from bodysense.identification.preprocessing import Plan
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.solution import noise_levels
from bodysense.logs.filtering import LEAST_RANGE, STILL_SPEED, usable_cutoff
from bodysense.robot.robot import Robot
from bodysense.simulation.propagation import Drive, Propagation
from bodysense.simulation.rollout import Integrator
from bodysense.spatial.arrays import Array

_LEAST_NOISE = 1e-7  # standard deviation of a position at least, in units of the joint's range
_LEAST_REMOVED = 0.1  # share of the variance of white noise that the low-pass filter removes
_FRICTION_FACTOR = 10.0  # on errors of friction beside white noise: they last for many samples
_PRIOR_ERROR = 0.1  # error of the prior's torque, in units of the torque, at least

_LARGEST_WIDTH = 0.2
"""Velocity over which friction changes sign, in units of the joint's r.m.s. speed, at most, if the
joint moves at all: within less than half the velocity that friction changes in one step, a joint at
rest is unstable."""


def _position_levels(problem: Regression) -> Array:
    """(n,) standard deviations of recorded positions.

    From what the low-pass filter removed. White noise leaves it the share 2 · cut-off / rate of
    its variance, by which the rest is scaled up.
    """
    n = problem.n_joints
    squares, reach, count = np.zeros(n), np.zeros(n), 0
    for motion in problem.motions:
        reach = np.maximum(reach, np.ptp(motion.q, axis=0))
        if motion.q_raw is not None:
            count += motion.t.size
            cutoff = usable_cutoff(problem.settings.cutoff or motion.rate, motion.rate)
            removed = max(1.0 - 2.0 * cutoff / motion.rate, _LEAST_REMOVED)
            squares += np.square(motion.q_raw - motion.q).sum(axis=0) / removed
    sigma: Array = np.sqrt(squares / max(count, 1))
    return np.maximum(sigma, _LEAST_NOISE * np.maximum(reach, LEAST_RANGE))


def _torque_levels(problem: Regression, theta_base: Array, rate: float) -> Array:
    """(n_logs, n) standard deviations of the mean torque of an interval, at most at `rate` [Hz].

    The second part is what is lost by holding the mean for all of it: a twelfth of the torque's
    second difference.
    """
    level = noise_levels(problem, theta_base)
    result, weight = np.zeros((2, *level.shape))
    for motion in problem.motions:
        plan = Plan.of(motion, problem.settings)
        stride = filter_stride(motion, rate)
        density = 1.0 / (motion.rate / plan.stride * float(np.square(plan.taps).sum()))
        bend = np.diff(motion.tau[::stride], 2, axis=0) / 12.0
        lost = np.mean(bend**2, axis=0) if bend.size else np.zeros(level.shape[1])
        white = level[motion.log] ** 2 * density * motion.rate / stride
        result[motion.log] += motion.t.size * (white + lost)
        weight[motion.log] += motion.t.size
    return np.sqrt(np.where(weight > 0.0, result / np.maximum(weight, 1.0), 1.0))


def _coulomb_levels(robot: Robot, theta: Array) -> Array:
    """(n,) by how much friction jumps, or nearly so, at zero velocity; zero where it does not."""
    layout, tree = robot.layout, robot.tree
    level = np.zeros(robot.n_joints)
    if tree.custom != 0:
        return level
    for term in layout.friction_terms:
        if term in ("Fc", "Fs"):
            level = np.maximum(level, np.abs(theta[layout.friction(term)]))
    for value, (term, motor) in zip(theta[layout.coupling], layout.coupled, strict=True):
        if term == "Fcm":
            level = level + abs(float(value)) * (robot.actuators.coupling[motor] != 0.0)
    return level


def _interval_levels(
    piece: Piece, torque: Array, coulomb: Array, width: Array, wider: Array
) -> Array:
    """(m - 1, n) standard deviations of the torque in each interval of a piece.

    A filter's steps are too long for friction that changes its sign within a small velocity
    (width), so it is spread over a larger one (wider): where that matters, the difference is noise.
    A standing joint holds with any friction up to its level, which is outside of every law: all of
    it is noise.
    """
    v = 0.5 * (piece.v[1:] + piece.v[:-1])
    law, taken = (np.tanh(v / np.maximum(w, 1e-12)) for w in (width, np.maximum(width, wider)))
    share = np.where(piece.still | (np.abs(v) < wider), 1.0, np.abs(law - taken))
    level: Array = np.hypot(torque, _FRICTION_FACTOR * coulomb * share)
    return level


def _early_levels(problem: Regression, theta_base: Array) -> Array:
    """(n,) errors of the prior's torques, known or likely.

    While parameters are far off, a tangent, or a few points, are less exact than noise alone would
    suggest. Process noise of this size at the start, which then fades, keeps the covariance from
    becoming too small too early.
    """
    squares, rows = problem.squares(theta_base)
    off = np.sqrt(squares.sum(axis=0) / np.maximum(rows.sum(axis=0), 1.0))
    level: Array = np.maximum(off, _PRIOR_ERROR * problem.torque_size)
    return level


def body_model(
    problem: Regression,
    prior: Prior,
    *,
    rate: float,
    torque: Torque,
    integrator: Integrator,
    substeps: int,
    drift: float,
    annealing: float,
) -> BodyModel:
    """The robot with its logs as a filter needs it; settings as in `FilterMethod`.

    Noise levels, and the width of friction for steps of this length, are taken from a
    weighted regression: it is cheap, and its errors do not matter there.

    Raises:
        MismatchError: what simulated torques need is not known, or there are too few samples.
    """
    theta = prior.untouched(fit_noise_weights(problem, prior).theta)
    walked = pieces(problem, theta, rate=rate, torque=torque)
    if not walked:
        raise MismatchError(
            "no piece of the logs has three samples in a row at the filter's rate: record for "
            "longer, or raise the rate."
        )
    theta_base = prior.to_base(theta)
    noise = _torque_levels(problem, theta_base, rate)
    jump = _coulomb_levels(problem.robot, theta)
    width = problem.robot.tree.shape[:, 0] if jump.any() else np.ones(problem.n_joints)
    speed = np.sqrt(np.mean(np.vstack([piece.v for piece in walked]) ** 2, axis=0))
    propagations: dict[float, Propagation] = {}
    wider: dict[float, Array] = {}
    for piece in walked:
        period = piece.period / max(piece.q_d.shape[1], 1)
        if period in propagations:
            continue

        def made(smallest: Array, period: float = period) -> Propagation:
            return Propagation.from_robot(
                problem.robot,
                problem.base,
                period=period,
                centre=prior.theta_base,
                scale=prior.size_base,
                integrator=integrator,
                substeps=substeps,
                smallest_width=smallest,
            )

        wider[period] = np.zeros(problem.n_joints)
        if jump.any():
            p = (theta_base - prior.theta_base) / prior.size_base
            reach = _speed_of_a_step(made(wider[period]), piece, p, jump)
            reach = reach / substeps
            # A joint that stands shows no curve of friction that could be lost.
            narrow = np.minimum(reach, _LARGEST_WIDTH * speed)
            wider[period] = np.where(speed > STILL_SPEED, narrow, reach)
        propagations[period] = made(wider[period])
    periods = [piece.period / max(piece.q_d.shape[1], 1) for piece in walked]
    fading = annealing * sum(piece.period * piece.tau.shape[0] for piece in walked)
    early = _early_levels(problem, prior.theta_base)
    levels, age = [], 0.0
    for piece, period in zip(walked, periods, strict=True):
        usual = _interval_levels(piece, noise[piece.log], jump, width, wider[period])
        t = age + piece.period * np.arange(piece.tau.shape[0])
        levels.append(np.hypot(usual, early * np.exp(-t / fading)[:, None]))
        age += piece.period * piece.tau.shape[0]
    return BodyModel(
        pieces=walked,
        propagations=[propagations[period] for period in periods],
        levels=levels,
        instruments=[piece.explained for piece in walked],
        sigma=_position_levels(problem),
        drift=drift,
        fading=fading,
    )


def _speed_of_a_step(propagation: Propagation, piece: Piece, p: Array, jump: Array) -> Array:
    """(n,) velocity that a jump of friction changes in one period; in less, steps overshoot."""
    x = np.concatenate([p, piece.q[0], piece.v[0]])
    none = piece.q_d[0][:0]
    G = propagation.tangent(x, Drive(piece.tau[0], none, none))[2]
    speed = np.abs(np.diag(G[propagation.n_joints :])) * jump
    return np.where(np.isfinite(speed), speed, 0.0)
