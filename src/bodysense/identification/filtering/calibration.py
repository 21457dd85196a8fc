"""How sure a filter's parameters are, when it is surprised more often than it should be.

A filter's covariance holds if noise is as told. Where innovations are larger, or follow each other
instead of being white, the information that it took from the data is worth less by a level c. With
eigenvalues e of its covariance, in coordinates in which the prior is a ball of variance s², data
told it d = 1 / e - 1 / s², and

    by data alone: c / d,         of the estimate: (c d + 1 / s²) / (d + 1 / s²)²

which are both e for c = 1 and little prior.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from bodysense.identification.filtering.body_model import BodyModel
from bodysense.identification.filtering.outcome import Outcome
from bodysense.identification.filtering.start import scaled_factor
from bodysense.identification.identification import Iteration
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.uncertainty import (
    BaseUncertainty,
    autocorrelation,
    correlation_lags,
    parzen,
)
from bodysense.spatial.arrays import Array

_UNKNOWN = 1e4
"""Variance, in units of the prior's, of directions that the data say nothing about."""

_UNSEEN = 1e-9
"""Directions of which the motion shows this much less than of the strongest one."""

_SUREST = 1e-20
"""Variance, in units of the prior's, below which nothing is known."""

_LEGS = 10  # of which the trace tells


def innovation_level(outcome: Outcome, model: BodyModel) -> float:
    """c: mean square of innovations in variances, times how far they are from white; at least 1.

    How far is the sum of their autocorrelations under the Parzen window, as for residuals of a
    regression; the largest over the pieces.
    """
    sums = [
        1.0 + 2.0 * float(parzen(lags)[1 : rho.size] @ rho[1 : lags + 1])
        for rho, lags, _, _ in _whiteness(outcome, model)
    ]
    return max(1.0, outcome.surprise * max([1.0, *sums]))


def correlation_times(outcome: Outcome, model: BodyModel, n_logs: int) -> Array:
    """(n_logs,) how long innovations stay correlated [s]."""
    times = np.zeros(n_logs)
    for _, lags, log, period in _whiteness(outcome, model):
        times[log] = max(times[log], lags * period)
    return times


def _whiteness(outcome: Outcome, model: BodyModel) -> list[tuple[Array, int, int, float]]:
    """For each piece: autocorrelation of its innovations, lags of it, log and period."""
    found, at = [], 0
    for piece in model.pieces:
        rows = outcome.innovations[at + 1 : at + piece.y.shape[0]]
        at += piece.y.shape[0]
        rows = rows[np.isfinite(rows).all(axis=1)]
        if rows.shape[0] >= 8:
            rho = autocorrelation(rows)
            found.append((rho, correlation_lags(rho), piece.log, piece.period))
    return found


def shown_by(problem: Regression, prior: Prior) -> tuple[Array, Array]:
    """(b, k) and (b, b - k): directions of x, theta_base = L x, that the motion shows, and others.

    A joint that stood throughout trembles a little in a filter, which would take that for news of
    its inertia and friction.
    """
    A = problem.stack(np.ones((problem.n_logs, problem.n_joints))).A
    s, Vt = np.linalg.svd(A @ prior.base_factor)[1:]
    seen = s > _UNSEEN * s.max(initial=0.0)
    return Vt[seen].T, Vt[~seen].T


def filtered_uncertainty(
    prior: Prior,
    outcome: Outcome,
    shown: tuple[Array, Array],
    *,
    spread: float,
    level: float,
    correlation_time: Array,
) -> BaseUncertainty:
    """Covariance of the base parameters, of the estimate and from the data alone.

    Args:
        prior: what was known before.
        shown: directions that the motion shows, and others, which are as the prior says.
        outcome: the filter's.
        spread: s of the prior that it started from.
        level: c.
        correlation_time: (n_logs,) to pass on.
    """
    L = scaled_factor(prior)
    U, s, _ = np.linalg.svd(solve_triangular(L, outcome.root, lower=True))
    held = 1.0 / spread**2
    with np.errstate(divide="ignore"):
        told = np.maximum(1.0 / s**2 - held, 0.0)
    told = np.minimum(told, 1e30)
    variance = (level * told + held) / (told + held) ** 2
    by_data = np.minimum(level / np.maximum(told, level / _UNKNOWN), _UNKNOWN)
    seen, hidden = shown
    variance = np.maximum(np.minimum(variance, spread**2), _SUREST)
    root = prior.base_factor @ np.hstack([seen @ (seen.T @ (U * np.sqrt(variance))), hidden])
    C = root @ root.T
    root = np.hstack([seen @ (seen.T @ (U * np.sqrt(by_data))), np.sqrt(_UNKNOWN) * hidden])
    D = root @ root.T
    return BaseUncertainty(
        covariance=0.5 * (C + C.T),
        by_data=0.5 * (D + D.T),
        widening=np.ones(s.size),
        correlation_time=correlation_time,
    )


def trace(outcome: Outcome) -> tuple[Iteration, ...]:
    """Ten legs: mean NIS, and how far the parameters moved, in plausible sizes."""
    steps, before = [], np.zeros(outcome.mean.size)
    for leg in np.array_split(np.arange(outcome.nis.size), _LEGS):
        seen = leg[np.isfinite(outcome.nis[leg])]
        if seen.size == 0:
            continue
        cost = float(outcome.nis[seen].mean())
        now = outcome.path[seen[-1]]
        if not (np.isfinite(cost) and np.isfinite(now).all()):
            break
        steps.append(Iteration(cost, float(np.linalg.norm(now - before) / np.sqrt(now.size))))
        before = now
    return tuple(steps)
