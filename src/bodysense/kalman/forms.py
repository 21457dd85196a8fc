"""What a filter is: a belief carried from sample to sample by a model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from bodysense.errors import ShapeError
from bodysense.kalman._kernels.points import pair_columns, pair_points
from bodysense.kalman._kernels.square_root import absorb, add_variances, join
from bodysense.kalman.model import (
    AnyBelief,
    CovarianceBelief,
    RootBelief,
    StateModel,
    checked_start,
    failed,
    images,
    noise_columns,
    parameter_variances,
    plain,
    upper_root,
)
from bodysense.kalman.sigma_points import PointWeights
from bodysense.spatial.arrays import Array

NOT_FINITE = (
    "the model's dynamics gave values that are not finite. Start with a smaller covariance, so "
    "that the state stays where the model is valid, or check the model."
)


class FilterPrediction(NamedTuple, Generic[AnyBelief]):
    """A belief after a time step, and what ties it to the one before.

    Attributes:
        belief: at sample k + 1, from the measurements up to k.
        left: (n_x, n), with `right` (n, n_moving): their product is the covariance of the state at
            k with the moving part at k + 1. It is kept in two, as only a smoother needs it.
        right: see `left`.
    """

    belief: AnyBelief
    left: Array
    right: Array


class Correction(NamedTuple, Generic[AnyBelief]):
    """A belief after a measurement, and how that fitted.

    Attributes:
        belief: with the measurement.
        innovation: (n_y,) y - H mean; NaN where y is absent.
        variance: (n_y,) its variances, the diagonal of H P Hᵀ + R.
        squared: normalised innovation squared νᵀ(H P Hᵀ + R)⁻¹ν, NaN if all of y is absent; on a
            consistent model it is χ² with as many degrees of freedom as there are measurements.
        log_likelihood: of y given the past; zero if all of y is absent.
    """

    belief: AnyBelief
    innovation: Array
    variance: Array
    squared: float
    log_likelihood: float


class StateFilter(ABC, Generic[AnyBelief]):
    """A Kalman filter. Implementations are frozen dataclasses of settings.

    Nothing that goes in is changed. A belief that cannot be carried on comes back with its
    `failure` set.
    """

    name: ClassVar[str]
    square_root: ClassVar[bool]

    @abstractmethod
    def start(self, mean: ArrayLike, factor: ArrayLike) -> AnyBelief:
        """The belief with this mean (n_x,) and lower-triangular factor (n_x, n_x)."""

    @abstractmethod
    def step(self, model: StateModel, k: int, belief: AnyBelief) -> FilterPrediction[AnyBelief]:
        """The time step from sample k to k + 1, with what a smoother needs of it."""

    @abstractmethod
    def correct(
        self, model: StateModel, k: int, belief: AnyBelief, y: Array
    ) -> Correction[AnyBelief]:
        """The measurement y (n_y,) of sample k, NaN where absent, with how it fitted.

        The measurement is linear, so sigma points would give exactly what is computed here.
        """

    @abstractmethod
    def restarted(self, belief: AnyBelief, mean: Array, factor: Array) -> AnyBelief:
        """The parameters' belief with a new one of the moving part, independent of it."""

    def doubt(self, belief: AnyBelief) -> str:
        """Why the belief that a run ended with is not to be used; empty where it is."""
        return belief.failure

    def predict(self, model: StateModel, k: int, belief: AnyBelief) -> AnyBelief:
        """The belief at sample k + 1 from that at sample k."""
        return self.step(model, k, belief).belief

    def update(
        self, model: StateModel, k: int, belief: AnyBelief, y: Array
    ) -> tuple[AnyBelief, Array, Array]:
        """The belief with the measurement y (n_y,) of sample k; NaN marks absent ones.

        Returns:
            The belief, (n_y,) the innovation y - H mean and (n_y,) its variances.
        """
        correction = self.correct(model, k, belief, y)
        return correction.belief, correction.innovation, correction.variance


def measurement(model: StateModel, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """H, sigma and y that fit each other and the state.

    Raises:
        ShapeError: they do not.
    """
    H, sigma, values = plain(model.H), plain(model.sigma), plain(np.asarray(y))
    n_y = H.shape[0]
    if H.shape != (n_y, x.size) or sigma.shape != (n_y,) or values.shape != (n_y,):
        raise ShapeError(
            f"y {values.shape}, H {H.shape} and sigma {sigma.shape} do not fit a state of {x.size} "
            f"entries: expected ({n_y},), ({n_y}, {x.size}) and ({n_y},)."
        )
    return H, sigma, values


# Filters that carry the covariance P itself, as thesis appendix C prints them.
#
# A time step leaves the parameters' block of P alone and writes the rows and columns of the moving
# part. A measurement subtracts,
#
#     ν = y - H x,   Σ = H P Hᵀ + R = L Lᵀ,   K = P HᵀΣ⁻¹,   x ← x + K ν,   P ← P - K Σ Kᵀ,
#
# where K Σ Kᵀ = WᵀW with W = L⁻¹ H P. With small noise and a large prior the difference is lost in
# rounding, P gets negative eigenvalues, and the filter ends with a status: the square-root forms go
# on there.

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
    ) -> FilterPrediction[CovarianceBelief]:
        nothing = np.zeros((belief.mean.size, model.n_moving))
        return FilterPrediction(failed(belief, NOT_FINITE), belief.matrix, nothing)

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
    ) -> FilterPrediction[CovarianceBelief]:
        """The time step from sample k to k + 1."""
        x, p = belief.mean, model.n_parameters
        U = upper_root(belief.matrix)
        if U is None:
            lost = failed(belief, self._indefinite())
            return FilterPrediction(lost, belief.matrix, np.zeros((x.size, model.n_moving)))
        weights = self.weights(x.size)
        values = images(model, k, pair_points(x, U, weights.gamma))
        if not np.isfinite(values).all():
            return self._not_finite(model, belief)
        moved, columns = pair_columns(values, noise_columns(model, k, x), *weights)
        response = columns[: x.size]
        cross = response[:p].T @ U[:p, :p]
        new = self._joined(model, k, belief, moved, cross, columns.T @ columns)
        return FilterPrediction(new, U.T, response)


# Filters that carry the lower-triangular factor S of the covariance, P = S Sᵀ.
#
# Nothing is ever subtracted from a covariance, so that it stays definite however small the noise
# and however large the prior. With parameters first, a time step is cheap: of the new factor
#
#     S⁺ = [ S_pp      0     ]
#          [ C_p    tri(C_m) ]
#
# the parameters' block stays, the columns C_p are the moving part's response to the parameters'
# columns of S, and only the response C_m to the moving columns, with the noise and the sums of a
# sigma-point family, is made triangular. Measurements come in one scalar at a time, Carlson's way.


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

    def step(self, model: StateModel, k: int, belief: RootBelief) -> FilterPrediction[RootBelief]:
        """The time step from sample k to k + 1."""
        x, U, p = belief.mean, belief.rows, model.n_parameters
        response = self._response(model, k, x, U)
        if response is None:
            nothing = np.zeros((x.size, model.n_moving))
            return FilterPrediction(failed(belief, NOT_FINITE), belief.root, nothing)
        moved, columns = response
        new = join(U, columns, p)
        variances = parameter_variances(model, k)
        if variances is not None:
            add_variances(new, variances)
        mean = np.concatenate((x[:p], moved))
        return FilterPrediction(RootBelief(mean, new.T), belief.root, columns[: x.size])

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
