"""Kalman filters: three kinds (`kinds`) in two forms, which carry a covariance or its root.

The covariance form is that of thesis appendix C. A time step leaves the parameters' block of P
alone and writes the rows and columns of the moving part. A measurement subtracts,

    ν = y - H x,   Σ = H P Hᵀ + R = L Lᵀ,   K = P HᵀΣ⁻¹,   x ← x + K ν,   P ← P - K Σ Kᵀ,

where K Σ Kᵀ = WᵀW with W = L⁻¹ H P. With small noise and a large prior the difference is lost in
rounding, P gets negative eigenvalues, and the filter ends with a status.

The square-root form carries the lower-triangular factor S of the covariance, P = S Sᵀ. Nothing is
ever subtracted from a covariance, so that it stays definite however small the noise and however
large the prior. With parameters first, a time step is cheap: of the new factor

    S⁺ = [ S_pp      0     ]
         [ C_p    tri(C_m) ]

the parameters' block stays, the columns C_p are the moving part's response to the parameters'
columns of S, and only the response C_m to the moving columns, with the noise and the sums of a
sigma-point family, is made triangular. Measurements come in one scalar at a time, Carlson's way.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from bodysense.compiled.triangles import absorb, add_variances, join
from bodysense.errors import ShapeError, unknown_name
from bodysense.kalman._kernels.points import pair_columns, pair_points
from bodysense.kalman.kinds import CentralDifferences, Extended, FilterKind, Unscented
from bodysense.kalman.model import (
    AnyState,
    CovarianceState,
    RootState,
    StateModel,
    checked_start,
    failed,
    images,
    noise_columns,
    parameter_variances,
    plain,
    propagated,
    tangent,
    upper_root,
)
from bodysense.spatial.arrays import Array

_NOT_FINITE = (
    "the model's dynamics gave values that are not finite. Start with a smaller covariance, so "
    "that the state stays where the model is valid, or check the model."
)

_LOG_2PI = math.log(2.0 * math.pi)


class StatePrediction(NamedTuple, Generic[AnyState]):
    """A state after a time step, and its covariance with the one before.

    Attributes:
        state: at sample k + 1, from the measurements up to k.
        left: (n_x, n), with `right` (n, n_moving): their product is the covariance of the state at
            k with the moving part at k + 1. It is kept in two, as only a smoother needs it.
        right: see `left`.
    """

    state: AnyState
    left: Array
    right: Array


class Correction(NamedTuple, Generic[AnyState]):
    """A state after a measurement, and how well that fitted.

    Attributes:
        state: with the measurement.
        innovation: (n_y,) y - H mean; NaN where y is absent.
        variance: (n_y,) its variances, the diagonal of H P Hᵀ + R.
        squared: normalised innovation squared νᵀ(H P Hᵀ + R)⁻¹ν, NaN if all of y is absent; on a
            consistent model it is χ² with as many degrees of freedom as there are measurements.
        log_likelihood: of y given the past; zero if all of y is absent.
    """

    state: AnyState
    innovation: Array
    variance: Array
    squared: float
    log_likelihood: float


class StateFilter(ABC, Generic[AnyState]):
    """A Kalman filter. Implementations are frozen dataclasses of settings.

    Nothing that goes in is changed. A state that cannot be propagated comes back with its
    `failure` set. How the moving part responds is the filter's kind.
    """

    kind: FilterKind
    square_root: ClassVar[bool]

    @property
    def name(self) -> str:
        """As the registry has it."""
        return f"sr{self.kind.name}" if self.square_root else self.kind.name

    @abstractmethod
    def start(self, mean: ArrayLike, factor: ArrayLike) -> AnyState:
        """The state with this mean (n_x,) and lower-triangular factor (n_x, n_x)."""

    @abstractmethod
    def step(self, model: StateModel, k: int, state: AnyState) -> StatePrediction[AnyState]:
        """The time step from sample k to k + 1, with what a smoother needs."""

    @abstractmethod
    def correct(self, model: StateModel, k: int, state: AnyState, y: Array) -> Correction[AnyState]:
        """The measurement y (n_y,) of sample k, NaN where absent, with how it fitted.

        The measurement is linear, so sigma points would give exactly what is computed here.
        """

    @abstractmethod
    def restart(self, state: AnyState, mean: Array, factor: Array) -> AnyState:
        """The parameters' distribution with a new one of the moving part, independent of it."""

    def failure(self, state: AnyState) -> str:
        """Why the state that a run ended with is not to be used; empty where it is."""
        return state.failure

    def predict(self, model: StateModel, k: int, state: AnyState) -> AnyState:
        """The state at sample k + 1 from that at sample k."""
        return self.step(model, k, state).state

    def update(
        self, model: StateModel, k: int, state: AnyState, y: Array
    ) -> tuple[AnyState, Array, Array]:
        """The state with the measurement, the innovation and its variances, see `correct`."""
        return self.correct(model, k, state, y)[:3]


