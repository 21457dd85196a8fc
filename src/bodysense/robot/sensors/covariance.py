"""Covariances that sensors are given: symmetric, finite, nowhere negative; zero means exact."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import Array, one_each, read_only

_ROUNDING = 1e-10  # of the largest entry: what a matrix read from a file may be off


def variances(std: ArrayLike, m: int, name: str = "std") -> Array:
    """(m, m) covariance of readings that err independently of each other.

    Args:
        std: standard deviation in SI units, one number for all or `m` of them; zero is exact.
        m: number of readings.
        name: what the caller calls `std`, for messages.

    Raises:
        ShapeError: another number of them, negative, or not finite.
    """
    return np.diag(deviations(std, m, name) ** 2)


def deviations(std: ArrayLike, m: int, name: str) -> Array:
    """(m,) standard deviations, from one number or `m` of them."""
    values = one_each(std, m, name)
    if (values < 0.0).any():
        raise ShapeError(
            f"{name} holds {values.min():g}: a standard deviation is zero (exact) or positive."
        )
    return values


def checked_covariance(value: ArrayLike, m: int, name: str) -> Array:
    """Return `value` as an (m, m) covariance, symmetric to the last digit and read-only.

    Raises:
        ShapeError: wrong shape, not finite, not symmetric, or with a negative direction.
    """
    try:
        given = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{name} must be a matrix of numbers: {error}") from error
    if given.shape != (m, m):
        raise ShapeError(
            f"{name} has shape {given.shape}, expected {(m, m)}: build it from standard deviations "
            f"with variances(std, {m})."
        )
    if not np.isfinite(given).all():
        raise ShapeError(
            f"{name} holds {given[~np.isfinite(given)][0]}: give finite variances, and leave a "
            "sensor that says nothing out."
        )
    size = float(np.abs(given).max(initial=0.0))
    asymmetry = float(np.abs(given - given.T).max(initial=0.0))
    if asymmetry > _ROUNDING * size:
        raise ShapeError(
            f"{name} is not symmetric (by {asymmetry:.3g}): give the full matrix, for example "
            "(A + A.T) / 2."
        )
    Sigma = 0.5 * (given + given.T)
    least = float(np.linalg.eigvalsh(Sigma).min(initial=0.0))
    if least < -_ROUNDING * size:
        raise ShapeError(
            f"{name} is not positive: its least eigenvalue is {least:.3g}. Variances are squares "
            "of standard deviations, and no correlation exceeds 1."
        )
    return read_only(Sigma)
