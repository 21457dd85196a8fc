"""Which relaxation the data ask for: its kind and weight by their evidence.

With theta = theta_0 + D x and x ~ N(0, 1), as a relaxation of weight λ says of the robot's file,
the reduced problem is distributed as

    z ~ N(A B theta_0,  A B D (A B D)ᵀ + C),

C being the covariance of its noise from residuals that are correlated in time. Its density is the
evidence of the relaxation (MacKay 1992, Bayesian interpolation). Directions that the motion excites
tell how far off the file is, and so how much it may say where the motion excites nothing: a file of
zeros, or of placeholders, contradicts them and gets next to no weight. Only these count: in a
direction that is hardly excited, an error of the model looks like a file that is off by hundreds of
plausible sizes. It costs a singular value decomposition and a small factorisation per candidate,
and no semidefinite program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from bodysense.identification.consistent.relaxation import Relaxation, without_volume
from bodysense.identification.linear.method import fit_noise_weights
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.uncertainty import score_covariance
from bodysense.spatial.arrays import Array

_WELL_EXCITED = 3.0
"""Standard deviation of the prior, a plausible size, over that of the data, from which a direction
is left to the data."""

_CERTAIN = 30.0
"""The same for white noise: residuals that stay correlated over a hundred rows divide it by ten."""

_WEIGHTS = tuple(10.0 ** (power / 2.0) for power in range(-6, 9))
"""Weights that are compared: from a file off by thirty plausible sizes to one off by 1 %."""

_LEAST_OF_BODIES = 1.0
"""Weight of a distance between bodies at least: with less, masses are off by more than half, and
such a prior can pass errors of the model for errors of the file."""

_LEAST_NOISE = 0.1  # variance of a direction's noise at least, in units of white noise
_UNREACHED = 1e-9  # effect, over the strongest, of a direction that the data do not reach


class Excitation(NamedTuple):
    """What the data say of each direction of the base parameters.

    Attributes:
        U: (b, b) directions of the reduced problem, as columns.
        s: (b,) their effects, in standard deviations of white noise per plausible size.
        noise: (b,) variance of the noise in each, in units of white noise; at least its median.
        A: (b, b) of the reduced problem.
        z: (b,).
    """

    U: Array
    s: Array
    noise: Array
    A: Array
    z: Array

    @property
    def weak(self) -> int:
        """Number of directions in which the data are hardly better than the prior."""
        return int((self.s < _WELL_EXCITED * np.sqrt(self.noise)).sum())

    @property
    def informative(self) -> NDArray[np.bool_]:
        """(b,) directions in which a file that is off by a plausible size differs from noise."""
        told: NDArray[np.bool_] = self.s > _WELL_EXCITED * np.sqrt(np.maximum(self.noise, 1.0))
        return told

    @property
    def level(self) -> float:
        """Typical variance of the noise, in units of white noise."""
        return float(self.noise.min())


def excitation_of(problem: Regression, prior: Prior, *, always: bool) -> Excitation | None:
    """How well the motion excites each direction; `None` if beyond question all, unless always."""
    fit = fit_noise_weights(problem, prior)
    A, z = fit.stack.A, fit.stack.z
    U, s, Vt = np.linalg.svd(A @ prior.base_factor)
    if s[-1] > _CERTAIN and not always:
        return None
    reached = s > _UNREACHED * s[0]
    whitening = np.where(reached, (prior.base_factor @ Vt.T) / np.where(reached, s, 1.0), 0.0)
    variance = np.diag(score_covariance(problem, prior.to_base(fit.theta), fit, whitening))
    level = float(np.median(variance[reached])) if reached.any() else 1.0
    # One direction's variance is known badly: a small one would make the prior look contradicted.
    noise = np.maximum(variance, max(level, _LEAST_NOISE))
    return Excitation(U, s, noise, A, z)


def choose_relaxation(
    prior: Prior, data: Excitation, kinds: Sequence[str], weight: float | None
) -> Relaxation:
    """The kind of the greatest evidence, all weights taken together, and its weight.

    Out of the weights it is the mean of log λ, all being equally likely before the data: where
    they hardly tell, no small difference between two of them decides. `Relaxation` counts weights
    in units of white noise: the chosen one is multiplied by the level of the noise as it is.
    """
    found = {kind: _weighed(prior, data, kind, weight) for kind in kinds}
    kind = max(kinds, key=lambda kind: found[kind][0])
    return Relaxation(kind, found[kind][1] * data.level if weight is None else weight)


def _weighed(
    prior: Prior, data: Excitation, kind: str, weight: float | None
) -> tuple[float, float]:
    """Logarithm of the evidence of all weights of a kind together, and their geometric mean."""
    least = 0.0 if kind == "euclidean" else _LEAST_OF_BODIES * (1.0 - 1e-9)
    weights = [w for w in _WEIGHTS if w >= least] if weight is None else [weight]
    evidence = np.array([_log_evidence(prior, data, Relaxation(kind, w)) for w in weights])
    likely = np.exp(evidence - evidence.max())
    mean = np.exp(np.average(np.log(weights), weights=likely))
    return float(np.logaddexp.reduce(evidence)) - float(np.log(len(weights))), float(mean)


def possible_kinds(prior: Prior) -> tuple[str, ...]:
    """Quadratic distances to the file: that of bodies needs some with a volume."""
    return ("euclidean",) if without_volume(prior) else ("euclidean", "pullback")


def _log_evidence(prior: Prior, data: Excitation, relaxation: Relaxation) -> float:
    """Logarithm of the density of z in the directions that tell, up to a constant."""
    theta_0, D = prior.constraints.free_directions(prior.theta, relaxation.factor(prior))
    directions = data.U[:, data.informative].T
    F = directions @ (data.A @ (prior.mapping @ D))
    rest = directions @ (data.z - data.A @ prior.to_base(theta_0))
    root = cholesky(F @ F.T + np.diag(data.noise[data.informative]), lower=True)
    x = solve_triangular(root, rest, lower=True)
    return float(-0.5 * x @ x - np.log(np.diag(root)).sum())