def _measurement(model: StateModel, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """H, sigma and y that fit each other and the state."""
    H, sigma, values = plain(model.H), plain(model.sigma), plain(np.asarray(y))
    n_y = H.shape[0]
    if H.shape != (n_y, x.size) or sigma.shape != (n_y,) or values.shape != (n_y,):
        raise ShapeError(
            f"y {values.shape}, H {H.shape} and sigma {sigma.shape} do not fit a state of {x.size} "
            f"entries: expected ({n_y},), ({n_y}, {x.size}) and ({n_y},)."
        )
    return H, sigma, values


@dataclass(frozen=True)
class CovarianceFilter(StateFilter[CovarianceState]):
    """A filter that carries the covariance."""

    kind: FilterKind = field(default_factory=Extended)

    square_root: ClassVar[bool] = False

    def start(self, mean: ArrayLike, factor: ArrayLike) -> CovarianceState:
        x, S = checked_start(mean, factor)
        return CovarianceState(x, S @ S.T)

    def step(
        self, model: StateModel, k: int, state: CovarianceState
    ) -> StatePrediction[CovarianceState]:
        if isinstance(self.kind, Extended):
            return self._step_along_tangent(model, k, state)
        x, p = state.mean, model.n_parameters
        U = upper_root(state.matrix)
        if U is None:
            lost = failed(state, self._indefinite())
            return StatePrediction(lost, state.matrix, np.zeros((x.size, model.n_moving)))
        result = _point_response(self.kind, model, k, x, U)
        if result is None:
            return self._not_finite(model, state)
        moved, columns = result
        response = columns[: x.size]
        cross = response[:p].T @ U[:p, :p]
        new = self._joined(model, k, state, moved, cross, columns.T @ columns)
        return StatePrediction(new, U.T, response)

    def _step_along_tangent(
        self, model: StateModel, k: int, state: CovarianceState
    ) -> StatePrediction[CovarianceState]:
        """m⁺ = f(x),   P_mm⁺ = F P Fᵀ + E Eᵀ,   P_mp⁺ = F P_xp,   P_pp⁺ = P_pp."""
        moved, F = tangent(model, k, state.mean)
        if not (np.isfinite(moved).all() and np.isfinite(F).all()):
            return self._not_finite(model, state)
        E = noise_columns(model, k, state.mean)
        FP, own = propagated(state.matrix, F, E @ E.T)
        new = self._joined(model, k, state, moved, FP[:, : model.n_parameters], own)
        return StatePrediction(new, state.matrix, F.T)

    def correct(
        self, model: StateModel, k: int, state: CovarianceState, y: Array
    ) -> Correction[CovarianceState]:
        H, sigma, values = _measurement(model, state.mean, y)
        x, P = state.mean, state.matrix
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
                return Correction(state, innovation, variance, math.nan, 0.0)
            rest, HP = innovation[present], HP[present]
            Sigma = Sigma[np.ix_(present, present)]
        L, info = lapack.dpotrf(Sigma.T, lower=1)
        if info != 0:
            lost = failed(state, self._indefinite())
            return Correction(lost, innovation, variance, math.nan, 0.0)
        W, _ = lapack.dtrtrs(L, HP, lower=1)
        z, _ = lapack.dtrtrs(L, rest, lower=1)
        new = CovarianceState(x + W.T @ z, P - W.T @ W)
        if new.matrix.diagonal().min() < 0.0:
            new = failed(state, self._indefinite())
        squared = float(z @ z)
        log_det = 2.0 * float(np.log(L.diagonal()).sum())
        log_likelihood = -0.5 * (squared + log_det + rest.size * _LOG_2PI)
        return Correction(new, innovation, variance, squared, log_likelihood)

    def restart(self, state: CovarianceState, mean: Array, factor: Array) -> CovarianceState:
        p = state.mean.size - mean.size
        P = np.zeros_like(state.matrix)
        P[:p, :p] = state.matrix[:p, :p]
        P[p:, p:] = factor @ factor.T
        return CovarianceState(np.concatenate((state.mean[:p], mean)), P)

    def failure(self, state: CovarianceState) -> str:
        # An extended filter takes no root of P and may have gone on with an indefinite one.
        return state.failure or ("" if state.definite else self._indefinite())

    def _joined(
        self,
        model: StateModel,
        k: int,
        state: CovarianceState,
        moved: Array,
        cross: Array,
        own: Array,
    ) -> CovarianceState:
        """The state at k + 1; cross (n_moving, n_parameters) is with the parameters."""
        p = model.n_parameters
        P = state.matrix.copy()
        P[p:, :p] = cross
        P[:p, p:] = cross.T
        P[p:, p:] = own
        variances = parameter_variances(model, k)
        if variances is not None:
            P.flat[: p * (P.shape[0] + 1) : P.shape[0] + 1] += variances
        return CovarianceState(np.concatenate((state.mean[:p], moved)), P)

    def _not_finite(
        self, model: StateModel, state: CovarianceState
    ) -> StatePrediction[CovarianceState]:
        nothing = np.zeros((state.mean.size, model.n_moving))
        return StatePrediction(failed(state, _NOT_FINITE), state.matrix, nothing)

    def _indefinite(self) -> str:
        return (
            "the covariance lost its definiteness in rounding, as happens with a large prior and "
            f"small noise. Use sr{self.name}, which carries the covariance's root."
        )


@dataclass(frozen=True)
class RootFilter(StateFilter[RootState]):
    """A filter that carries the covariance's lower-triangular root."""

    kind: FilterKind = field(default_factory=Extended)

    square_root: ClassVar[bool] = True

    def _response(
        self, model: StateModel, k: int, x: Array, U: Array
    ) -> tuple[Array, Array] | None:
        """Mean (n_moving,) and columns (n_x + …, n_moving) of the moving part at sample k + 1.

        The products of all columns add up to its covariance, the first n_x are its responses to
        the columns of the factor, which are the rows of U. None where the model is not finite.
        """
        if not isinstance(self.kind, Extended):
            return _point_response(self.kind, model, k, x, U)
        moved, F = tangent(model, k, x)
        if not (np.isfinite(moved).all() and np.isfinite(F).all()):
            return None
        return moved, np.concatenate((U @ F.T, noise_columns(model, k, x).T))

    def start(self, mean: ArrayLike, factor: ArrayLike) -> RootState:
        x, S = checked_start(mean, factor)
        return RootState(x, np.array(S, order="F"))

    def step(self, model: StateModel, k: int, state: RootState) -> StatePrediction[RootState]:
        x, U, p = state.mean, state.rows, model.n_parameters
        response = self._response(model, k, x, U)
        if response is None:
            nothing = np.zeros((x.size, model.n_moving))
            return StatePrediction(failed(state, _NOT_FINITE), state.root, nothing)
        moved, columns = response
        new = join(U, columns, p)
        variances = parameter_variances(model, k)
        if variances is not None:
            add_variances(new, variances)
        mean = np.concatenate((x[:p], moved))
        return StatePrediction(RootState(mean, new.T), state.root, columns[: x.size])

    def correct(
        self, model: StateModel, k: int, state: RootState, y: Array
    ) -> Correction[RootState]:
        H, sigma, values = _measurement(model, state.mean, y)
        mean, U = state.mean.copy(), state.rows.copy()
        innovation, variance, squared, log_det = absorb(mean, U, H, sigma, values)
        present = values.size - int(np.count_nonzero(np.isnan(values)))
        if present == 0:
            return Correction(state, innovation, variance, math.nan, 0.0)
        log_likelihood = -0.5 * (squared + log_det + present * _LOG_2PI)
        return Correction(RootState(mean, U.T), innovation, variance, squared, log_likelihood)

    def restart(self, state: RootState, mean: Array, factor: Array) -> RootState:
        p = state.mean.size - mean.size
        root = np.zeros_like(state.root, order="F")
        root[:p, :p] = state.root[:p, :p]  # parameters come first: their own factor
        root[p:, p:] = factor
        return RootState(np.concatenate((state.mean[:p], mean)), root)


def _point_response(
    kind: Unscented | CentralDifferences, model: StateModel, k: int, x: Array, U: Array
) -> tuple[Array, Array] | None:
    """The response of `RootFilter._response` by pairs of points along the rows of U."""
    weights = kind.weights(x.size)
    values = images(model, k, pair_points(x, U, weights.gamma))
    if not np.isfinite(values).all():
        return None
    mean, columns = pair_columns(values, noise_columns(model, k, x), *weights)
    return mean, columns


FILTERS: Mapping[str, StateFilter[Any]] = MappingProxyType(
    {
        made.name: made
        for kind in (Extended(), Unscented(), CentralDifferences())
        for made in (CovarianceFilter(kind), RootFilter(kind))
    }
)
"""The six Kalman filters with their default settings: ekf, srekf, ukf, srukf, cdkf, srcdkf."""


def state_filter(name: str) -> StateFilter[Any]:
    """A filter of this name with its default settings."""
    if name not in FILTERS:
        raise unknown_name("filter", name, FILTERS)
    return FILTERS[name]
