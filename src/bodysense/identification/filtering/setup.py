"""From a regression to the model that filters run on."""

from __future__ import annotations

import numpy as np

from bodysense.errors import MismatchError
from bodysense.identification.filtering.body_model import BodyModel
from bodysense.identification.filtering.levels import (
    coulomb_levels,
    early_levels,
    interval_levels,
    position_levels,
    torque_levels,
)
from bodysense.identification.filtering.pieces import Piece, Torque, pieces
from bodysense.identification.linear.wls import WLS
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.simulation.propagation import Drive, Propagation
from bodysense.simulation.rollout import Integrator
from bodysense.spatial.arrays import Array

_WIDEST = 0.2
"""Friction is spread over at most this share of a joint's r.m.s. speed."""


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
    """The robot with its logs as a filter needs it; settings as in `FilterIdentifier`.

    Noise levels, and how far friction must be spread for steps of this length, are taken from a
    weighted regression: it is cheap, and its errors do not matter there.

    Raises:
        MismatchError: what simulated torques need is not known, or there are too few samples.
    """
    theta = WLS().theta(problem)
    walked = pieces(problem, theta, rate=rate, torque=torque)
    if not walked:
        raise MismatchError(
            "no piece of the logs has three samples in a row at the filter's rate: record for "
            "longer, or raise the rate."
        )
    theta_base = prior.to_base(theta)
    noise = torque_levels(problem, theta_base, rate)
    jump = coulomb_levels(problem.robot, theta)
    width = problem.robot.tree.shape[:, 0] if jump.any() else np.ones(problem.n_joints)
    speed = np.sqrt(np.mean(np.vstack([piece.v for piece in walked]) ** 2, axis=0))
    propagations: dict[float, Propagation] = {}
    wider: dict[float, Array] = {}
    for piece in walked:
        period = piece.period / max(piece.q_d.shape[1], 1)
        if period in propagations:
            continue

        def made(smallest: Array, period: float = period) -> Propagation:
            return Propagation.of(
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
            wider[period] = np.minimum(reach / substeps, _WIDEST * speed)
        propagations[period] = made(wider[period])
    periods = [piece.period / max(piece.q_d.shape[1], 1) for piece in walked]
    fading = annealing * sum(piece.period * piece.tau.shape[0] for piece in walked)
    early = early_levels(problem, prior.theta_base)
    levels, age = [], 0.0
    for piece, period in zip(walked, periods, strict=True):
        usual = interval_levels(piece, noise[piece.log], jump, width, wider[period])
        t = age + piece.period * np.arange(piece.tau.shape[0])
        levels.append(np.hypot(usual, early * np.exp(-t / fading)[:, None]))
        age += piece.period * piece.tau.shape[0]
    return BodyModel(
        pieces=walked,
        propagations=[propagations[period] for period in periods],
        levels=levels,
        instruments=[piece.explained for piece in walked],
        sigma=position_levels(problem),
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
