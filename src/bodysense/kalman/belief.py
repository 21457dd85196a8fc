"""What a filter believes of a state: a mean, and a covariance or its triangular root."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from bodysense.errors import ShapeError
from bodysense.kalman.model import plain
from bodysense.spatial.arrays import Array, as_array

_ROUNDING = 1e-9
"""Negative eigenvalues of correlations up to this size are not held against a covariance."""

AnyBelief = TypeVar("AnyBelief", bound="Belief")


@dataclass(frozen=True, eq=False)
class Belief(ABC):
    """A normal distribution of the state. Nobody writes to its arrays.

    Attributes:
        mean: (n_x,).
        failure: why this belief cannot be carried on, with advice; empty where it can.
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
class RootBelief(Belief):
    """Held by its factor, which is lower triangular and, as columns are used, column by column.

    Attributes:
        root: (n_x, n_x) the factor S.
    """

    root: Array

    @property
    def factor(self) -> Array:
        """(n_x, n_x) lower triangular S with covariance S Sᵀ."""
        return self.root

    @property
    def rows(self) -> Array:
        """(n_x, n_x) Sᵀ: a view, if the factor lies column by column."""
        return plain(self.root.T)

    @cached_property
    def covariance(self) -> Array:
        """(n_x, n_x) S Sᵀ."""
        covariance: Array = self.root @ self.root.T
        return covariance


@dataclass(frozen=True, eq=False)
class CovarianceBelief(Belief):
    """Held by its covariance.

    Attributes:
        matrix: (n_x, n_x) the covariance, symmetric.
    """

    matrix: Array

    @property
    def covariance(self) -> Array:
        """(n_x, n_x)."""
        return self.matrix

    @property
    def rows(self) -> Array:
        """(n_x, n_x) the covariance."""
        return plain(self.matrix)

    @property
    def definite(self) -> bool:
        """Whether no eigenvalue of the correlations is negative beyond rounding."""
        scale = np.sqrt(np.where(self.matrix.diagonal() > 0.0, self.matrix.diagonal(), 1.0))
        correlations = self.matrix / np.outer(scale, scale)
        return upper_root(correlations + _ROUNDING * np.eye(scale.size)) is not None

    @cached_property
    def factor(self) -> Array:
        """(n_x, n_x) lower triangular S with S Sᵀ the covariance.

        Where rounding has left negative eigenvalues, that of the matrix without them.
        """
        upper = upper_root(self.matrix)
        if upper is None:
            values, vectors = np.linalg.eigh(self.matrix)
            rows = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
            upper = np.linalg.qr(rows).R
        lower: Array = upper.T
        return lower


def failed(belief: AnyBelief, failure: str) -> AnyBelief:
    """The same belief, marked with why it could not be carried on."""
    return replace(belief, failure=failure)


def upper_root(P: Array) -> Array | None:
    """(n, n) U with P = UᵀU, Cholesky's lower factor transposed; none where P is not definite."""
    # LAPACK counts columns first, so the transpose of a symmetric P goes in without a copy.
    lower, info = lapack.dpotrf(P.T, lower=1, clean=1)
    if info != 0:
        return None
    upper: Array = lower.T
    return upper


def checked_start(mean: ArrayLike, factor: ArrayLike) -> tuple[Array, Array]:
    """Mean and lower-triangular factor that a filter can start from.

    Raises:
        ShapeError: other shapes, not finite, or a factor that is not lower triangular.
    """
    x = as_array(mean, (None,), "mean").copy()
    S = as_array(factor, (x.size, x.size), "factor")
    if np.triu(S, 1).any():
        raise ShapeError(
            "factor has entries above its diagonal: give the lower triangular root of the "
            "covariance, numpy.linalg.cholesky(P)."
        )
    return x, S
