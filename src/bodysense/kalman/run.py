"""A Kalman filter run over a recording."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bodysense.kalman._kernels.points import moving_size
from bodysense.kalman.belief import Belief
from bodysense.kalman.filter_run import RUNAWAY, FilterRun, Restarts, checked_measurements
from bodysense.kalman.history import History
from bodysense.kalman.model import StateModel
from bodysense.kalman.state_filter import StateFilter


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
    """Carry a belief through a recording: the measurement of sample 0, then step and measure.

    Args:
        filter: one of the six.
        model: the system.
        mean: (n_x,) of the state at sample 0, before its measurement.
        factor: (n_x, n_x) lower-triangular root of its covariance.
        y: (n_t, n_y) measurements, NaN where absent.
        keep_history: keep all beliefs, for `smooth`.
        restarts: samples at which the moving part is not predicted but starts anew, with mean
            (n_moving,) and lower-triangular factor: where a recording has gaps.

    Returns:
        The last belief and how the measurements fitted. A run that cannot go on ends early with
        `ok` false and advice in `message`.

    Raises:
        ShapeError: things that do not fit each other.
    """
    values, fresh = checked_measurements(model, mean, y, restarts)
    n_t, p = values.shape[0], model.n_parameters
    belief = filter.start(mean, factor)
    good = belief
    means = np.full((n_t, belief.mean.size), np.nan)
    innovations, nis = np.full(values.shape, np.nan), np.full(n_t, np.nan)
    history = History.empty(n_t, belief.mean.size, model.n_moving) if keep_history else None
    log_likelihood, trouble, steps = 0.0, "", n_t
    for k in range(n_t):
        if k in fresh:
            belief = filter.restarted(belief, *fresh[k])
        elif k > 0:
            step = filter.step(model, k - 1, belief)
            belief = step.belief
            if history is not None:
                history.keep_step(k - 1, step)
        trouble = _trouble(belief, p)
        if not trouble:
            if history is not None:
                history.keep_prediction(k, belief)
            correction = filter.correct(model, k, belief, values[k])
            belief = correction.belief
            trouble = _trouble(belief, p)
        if trouble:
            steps = k
            break
        innovations[k], nis[k] = correction.innovation, correction.squared
        log_likelihood += correction.log_likelihood
        means[k] = belief.mean
        good = belief
        if history is not None:
            history.keep_correction(k, belief)
    message = f"stopped at sample {steps}: {trouble}" if trouble else filter.doubt(good)
    if history is not None:
        history = history.first(steps)
    return FilterRun(
        good, means, innovations, nis, log_likelihood, not message, message, steps, history
    )


def _trouble(belief: Belief, p: int) -> str:
    """Why a belief cannot be carried on; empty where it can."""
    if belief.failure:
        return belief.failure
    size = moving_size(belief.mean, belief.rows, p)
    if not math.isfinite(size):
        return (
            "mean or covariance are not finite. Check the model's noise, or start with a smaller "
            "covariance."
        )
    if size > RUNAWAY:
        return (
            f"the moving part left ±{RUNAWAY:g}: its dynamics are unstable where the filter took "
            "them. Start with a smaller covariance, closer to the truth, or raise the noise."
        )
    return ""
