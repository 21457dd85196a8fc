"""The model of a system: how its state moves, and what is measured of it; and its distribution.

    x = [p; m],   p⁺ = p + w_p,   m⁺ = f_k(p, m) + E w,   y = H x + e

The parameters p come first and stay put, but for a little random walk if asked for; the moving
part m follows any dynamics. Measurements are linear in the state, with independent noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import Array, as_array


class StateModel(Protocol):
    """A system with a state of parameters and a moving part. n_x = n_parameters + n_moving."""

    @property
    def n_parameters(self) -> int:
        """Number of parameters, the first entries of the state; may be zero."""

    @property
    def n_moving(self) -> int:
        """Number of entries of the moving part, the rest of the state."""

    @property
    def H(self) -> Array:
        """(n_y, n_x) what is measured: y = H x + e."""

    @property
    def sigma(self) -> Array:
        """(n_y,) standard deviations of the measurements' noise, which is independent."""

    def advance(self, k: int, X: Array) -> Array:
        """(n, n_moving) moving parts at sample k + 1 of states X (n, n_x) at sample k."""

    def tangent(self, k: int, x: Array) -> tuple[Array, Array]:
        """(n_moving,) the same for one state, and (n_moving, n_x) its derivative by x."""

    def noise(self, k: int, x: Array) -> Array:
        """(n_moving, n_w) columns E: the moving part's process noise has covariance E Eᵀ."""

    def parameter_noise(self, k: int) -> Array | None:
        """(n_parameters,) variances that this step adds to the parameters, or none.

        A square-root form must then make its whole factor triangular again, so a model may add
        them every few samples only.
        """


def check_model(model: StateModel) -> tuple[int, int]:
    """Number of measurements n_y and of states n_x of a model that fits together."""
    p, m = model.n_parameters, model.n_moving
    if p < 0 or m < 1:
        raise ShapeError(
            f"the model has {p} parameters and {m} moving entries: give zero or more parameters "
            "and at least one moving entry."
        )
    H = as_array(model.H, (None, p + m), "H of the model")
    sigma = as_array(model.sigma, (H.shape[0],), "sigma of the model")
    if not (sigma > 0.0).all():
        worst = int(np.argmin(sigma))
        raise ShapeError(
            f"sigma of measurement {worst} is {sigma[worst]:g}: give positive standard "
            "deviations; leave a measurement out by a NaN in y."
        )
    return H.shape[0], p + m


def plain(value: Array) -> Array:
    """The array itself where kernels can take it as it is, else a copy.

    Read-only and strided arrays are other types to numba, for which it would compile anew.
    """
    flags = value.flags
    if flags.c_contiguous and flags.writeable and value.dtype == np.float64:
        return value
    return np.array(value, dtype=np.float64, order="C")


def images(model: StateModel, k: int, X: Array) -> Array:
    """(n, n_moving) the model's `advance`, in the right shape or refused."""
    return _shaped(model.advance(k, X), (X.shape[0], model.n_moving), "advance")


def tangent(model: StateModel, k: int, x: Array) -> tuple[Array, Array]:
    """The model's `tangent`, in the right shapes or refused."""
    value, F = model.tangent(k, x)
    return (
        _shaped(value, (model.n_moving,), "tangent"),
        _shaped(F, (model.n_moving, x.size), "tangent"),
    )


def noise_columns(model: StateModel, k: int, x: Array) -> Array:
    """(n_moving, n_w) the model's `noise`, in the right shape or refused."""
    E = model.noise(k, x)
    return _shaped(E, (model.n_moving, E.shape[1] if E.ndim == 2 else 0), "noise")


def parameter_variances(model: StateModel, k: int) -> Array | None:
    """The model's `parameter_noise`, in the right shape or refused."""
    variances = model.parameter_noise(k)
    if variances is None or model.n_parameters == 0:
        return None
    return _shaped(variances, (model.n_parameters,), "parameter_noise")


