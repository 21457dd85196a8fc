"""Filters that carry the covariance P itself, as thesis appendix C prints them.

A time step leaves the parameters' block of P alone and writes the rows and columns of the moving
part. A measurement subtracts,

    ν = y - H x,   Σ = H P Hᵀ + R = L Lᵀ,   K = P HᵀΣ⁻¹,   x ← x + K ν,   P ← P - K Σ Kᵀ,

where K Σ Kᵀ = WᵀW with W = L⁻¹ H P. With small noise and a large prior the difference is lost in
rounding, P gets negative eigenvalues, and the filter ends with a status: the square-root forms go
on there.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from bodysense.kalman._kernels.points import pair_columns, pair_points
from bodysense.kalman.belief import CovarianceBelief, checked_start, failed, upper_root
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


class CovarianceFilter(StateFilter[CovarianceBelief]):
    """A filter in plain form; children say how the moving part responds."""

    square_root: ClassVar[bool] = False

    def start(self, mean: ArrayLike, factor: ArrayLike) -> CovarianceBelief:
        """The belief with this mean (n_x,) and lower-triangular factor (n_x, n_x)."""
        x, S = checked_start(mean, factor)
        return CovarianceBelief(x, S @ S.T)

    def correct(
        self, model: StateModel, k: int, belief: CovarianceBelief, y: Array
    ) -> Correction[CovarianceBelief]:
        """The measurement y (n_y,) of sample k, NaN where absent."""
        H, sigma, values = measurement(model, belief.mean, y)
        x, P = belief.mean, belief.matrix
        innovation = values - H @ x
        HP = H @ P
        Sigma = HP @ H.T
        Sigma.flat[:: sigma.size + 1] += sigma**2
        variance = Sigma.diagonal().copy()
        present = ~np.isnan(values)
        if present.all():
            rest = innovation
        else:
            if not present.any():
                return Correction(belief, innovation, variance, math.nan, 0.0)
            rest, HP = innovation[present], HP[present]
            Sigma = Sigma[np.ix_(present, present)]
        L, info = lapack.dpotrf(Sigma.T, lower=1)
        if info != 0:
            lost = failed(belief, self._indefinite())
            return Correction(lost, innovation, variance, math.nan, 0.0)
        W, _ = lapack.dtrtrs(L, HP, lower=1)
        z, _ = lapack.dtrtrs(L, rest, lower=1)
        new = CovarianceBelief(x + W.T @ z, P - W.T @ W)
        if new.matrix.diagonal().min() < 0.0:
            new = failed(belief, self._indefinite())
        squared = float(z @ z)
        log_det = 2.0 * float(np.log(L.diagonal()).sum())
        log_likelihood = -0.5 * (squared + log_det + rest.size * _LOG_2PI)
        return Correction(new, innovation, variance, squared, log_likelihood)

    def restarted(self, belief: CovarianceBelief, mean: Array, factor: Array) -> CovarianceBelief:
        """The parameters' belief with a new one of the moving part, independent of it."""
        p = belief.mean.size - mean.size
        P = np.zeros_like(belief.matrix)
        P[:p, :p] = belief.matrix[:p, :p]
        P[p:, p:] = factor @ factor.T
        return CovarianceBelief(np.concatenate((belief.mean[:p], mean)), P)

    def doubt(self, belief: CovarianceBelief) -> str:
        """Why the belief that a run ended with is not to be used; empty where it is."""
        # An extended filter takes no root of P and may have gone on with an indefinite one.
        return belief.failure or ("" if belief.definite else self._indefinite())

    def _joined(
        self,
        model: StateModel,
        k: int,
        belief: CovarianceBelief,
        moved: Array,
        cross: Array,
        own: Array,
    ) -> CovarianceBelief:
        """The belief at k + 1 from the moving part's mean, cross and own covariance.

        cross (n_moving, n_parameters) is with the parameters.
        """
        p = model.n_parameters
        P = belief.matrix.copy()
        P[p:, :p] = cross
        P[:p, p:] = cross.T
        P[p:, p:] = own
        variances = parameter_variances(model, k)
        if variances is not None:
            P.flat[: p * (P.shape[0] + 1) : P.shape[0] + 1] += variances
        return CovarianceBelief(np.concatenate((belief.mean[:p], moved)), P)

    def _not_finite(
        self, model: StateModel, belief: CovarianceBelief
    ) -> Prediction[CovarianceBelief]:
        nothing = np.zeros((belief.mean.size, model.n_moving))
        return Prediction(failed(belief, NOT_FINITE), belief.matrix, nothing)

    def _indefinite(self) -> str:
        return (
            "the covariance lost its definiteness in rounding, as happens with a large prior and "
            f"small noise. Use sr{self.name}, which carries the covariance's root."
        )


class SigmaCovarianceFilter(CovarianceFilter):
    """A plain form whose moving part is told by points in pairs, from Cholesky's factor of P."""

    @abstractmethod
    def weights(self, n: int) -> PointWeights:
        """Weights of the points for a state of n entries."""

    def step(
        self, model: StateModel, k: int, belief: CovarianceBelief
    ) -> Prediction[CovarianceBelief]:
        """The time step from sample k to k + 1."""
        x, p = belief.mean, model.n_parameters
        U = upper_root(belief.matrix)
        if U is None:
            lost = failed(belief, self._indefinite())
            return Prediction(lost, belief.matrix, np.zeros((x.size, model.n_moving)))
        weights = self.weights(x.size)
        values = images(model, k, pair_points(x, U, weights.gamma))
        if not np.isfinite(values).all():
            return self._not_finite(model, belief)
        moved, columns = pair_columns(values, noise_columns(model, k, x), *weights)
        response = columns[: x.size]
        cross = response[:p].T @ U[:p, :p]
        new = self._joined(model, k, belief, moved, cross, columns.T @ columns)
        return Prediction(new, U.T, response)
