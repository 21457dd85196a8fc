"""Filters that carry the lower-triangular factor S of the covariance, P = S Sᵀ.

Nothing is ever subtracted from a covariance, so that it stays definite however small the noise
and however large the prior. With parameters first, a time step is cheap: of the new factor

    S⁺ = [ S_pp      0     ]
         [ C_p    tri(C_m) ]

the parameters' block stays, the columns C_p are the moving part's response to the parameters'
columns of S, and only the response C_m to the moving columns, with the noise and the sums of a
sigma-point family, is made triangular. Measurements come in one scalar at a time, Carlson's way.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bodysense.kalman._kernels.carlson import absorb
from bodysense.kalman._kernels.points import pair_columns, pair_points
from bodysense.kalman._kernels.triangle import add_variances, join
from bodysense.kalman.belief import RootBelief, checked_start, failed
from bodysense.kalman.model import StateModel, images, noise_columns, parameter_variances
from bodysense.kalman.sigma_points import PointWeights
from bodysense.kalman.state_filter import (
    NOT_FINITE,
    Correction,
    Prediction,
    StateFilter,
    measurement,
)
from bodysense.spatial.arrays import Array

_LOG_2PI = math.log(2.0 * math.pi)


class RootFilter(StateFilter[RootBelief]):
    """A filter in square-root form; children say how the moving part responds."""

    square_root: ClassVar[bool] = True

    @abstractmethod
    def _response(
        self, model: StateModel, k: int, x: Array, U: Array
    ) -> tuple[Array, Array] | None:
        """Mean (n_moving,) and columns (n_x + …, n_moving) of the moving part at sample k + 1.

        The products of all columns add up to its covariance, the first n_x are its responses to
        the columns of the factor, which are the rows of U. None where the model is not finite.
        """

    def start(self, mean: ArrayLike, factor: ArrayLike) -> RootBelief:
        """The belief with this mean (n_x,) and lower-triangular factor (n_x, n_x)."""
        x, S = checked_start(mean, factor)
        return RootBelief(x, np.array(S, order="F"))

    def step(self, model: StateModel, k: int, belief: RootBelief) -> Prediction[RootBelief]:
        """The time step from sample k to k + 1."""
        x, U, p = belief.mean, belief.rows, model.n_parameters
        response = self._response(model, k, x, U)
        if response is None:
            nothing = np.zeros((x.size, model.n_moving))
            return Prediction(failed(belief, NOT_FINITE), belief.root, nothing)
        moved, columns = response
        new = join(U, columns, p)
        variances = parameter_variances(model, k)
        if variances is not None:
            add_variances(new, variances)
        mean = np.concatenate((x[:p], moved))
        return Prediction(RootBelief(mean, new.T), belief.root, columns[: x.size])

    def correct(
        self, model: StateModel, k: int, belief: RootBelief, y: Array
    ) -> Correction[RootBelief]:
        """The measurement y (n_y,) of sample k, NaN where absent."""
        H, sigma, values = measurement(model, belief.mean, y)
        mean, U = belief.mean.copy(), belief.rows.copy()
        innovation, variance, squared, log_det = absorb(mean, U, H, sigma, values)
        present = values.size - int(np.count_nonzero(np.isnan(values)))
        if present == 0:
            return Correction(belief, innovation, variance, math.nan, 0.0)
        log_likelihood = -0.5 * (squared + log_det + present * _LOG_2PI)
        return Correction(RootBelief(mean, U.T), innovation, variance, squared, log_likelihood)

    def restarted(self, belief: RootBelief, mean: Array, factor: Array) -> RootBelief:
        """The parameters' belief with a new one of the moving part, independent of it."""
        p = belief.mean.size - mean.size
        root = np.zeros_like(belief.root, order="F")
        root[:p, :p] = belief.root[:p, :p]  # parameters come first: their own factor
        root[p:, p:] = factor
        return RootBelief(np.concatenate((belief.mean[:p], mean)), root)


class SigmaRootFilter(RootFilter):
    """A square-root form whose moving part is told by points in pairs."""

    @abstractmethod
    def weights(self, n: int) -> PointWeights:
        """Weights of the points for a state of n entries."""

    def _response(
        self, model: StateModel, k: int, x: Array, U: Array
    ) -> tuple[Array, Array] | None:
        weights = self.weights(x.size)
        values = images(model, k, pair_points(x, U, weights.gamma))
        if not np.isfinite(values).all():
            return None
        mean, columns = pair_columns(values, noise_columns(model, k, x), *weights)
        return mean, columns