def _shaped(value: Array, shape: tuple[int, ...], name: str) -> Array:
    if value.shape != shape:
        raise ShapeError(
            f"the model's {name} returned shape {value.shape}, expected {shape}: see StateModel."
        )
    return plain(value)


# The distribution of a state: a mean, and a covariance or its triangular root.

_ROUNDING = 1e-9
"""Negative eigenvalues of correlations up to this size do not make a covariance indefinite."""

AnyState = TypeVar("AnyState", bound="GaussianState")


@dataclass(frozen=True, eq=False)
class GaussianState(ABC):
    """A normal distribution of the state. Nobody writes to its arrays.

    Attributes:
        mean: (n_x,).
        failure: why it cannot be propagated, with advice; empty where it can.
    """

    mean: Array
    failure: str = field(default="", kw_only=True)

    @property
    @abstractmethod
    def covariance(self) -> Array:
        """(n_x, n_x)."""

    @property
    @abstractmethod
    def factor(self) -> Array:
        """(n_x, n_x) lower triangular S with covariance S Sᵀ."""

    @property
    @abstractmethod
    def rows(self) -> Array:
        """(n_x, n_x) what is carried, factor transposed or covariance, row by row for kernels."""

    @property
    def sigma(self) -> Array:
        """(n_x,) standard deviations."""
        return np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))


@dataclass(frozen=True, eq=False)
class RootState(GaussianState):
    """Held by its factor `root`, lower triangular and, as columns are used, column by column."""

    root: Array

    @property
    def factor(self) -> Array:
        return self.root

    @property
    def rows(self) -> Array:
        return plain(self.root.T)

    @cached_property
    def covariance(self) -> Array:
        covariance: Array = self.root @ self.root.T
        return covariance


@dataclass(frozen=True, eq=False)
class CovarianceState(GaussianState):
    """Held by its covariance `matrix`, symmetric."""

    matrix: Array

    @property
    def covariance(self) -> Array:
        return self.matrix

    @property
    def rows(self) -> Array:
        return plain(self.matrix)

    @property
    def definite(self) -> bool:
        """Whether no eigenvalue of the correlations is negative beyond rounding."""
        scale = np.sqrt(np.where(self.matrix.diagonal() > 0.0, self.matrix.diagonal(), 1.0))
        correlations = self.matrix / np.outer(scale, scale)
        return upper_root(correlations + _ROUNDING * np.eye(scale.size)) is not None

    @cached_property
    def factor(self) -> Array:
        # Where rounding has left negative eigenvalues, that of the matrix without them.
        upper = upper_root(self.matrix)
        if upper is None:
            values, vectors = np.linalg.eigh(self.matrix)
            rows = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
            upper = np.linalg.qr(rows).R
        lower: Array = upper.T
        return lower


def propagated(P: Array, F: Array, Q: Array) -> tuple[Array, Array]:
    """F P and F P Fᵀ + Q: covariances of x⁺ = F x + w, w ~ N(0, Q), with x and of its own."""
    FP = F @ P
    own = FP @ F.T + Q
    return FP, 0.5 * (own + own.T)


def failed(state: AnyState, failure: str) -> AnyState:
    """The same state, marked with why it could not be propagated."""
    return replace(state, failure=failure)


def upper_root(P: Array) -> Array | None:
    """(n, n) U with P = UᵀU, Cholesky's lower factor transposed; none where P is not definite."""
    # LAPACK counts columns first, so the transpose of a symmetric P goes in without a copy.
    lower, info = lapack.dpotrf(P.T, lower=1, clean=1)
    if info != 0:
        return None
    upper: Array = lower.T
    return upper


def checked_start(mean: ArrayLike, factor: ArrayLike) -> tuple[Array, Array]:
    """Mean and lower-triangular factor that a filter can start from."""
    x = as_array(mean, (None,), "mean").copy()
    S = as_array(factor, (x.size, x.size), "factor")
    if np.triu(S, 1).any():
        raise ShapeError(
            "factor has entries above its diagonal: give the lower triangular root of the "
            "covariance, numpy.linalg.cholesky(P)."
        )
    return x, S
