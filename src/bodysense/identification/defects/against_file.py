"""What torques alone cannot tell is judged by what it makes of the parameters.

Gravity along another axis of the base, or none at all, is too far away for derivatives: a robot on
a wall or a ceiling, or torques from which gravity was taken. Gravity upside down fits with negative
masses, and none at all with no masses; and where friction prevails, any of them fits. Time that
runs too slowly and links that are longer are even the same. So how far the parameters come out from
those of the robot's file counts as well.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import solve_triangular

from bodysense.identification.defects.columns import (
    DefectCandidate,
    corrected_motion,
    gravity_of,
    with_lengths,
)
from bodysense.identification.defects.estimates import Estimates, ridge_theta
from bodysense.identification.preprocessing import Motion
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.mounting import under_gravity
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_POOR = 0.2  # relative error of a joint from which other gravities are tried
_LIKE = 0.5  # of the file's gravity torques; less, or twice as much, is unlike them
_NO_GRAVITY = 0.05  # share of a joint's torque below which the file has no gravity torque there
_SAMPLES = 600  # on which gravities are compared
_INDEPENDENT = 18.0  # rows of a joint that count as independent there
_SPREAD = 0.3  # standard deviation of a file's values, in plausible sizes of the parameters
_EVIDENCE = 10.0  # logarithm of the odds from which another gravity is followed up
_NO_WORSE = 0.02  # logarithm of the squared error by which another gravity may fit worse
_NEIGHBOUR = 0.5  # distance, in units of gravity, within which tilts reach
_SUITS = 0.25  # mean squared distance of parameters from the file up to which it suits
_SUITS_NOT = 1.0  # and from which it does not
_AGAINST = 3.0  # logarithm of the odds against a correction from which it is none
_FAR_OFF = 100.0  # mean squared distance of parameters from a file that is no measure
_CLEARLY = 4.0  # ratio of such distances from which one suits it clearly better
_UNKNOWN = 100.0  # times its plausible size: of a parameter that a file does not know
_TIME = DefectCandidate("time")
_STANDARD = 9.81  # where the robot's file has none [m/s²]


def gravity_is_doubtful(problem: Regression, estimates: Estimates, theta: Array) -> bool:
    """Whether gravity may be another: little is explained, or unlike the file's gravity torques.

    The latter by parameters theta (p,) of the problem.
    """
    noise = np.where(problem.present, estimates.noise, 0.0)
    if (noise / np.maximum(problem.torque_size, 1e-300)).max() > _POOR:
        return True
    pairs = [_gravity_torques(problem, motion, theta) for motion in problem.motions]
    ours, files = (np.concatenate(part) for part in zip(*pairs, strict=True))
    large = np.sqrt(np.mean(files**2, axis=0)) > _NO_GRAVITY * problem.torque_size
    if not large.any():
        return False
    ours, files = (x[:, large] / problem.torque_size[large] for x in (ours, files))
    share = float((ours * files).sum() / np.square(files).sum())
    return not _LIKE < share < 1.0 / _LIKE


def _gravity_torques(problem: Regression, motion: Motion, theta: Array) -> tuple[Array, Array]:
    """(m, n) gravity torques with theta (p,) and with the file's parameters, on some samples."""
    q = _thinned(problem, motion).q
    still, robot = np.zeros_like(q), problem.robot
    without = under_gravity(robot, np.zeros(3))
    ours, files = (
        inverse_dynamics(robot, q, still, still, theta=x)
        - inverse_dynamics(without, q, still, still, theta=x)
        for x in (theta, robot.theta)
    )
    return ours, files


def more_plausible_gravity(problem: Regression) -> Array | None:
    """(3,) gravity that fits no worse and makes the parameters far more plausible, if there is."""
    now = gravity_of(problem.robot)
    size = float(np.linalg.norm(now)) or _STANDARD
    others = [np.zeros(3), *(sign * size * e for e in np.eye(3) for sign in (1.0, -1.0))]
    error, distance = _judged(problem, problem.robot)
    best, most = None, _EVIDENCE
    for gravity in others:
        if np.linalg.norm(gravity - now) < _NEIGHBOUR * size:
            continue
        other, further = _judged(problem, under_gravity(problem.robot, gravity))
        rows = _INDEPENDENT * problem.n_joints
        evidence = 0.5 * (rows * (error - other) + distance - further)
        if evidence > most and other < error + _NO_WORSE:
            best, most = gravity, evidence
    return best


def contradicts_the_file(before: Regression, after: Regression, gain: float) -> bool:
    """Whether a correction leads away from the robot's file by more than it explains.

    The correction of a defect brings parameters nearer to the file's. In a short log, an error of
    the model that is the same throughout looks like a defect, and correcting that turns them into
    those of another robot. A file that is all wrong tells nothing.
    """
    (_, nearer), (_, further) = (_judged(p, p.robot, drives=False) for p in (before, after))
    if nearer > _FAR_OFF * before.size:
        return False
    explained = -_INDEPENDENT * before.n_joints * np.log1p(-min(gain, 1.0 - 1e-9))
    return bool(0.5 * (explained - (further - nearer)) < -_AGAINST)


def longer_or_slower(problem: Regression, x: float) -> str:
    """Whether ``time`` that runs by 1 + x too slowly or longer ``links`` suit the robot's file.

    In torques, lengths times (1 + x)² are the same as that; what differs are the parameters that
    come out. Where neither suits the file at all, the robot is another one; where they do not tell,
    the answer is empty.
    """
    slower = replace(problem, motions=tuple(corrected_motion(m, _TIME, x) for m in problem.motions))
    longer = with_lengths(problem.robot, (1.0 + x) ** 2)
    by_time = _judged(slower, problem.robot, drives=False)[1] / problem.size
    by_links = _judged(problem, longer, drives=False)[1] / problem.size
    if by_time < min(_SUITS, by_links / _CLEARLY):
        return "time"
    clearly = by_links < min(_SUITS, by_time / _CLEARLY)
    return "links" if clearly or min(by_time, by_links) > _SUITS_NOT else ""


def _judged(problem: Regression, robot: Robot, *, drives: bool = True) -> tuple[float, float]:
    """Mean log squared error on some samples, and squared distance of the parameters from the file.

    Of a robot with another geometry or gravity. The distance is in standard deviations of a file's
    values; those of drives are seldom in a file, and need not count.
    """
    motions = [_thinned(problem, motion) for motion in problem.motions]
    coarse = Regression.of(robot, motions, replace(problem.settings, decimate=False))
    theta_base = coarse.base.to_base(ridge_theta(coarse))
    squares, rows = coarse.squares(theta_base)
    present = rows > 0.0
    mean = np.maximum(squares[present] / rows[present], np.finfo(float).tiny)
    prior = Prior.of(coarse)
    if not drives:
        size = prior.size.copy()
        size[robot.layout.n_inertial :] *= _UNKNOWN
        prior = replace(prior, size=size)
    off = solve_triangular(prior.base_factor, theta_base - prior.theta_base, lower=True) / _SPREAD
    return float(np.average(np.log(mean), weights=rows[present])), float(off @ off)


def _thinned(problem: Regression, motion: Motion) -> Motion:
    every = -(-sum(m.t.size for m in problem.motions) // _SAMPLES)
    t, q, v, a, tau, raw = (
        np.ascontiguousarray(x[::every])
        for x in (motion.t, motion.q, motion.v, motion.a, motion.tau, motion.tau_raw)
    )
    return Motion(t, q, v, a, tau, raw, motion.rate / every, motion.log)
