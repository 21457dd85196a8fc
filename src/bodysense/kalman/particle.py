"""Bootstrap particle filter: a cloud of states, moved by the model and weighed by measurements.

    x_i ← f(x_i) + noise,   w_i ← w_i exp(-½ Σ_j ((y_j - h_jᵀ x_i) / σ_j)²)

It takes any shape of distribution, but the number of particles that it needs grows with every
state: it is meant for a few, where the Kalman filters fail. Process noise is drawn with
the columns E at the cloud's mean. Where few particles carry the weight they are drawn anew, and
the parameters, which no noise moves apart, are spread again (Liu and West).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import ShapeError
from bodysense.kalman.model import (
    CovarianceState,
    StateModel,
    checked_start,
    images,
    noise_columns,
    parameter_variances,
)
from bodysense.kalman.run import DIVERGED, FilterRun, Restarts, checked_measurements
from bodysense.spatial.arrays import Array

# Particles drawn anew by their weights, and spread again without changing what they say.


def _effective_size(weights: Array) -> float:
    """Number of particles that carry the weight: 1 / Σ w², for weights that add up to one."""
    return 1.0 / float(weights @ weights)


def _systematic(weights: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """(n,) indices of particles, each about n w_i times: a comb of n teeth, shifted at random.

    The expected number of copies is n w_i, and the actual one its next integer above or below.
    """
    n = weights.size
    teeth = (np.arange(n) + rng.random()) / n
    ends = np.cumsum(weights)
    ends /= ends[-1]  # a last tooth must not fall behind the sum through rounding
    return np.minimum(np.searchsorted(ends, teeth, side="right"), n - 1)


def _moments(X: Array, weights: Array) -> tuple[Array, Array]:
    """Mean (n_x,) and covariance (n_x, n_x) of weighted particles X (n, n_x)."""
    mean = weights @ X
    centred = (X - mean) * np.sqrt(weights)[:, None]
    covariance: Array = centred.T @ centred
    return mean, covariance


def _shrunk(
    X: Array, mean: Array, covariance: Array, shrinkage: float, rng: np.random.Generator
) -> Array:
    """Particles drawn towards their mean and jittered, as Liu and West do.

        x ← a x + (1 - a) mean + √(1 - a²) S ξ,   S Sᵀ = covariance

    Copies part again, and mean and covariance are kept, where jitter alone would widen the cloud.
    """
    values, vectors = np.linalg.eigh(covariance)
    S = vectors * np.sqrt(np.maximum(values, 0.0))  # fewer particles than entries: singular
    jitter = rng.standard_normal(X.shape) @ S.T
    moved: Array = shrinkage * X + (1.0 - shrinkage) * mean + np.sqrt(1.0 - shrinkage**2) * jitter
    return moved


_LEAST_PARTICLES = 10.0
"""Effective particles below which mean and covariance are not usable."""


@dataclass(frozen=True)
class ParticleFilter:
    """Settings of a particle filter.

    Attributes:
        particles: how many.
        resample_below: share of effective particles below which they are drawn anew.
        shrinkage: a of Liu and West, by which parameters are drawn to their mean when that happens;
            1 for not at all.
    """

    particles: int = 1000
    resample_below: float = 0.5
    shrinkage: float = 0.98

    def __post_init__(self) -> None:
        if self.particles < 2:
            raise ShapeError(f"particles is {self.particles}: give 2 or more, e.g. 1000.")
        for name in ("resample_below", "shrinkage"):
            value = getattr(self, name)
            if not 0.0 < value <= 1.0:
                raise ShapeError(f"{name} is {value:g}: give a number above 0 and up to 1.")

    def moved(
        self, model: StateModel, k: int, X: Array, weights: Array, rng: np.random.Generator
    ) -> Array:
        """The particles at sample k + 1, with noise."""
        p, n = model.n_parameters, X.shape[0]
        E = noise_columns(model, k, weights @ X)
        new = X.copy()
        new[:, p:] = images(model, k, X)
        new[:, p:] += rng.standard_normal((n, E.shape[1])) @ E.T
        variances = parameter_variances(model, k)
        if variances is not None:
            new[:, :p] += np.sqrt(variances) * rng.standard_normal((n, p))
        return new

    def redrawn(self, X: Array, weights: Array, p: int, rng: np.random.Generator) -> Array:
        """Particles of equal weight that stand for these, parameters spread again."""
        mean, covariance = _moments(X[:, :p], weights)
        new = X[_systematic(weights, rng)]
        if p and self.shrinkage < 1.0:
            new[:, :p] = _shrunk(new[:, :p], mean, covariance, self.shrinkage, rng)
        return new


def run_particles(
    filter: ParticleFilter,
    model: StateModel,
    mean: ArrayLike,
    factor: ArrayLike,
    y: ArrayLike,
    *,
    rng: np.random.Generator,
    restarts: Restarts | None = None,
) -> FilterRun:
    """Propagate a cloud through a recording; arguments as of `run_filter`, with a generator.

    Returns:
        Mean and covariance of the last cloud and how the measurements fitted. `ok` is false, with
        advice, where no particle explains a measurement, or a handful explained most of them.
    """
    values, fresh = checked_measurements(model, mean, y, restarts)
    x, S = checked_start(mean, factor)
    n_t, n, p = values.shape[0], filter.particles, model.n_parameters
    X = x + rng.standard_normal((n, x.size)) @ S.T
    weights = np.full(n, 1.0 / n)
    means, nis = np.full((n_t, x.size), np.nan), np.full(n_t, np.nan)
    innovations, sizes = np.full(values.shape, np.nan), np.full(n_t, float(n))
    log_likelihood, message, steps = 0.0, "", n_t
    last_mean, last_covariance = x, S @ S.T
    for k in range(n_t):
        if k in fresh:
            start, root = fresh[k]
            X[:, p:] = start + rng.standard_normal((n, start.size)) @ root.T
        elif k > 0:
            X = filter.moved(model, k - 1, X, weights, rng)
        update = _weigh(model, X, weights, values[k])
        if update is None:
            message, steps = _collapsed(k), k
            break
        weights, innovations[k], nis[k], log_density = update
        log_likelihood += log_density
        sizes[k] = _effective_size(weights)
        last_mean, last_covariance = _moments(X, weights)
        means[k] = last_mean
        if sizes[k] < filter.resample_below * n:
            X, weights = filter.redrawn(X, weights, p, rng), np.full(n, 1.0 / n)
    if not message and np.median(sizes) < _LEAST_PARTICLES:
        message = (
            f"at more than half of the samples fewer than {_LEAST_PARTICLES:g} of {n} particles "
            "carry the weight, so mean and covariance are theirs alone. Take more particles, a "
            "smaller prior or larger sigma, or a Kalman filter such as srukf."
        )
    state = CovarianceState(last_mean, last_covariance)
    return FilterRun(state, means, innovations, nis, log_likelihood, not message, message, steps)


def _weigh(
    model: StateModel, X: Array, weights: Array, y: Array
) -> tuple[Array, Array, float, float] | None:
    """Weights with the measurement y (n_y,), NaN where absent; none if no particle is left.

    Beside them innovation, its normalised square and the log-likelihood, as of a `Correction`.
    Particles that ran away are replaced, in place, by the mean of the others without weight.
    """
    p = model.n_parameters
    lost = ~(np.isfinite(X).all(axis=1) & (np.abs(X[:, p:]) < DIVERGED).all(axis=1))
    if lost.any():
        if lost.all():
            return None
        weights = np.where(lost, 0.0, weights)
        if weights.sum() <= 0.0:
            return None
        weights = weights / weights.sum()
        X[lost] = 0.0
        X[lost] = weights @ X
    present = ~np.isnan(y)
    H, sigma = model.H, model.sigma
    Y = X @ H.T
    mean, covariance = _moments(Y, weights)
    innovation = y - mean
    if not present.any():
        return weights, innovation, math.nan, 0.0
    level = sigma[present]
    with np.errstate(divide="ignore", over="ignore"):
        log_w = np.log(weights) - 0.5 * (((y - Y)[:, present] / level) ** 2).sum(axis=1)
    top = float(log_w.max())
    if not math.isfinite(top):
        return None
    share = np.exp(log_w - top)
    total = float(share.sum())
    constant = -float(np.log(level).sum()) - 0.5 * level.size * math.log(2.0 * math.pi)
    spread = covariance[np.ix_(present, present)] + np.diag(level**2)
    rest = innovation[present]
    squared = float(rest @ np.linalg.solve(spread, rest))
    return share / total, innovation, squared, top + math.log(total) + constant


def _collapsed(k: int) -> str:
    return (
        f"stopped at sample {k}: no particle explains the measurement, all weights vanished. Take "
        "more particles, a smaller prior or larger sigma, or a Kalman filter such as srukf."
    )
