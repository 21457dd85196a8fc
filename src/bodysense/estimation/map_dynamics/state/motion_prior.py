"""How positions go on between two moments: a chain of integrators that white noise drives.

With x = (q, q̇) driven by white acceleration, or x = (q, q̇, q̈) by white jerk, of spectral density
s for each joint,

    x(t + h) = F(h) x(t) + w,   w ~ N(0, Q(h)),

    F_ij = h^(j-i) / (j-i)!,    Q_ij = s h^(m-i + m-j + 1) / ((m-i)! (m-j)! (m-i + m-j + 1)),

with m the index of the last derivative. Q = s h D K D with D = diag(h^(m-i)) and a constant K, so
that its factor is exact however short h is.
"""

from __future__ import annotations

from math import factorial

import numpy as np

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import Array

ORDERS = (2, 3)
"""Numbers of a joint: position and velocity, or these and the acceleration."""

_SHORTEST = 1e-9  # s: moments that are not apart


def transition(order: int, h: float) -> Array:
    """(order, order) F of one joint."""
    F = np.eye(order)
    for i in range(order):
        for j in range(i + 1, order):
            F[i, j] = h ** (j - i) / factorial(j - i)
    return F


def noise(order: int, h: float) -> Array:
    """(order, order) Q of one joint for a density of one."""
    D = _scales(order, h)
    Q: Array = D[:, None] * _constant(order) * D
    return Q


def whitener(order: int, h: float) -> Array:
    """(order, order) W with W Q Wᵀ = 1 for a density of one."""
    W: Array = np.linalg.inv(np.linalg.cholesky(_constant(order))) / _scales(order, h)
    return W


def steps(times: Array) -> Array:
    """(T - 1,) time from each moment to the next.

    Raises:
        ShapeError: times that do not grow.
    """
    h = np.diff(times)
    if (h < _SHORTEST).any():
        k = int(np.argmin(h))
        raise ShapeError(
            f"times must grow, but moment {k + 1} is at {times[k + 1]:g} s after {times[k]:g} s: "
            "sort the readings, and keep one of each time."
        )
    return h


def _constant(order: int) -> Array:
    m = order - 1
    K = np.empty((order, order))
    for i in range(order):
        for j in range(order):
            K[i, j] = 1.0 / (factorial(m - i) * factorial(m - j) * (2 * m - i - j + 1))
    return K


def _scales(order: int, h: float) -> Array:
    powers = np.array([h ** (order - 1 - i) for i in range(order)])
    scales: Array = np.sqrt(h) * powers
    return scales
