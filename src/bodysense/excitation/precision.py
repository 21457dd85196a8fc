"""How precisely parameters come out of a motion: noise, plausible sizes, standard deviations.

With rows divided by the standard deviation of the torque's noise, the covariance of the estimate
by weighted least squares is

    Sigma = (WᵀW)⁻¹.

The noise is taken for white: every sample of the recording counts, so that four times the rate
halves the standard deviations. A filter that is applied to both sides of the equations, and
leaves the motion as it is, loses none of that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import TrajectoryError
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, one_each

_SHARE = 0.01
_EFFORT_SHARE = 0.1  # of the effort limit: root mean square of a motion's torque, about
_GRAVITY_SHARE = 0.5  # of gravity's greatest torque, likewise
_MOTION_SHARE = 0.25  # of the greatest speeds and accelerations, likewise


def torque_scale(robot: Robot, effort: Array) -> Array:
    """(n_joints,) size of the torques: the effort limit, or where there is none that of gravity.

    Gravity's is its greatest torque over random poses; joints that gravity does not load take the
    robot's greatest one, robots without any load 1 N·m.
    """
    rng = np.random.default_rng(0)
    q = rng.uniform(-np.pi, np.pi, (100, robot.n_joints))
    still = np.zeros_like(q)
    gravity = np.abs(inverse_dynamics(robot, q, still, still)).max(axis=0)
    most = gravity.max(initial=0.0)
    gravity = np.where(gravity > 0.01 * most, gravity, most if most > 0.0 else 1.0)
    return np.asarray(np.where(np.isfinite(effort), effort, gravity))


def torque_noise(robot: Robot, effort: Array, noise: ArrayLike | None) -> Array:
    """(n_joints,) standard deviations of the raw torque's white noise [N·m or N].

    If None, 1 % of the torque's size, see `torque_scale`.
    """
    if noise is None:
        return _SHARE * torque_scale(robot, effort)
    sigma = one_each(noise, robot.n_joints, "noise")
    if not (sigma > 0.0).all():
        j = int(np.argmin(sigma))
        raise TrajectoryError(
            f"noise of joint {robot.joint_names[j]} is {sigma[j]:g}: give its standard deviation, "
            "a number above zero."
        )
    return sigma


def plausible_sizes(robot: Robot, effort: Array, velocity: Array, acceleration: Array) -> Array:
    """(layout.size,) how large each parameter could plausibly be.

    For a link of mass m with radius r (the greater of the distance of its centre of mass and its
    radius of gyration): m, m r and m r² for mass, first moments and inertia. For a drive what
    would by itself explain the torque of a motion, as an identification judges them: a torque of
    10 % of the effort limit, or of half of gravity's greatest torque where there is none, over a
    quarter of the greatest acceleration for a rotor, over a quarter of the greatest speed for
    friction that grows with it (1 rad/s or 1 rad/s² where a joint may not move).

    Args:
        robot: the robot.
        effort: (n_joints,) greatest torques, infinite for no limit [N·m or N].
        velocity: (n_joints,) greatest speeds [rad/s or m/s].
        acceleration: (n_joints,) greatest accelerations [rad/s² or m/s²].
    """
    velocity = np.where(velocity > 0.0, _MOTION_SHARE * velocity, 1.0)
    acceleration = np.where(acceleration > 0.0, _MOTION_SHARE * acceleration, 1.0)
    layout = robot.layout
    size = np.empty(layout.size)
    masses = np.array([robot.pi(k)[0] for k in range(layout.n_links)])
    least = max(1e-3 * masses.sum(), 1e-3)
    for k in range(layout.n_links):
        pi = robot.pi(k)
        m = max(pi[0], least)
        trace = max(0.5 * (pi[4] + pi[6] + pi[9]), 0.0)
        r = max(float(np.linalg.norm(pi[1:4])) / m, np.sqrt(trace / m), 0.01)
        size[layout.link(k)] = m * np.array([1.0, r, r, r, r**2, r**2, r**2, r**2, r**2, r**2])
    share = np.where(np.isfinite(effort), _EFFORT_SHARE, _GRAVITY_SHARE)
    torque = share * torque_scale(robot, effort)
    size[layout.rotor] = torque / acceleration
    for term in layout.friction_terms:
        size[layout.friction(term)] = torque / velocity if term == "Fv" else torque
    for place, (term, motor) in zip(
        range(layout.coupling.start, layout.size), layout.coupled, strict=True
    ):
        by = {"Iam": torque[motor] / acceleration[motor], "Fvm": torque[motor] / velocity[motor]}
        size[place] = by.get(term, torque[motor])
    return size


def base_sizes(base: BaseParameters, sizes: Array) -> Array:
    """(b,) plausible sizes of base parameters: those of what is grouped into them, as if random."""
    return np.asarray(np.sqrt(base.mapping**2 @ sizes**2))


def standard_deviations(M: Array) -> Array:
    """(b,) square roots of the diagonal of M⁻¹; infinite where M does not tell."""
    scale = np.sqrt(np.maximum(np.diag(M), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(M / np.outer(scale, scale))
    silent = values <= 1e-14 * values.max(initial=1.0)
    inverse = np.where(silent, 0.0, 1.0 / np.where(silent, 1.0, values))
    sigma = np.sqrt((vectors**2) @ inverse) / scale
    affected = (vectors[:, silent] ** 2).sum(axis=1) > 1e-6
    return np.asarray(np.where(affected, np.inf, sigma))
