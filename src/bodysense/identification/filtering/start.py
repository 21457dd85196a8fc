"""What a filter believes of the parameters before it starts.

The plausible sizes of a robot's parameters leave it open whether its mass matrix is positive: each
rotor's inertia may be as large as would explain all of the torque. A regression does not mind. A
filter divides by the mass matrix and believes what a tangent or a few points tell, so that it must
start where these mean something. Beside the prior N(theta_0, spread² L Lᵀ) stands therefore, in
some postures q of the log,

    ‖M_0^-½ (M(q, theta) - M_0) M_0^-½‖ ~ ρ,       M_0 = M(q, theta_0)

which says that masses are not off by far more than the share ρ. It is one observation against
thousands of the log: where the prior is wrong, the data prevail.

A prior that does not explain the torques at all, as of a robot file without rotors and friction, is
no place to start from. The filter then starts from ridge regression of the same data, which stays
with the prior where the data say nothing; that the data are used twice hardly counts, as the
covariance of the start is as wide as ever.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from bodysense.identification.filtering.outcome import torque_error
from bodysense.identification.linear.ridge import Ridge
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.robot.regressors import torque_regressor
from bodysense.spatial.arrays import Array

_POSTURES = 8
_LEAST_EIGENVALUE = 1e-3  # of the largest: where the prior's mass matrix is not positive

_HELD = 1e-4
"""Standard deviation, in the prior's, of what no motion shows: plain forms need some."""

_UNEXPLAINED = 0.5
"""Share of the torque that a prior leaves unexplained, from which on it is no place to start."""


def start_mean(problem: Regression, prior: Prior) -> tuple[Array, str]:
    """(b,) base parameters to start from, and what to say about them."""
    if torque_error(problem, prior.theta_base) <= _UNEXPLAINED:
        return prior.theta_base, ""
    return prior.to_base(Ridge().theta(problem)), (
        "The prior explains too little of the torques, so that the filter starts from ridge."
    )


def start_factor(
    problem: Regression,
    prior: Prior,
    theta_base: Array,
    shown: tuple[Array, Array],
    *,
    spread: float,
    mass_spread: float,
) -> Array:
    """(b, b) lower-triangular root of the covariance of p = (theta_base - prior) / size.

    Args:
        problem: with the postures.
        prior: what is known before.
        theta_base: (b,) where the filter starts.
        shown: directions that the motion shows, and others, which keep to the start.
        spread: standard deviation of the prior in plausible sizes.
        mass_spread: ρ.
    """
    L = scaled_factor(prior)
    b = L.shape[0]
    information = solve_triangular(L, np.eye(b), lower=True) / spread
    rows = _mass_rows(problem, theta_base) * prior.size_base / (mass_spread * np.sqrt(_POSTURES))
    R = np.linalg.qr(np.vstack([information, rows]), mode="r")
    root = solve_triangular(R, np.eye(b))
    seen, hidden = shown
    if hidden.size:
        unit = prior.size_base[:, None]
        x = solve_triangular(prior.base_factor, unit * root, lower=True)
        x = np.hstack([seen @ (seen.T @ x), _HELD * hidden])
        root = prior.base_factor @ x / unit
    return _lower(root)


def scaled_factor(prior: Prior) -> Array:
    """(b, b) lower-triangular root of the prior's covariance of p = (theta_base - prior) / size."""
    return _lower(prior.base_factor / prior.size_base[:, None])


def _lower(root: Array) -> Array:
    """(b, b) lower-triangular root, of positive diagonal, of the same covariance as root (b, k)."""
    R = np.linalg.qr(root.T, mode="r")
    sign = np.where(np.diag(R) < 0.0, -1.0, 1.0)
    return np.ascontiguousarray((sign[:, None] * R).T)


def _mass_rows(problem: Regression, theta_base: Array) -> Array:
    """(m, b) derivatives of M_0^-½ M M_0^-½ by the base parameters in some postures."""
    n, b = problem.n_joints, problem.base.size
    q = np.concatenate([motion.q for motion in problem.motions])
    q = np.repeat(q[np.linspace(0, len(q) - 1, _POSTURES).astype(np.int64)], n + 1, axis=0)
    a = np.tile(np.vstack([np.zeros(n), np.eye(n)]), (_POSTURES, 1))
    Y = torque_regressor(
        problem.robot, q, np.zeros_like(a), a, columns=problem.base.independent
    ).reshape(_POSTURES, n + 1, n, b)
    rows = []
    for posture in Y:
        basis = posture[1:] - posture[0]  # (n, n, b): columns of M by parameter
        values, vectors = np.linalg.eigh(basis @ theta_base)
        values = np.maximum(np.abs(values), _LEAST_EIGENVALUE * np.abs(values).max())
        root = (vectors / np.sqrt(values)) @ vectors.T
        rows.append(np.einsum("ij,jkb,kl->ilb", root, basis, root).reshape(n * n, b))
    return np.concatenate(rows)
