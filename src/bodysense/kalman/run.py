"""A Kalman filter run over a recording."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack, pinvh

from bodysense.errors import ShapeError
from bodysense.kalman._kernels.points import moving_size
from bodysense.kalman.filters import StateFilter
from bodysense.kalman.model import GaussianState, StateModel, check_model
from bodysense.spatial.arrays import Array, as_array

_MOST_BYTES = 2 * 1024**3
"""Memory of a history."""


@dataclass(frozen=True, eq=False)
class History:
    """All states of a run, for a smoother.

    Attributes:
        predicted: mean (n_x,) and covariance (n_x, n_x) of each sample before its measurement; of
            sample 0 the start.
        corrected: the same with the measurement.
        crosses: (n_x, n_moving) covariance of the moving part with the state of the sample before,
            zero where it starts anew; that of the parameters is a part of the covariance before.
    """

    predicted: list[tuple[Array, Array]] = field(default_factory=list)
    corrected: list[tuple[Array, Array]] = field(default_factory=list)
    crosses: list[Array] = field(default_factory=list)


def _require_memory(n_t: int, n_x: int, n_moving: int) -> None:
    size = 8 * n_t * (2 * n_x * n_x + n_x * n_moving + 2 * n_x)
    if size > _MOST_BYTES:
        raise ShapeError(
            f"the history of {n_t} samples with {n_x} states would take {size / 2**20:.0f} MB: "
            "smooth a shorter stretch, at a lower rate, or run without a history."
        )


# The result of a filter over a recording.

DIVERGED = 1e9
"""Size of the moving part from which on a filter has diverged."""

Restarts = Mapping[int, tuple[Array, Array]]
"""Samples at which the moving part starts anew: mean (n_moving,), factor (n_moving, n_moving)."""


@dataclass(frozen=True, eq=False)
class FilterRun:
    """A filter's state after a recording, and how well the measurements fitted.

    Attributes:
        state: the last one; where the run ended early, the last good one.
        means: (n_t, n_x) of the state at each sample, NaN from where the run ended.
        innovations: (n_t, n_y) measurements less their prediction, NaN where absent.
        nis: (n_t,) normalised innovations squared, NaN where all are absent.
        log_likelihood: of all measurements.
        ok: whether the run reached the end and its result can be used.
        message: what went wrong, with advice; empty where nothing did.
        steps: number of samples that went in.
        history: all states, if kept.
    """

    state: GaussianState
    means: Array
    innovations: Array
    nis: Array
    log_likelihood: float
    ok: bool
    message: str
    steps: int
    history: History | None = None

    def summary(self) -> str:
        """One line: how far it came, and how well the measurements fitted."""
        rows = np.count_nonzero(np.isfinite(self.innovations[: self.steps]))
        level = float(np.nansum(self.nis)) / rows if rows else np.nan
        text = (
            f"{self.steps} of {self.nis.size} samples, log-likelihood {self.log_likelihood:.6g}, "
            f"normalised innovation squared {level:.3g} per measurement (1 if consistent)"
        )
        return f"{text}. {self.message}" if self.message else text


def checked_measurements(
    model: StateModel, mean: ArrayLike, y: ArrayLike, restarts: Restarts | None
) -> tuple[Array, dict[int, tuple[Array, Array]]]:
    """Measurements (n_t, n_y) and restarts that fit a model and each other."""
    n_y, n_x = check_model(model)
    as_array(mean, (n_x,), "mean")
    try:
        values = np.array(y, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ShapeError(f"y must be an array of numbers: {error}") from error
    if values.ndim != 2 or values.shape[1] != n_y or values.shape[0] == 0:
        raise ShapeError(f"y has shape {values.shape}, expected (samples, {n_y}), 1 and more.")
    if np.isinf(values).any():
        at = tuple(int(i) for i in np.argwhere(np.isinf(values))[0])
        raise ShapeError(f"y holds an infinite value at {at}: write NaN where it is absent.")
    return values, _checked_restarts(model, values.shape[0], restarts)


def _checked_restarts(
    model: StateModel, n_t: int, restarts: Restarts | None
) -> dict[int, tuple[Array, Array]]:
    m, checked = model.n_moving, {}
    for k, (start, factor) in (restarts or {}).items():
        if not 0 < k < n_t:
            raise ShapeError(f"restart at sample {k}: give samples from 1 to {n_t - 1}.")
        checked[int(k)] = (
            as_array(start, (m,), f"mean of the restart at sample {k}"),
            as_array(factor, (m, m), f"factor of the restart at sample {k}"),
        )
        if np.triu(checked[int(k)][1], 1).any():
            raise ShapeError(f"factor of the restart at sample {k} is not lower triangular.")
    return checked


def run_filter(
    filter: StateFilter[Any],
    model: StateModel,
    mean: ArrayLike,
    factor: ArrayLike,
    y: ArrayLike,
    *,
    keep_history: bool = False,
    restarts: Restarts | None = None,
) -> FilterRun:
    """Propagate a state through a recording: the measurement of sample 0, then step and measure.

    Args:
        filter: one of the six.
        model: the system.
        mean: (n_x,) of the state at sample 0, before its measurement.
        factor: (n_x, n_x) lower-triangular root of its covariance.
        y: (n_t, n_y) measurements, NaN where absent.
        keep_history: keep all states, for `smooth`.
        restarts: samples at which the moving part is not predicted but starts anew, with mean
            (n_moving,) and lower-triangular factor: where a recording has gaps.

    A run that cannot go on ends early with `ok` false and advice in `message`.
    """
    values, fresh = checked_measurements(model, mean, y, restarts)
    n_t, p = values.shape[0], model.n_parameters
    state = filter.start(mean, factor)
    good = state
    means = np.full((n_t, state.mean.size), np.nan)
    innovations, nis = np.full(values.shape, np.nan), np.full(n_t, np.nan)
    history = History()
    if keep_history:
        _require_memory(n_t, state.mean.size, model.n_moving)
    log_likelihood, failure, steps = 0.0, "", n_t
    for k in range(n_t):
        cross = np.zeros((state.mean.size, model.n_moving)) if keep_history else None
        if k in fresh:
            state = filter.restart(state, *fresh[k])
        elif k > 0:
            step = filter.step(model, k - 1, state)
            state = step.state
            cross = step.left @ step.right if keep_history else None
        failure = _failure(state, p)
        if not failure:
            predicted = state
            correction = filter.correct(model, k, state, values[k])
            state = correction.state
            failure = _failure(state, p)
        if failure:
            steps = k
            break
        innovations[k], nis[k] = correction.innovation, correction.squared
        log_likelihood += correction.log_likelihood
        means[k] = state.mean
        good = state
        if cross is not None:
            history.predicted.append((predicted.mean, predicted.covariance))
            history.corrected.append((state.mean, state.covariance))
            history.crosses.append(cross)
    message = f"stopped at sample {steps}: {failure}" if failure else filter.failure(good)
    kept = history if keep_history else None
    return FilterRun(
        good, means, innovations, nis, log_likelihood, not message, message, steps, kept
    )


def _failure(state: GaussianState, p: int) -> str:
    """Why a state cannot be propagated; empty where it can."""
    if state.failure:
        return state.failure
    size = moving_size(state.mean, state.rows, p)
    if not math.isfinite(size):
        return (
            "mean or covariance are not finite. Check the model's noise, or start with a smaller "
            "covariance."
        )
    if size > DIVERGED:
        return (
            f"the moving part left ±{DIVERGED:g}: its dynamics are unstable where the filter took "
            "them. Start with a smaller covariance, closer to the truth, or raise the noise."
        )
    return ""


# Rauch-Tung-Striebel smoother: every sample's state from the measurements of all.
#
# Backwards over the filter's states, with the covariance C_k of the states at k and k + 1, the
# prediction x⁻, P⁻ and the gain G_k = C_k (P⁻_{k+1})⁻¹,
#
#     x̂_k = x_k + G_k (x̂_{k+1} - x⁻_{k+1}),   P̂_k = P_k + G_k (P̂_{k+1} - P⁻_{k+1}) G_kᵀ.
#
# C_k is what the filter's own tangent or sigma points gave, so that any of the six can be smoothed.


@dataclass(frozen=True, eq=False)
class Smoothed:
    """States of all samples, each from all measurements.

    Attributes:
        means: (n_t, n_x), parameters first, which are the same at all samples unless they walk.
        covariances: (n_t, n_x, n_x).
        ok: whether all of it can be used.
        message: what went wrong, with advice; empty where nothing did.
    """

    means: Array
    covariances: Array
    ok: bool
    message: str


def smooth(history: History) -> Smoothed:
    """Smooth the states of a run, kept by ``run_filter(…, keep_history=True)``.

    Samples before a gap are smoothed by what lies behind it through the parameters alone.
    """
    means = np.array([mean for mean, _ in history.corrected])
    covariances = np.array([covariance for _, covariance in history.corrected])
    n_t = len(means)
    for k in range(n_t - 2, -1, -1):
        cross, (mean, covariance) = history.crosses[k + 1], history.predicted[k + 1]
        p = mean.size - cross.shape[1]
        C = np.concatenate((history.corrected[k][1][:, :p], cross), axis=1)
        G = _gain(C, covariance)
        means[k] += G @ (means[k + 1] - mean)
        change = G @ (covariances[k + 1] - covariance) @ G.T
        covariances[k] += 0.5 * (change + change.T)
    message = ""
    smallest = np.diagonal(covariances, axis1=1, axis2=2).min(axis=1) if n_t else np.ones(0)
    if not np.isfinite(means).all() or (smallest < 0.0).any():
        message = (
            "smoothed variances were lost in rounding, as happens with a large prior and small "
            "noise. Start with a smaller covariance, or give the moving part some process noise."
        )
    return Smoothed(means, covariances, not message, message)


def _gain(C: Array, P: Array) -> Array:
    """(n_x, n_x) C P⁻¹, with the pseudo-inverse where P is singular."""
    variances = P.diagonal()
    scale = np.sqrt(np.where(variances > 0.0, variances, 1.0))  # states have no common unit
    scaled = P / np.outer(scale, scale)
    L, info = lapack.dpotrf(scaled, lower=1)
    right = (C / scale).T
    if info == 0:
        solution, _ = lapack.dpotrs(L, right, lower=1)
    else:
        solution = pinvh(scaled, rtol=1e-12) @ right
    gain: Array = solution.T / scale
    return gain
