"""`IntegratorChain`: how positions go on between two samples, driven by white noise.

With x = (q, q̇) driven by white acceleration, or x = (q, q̇, q̈) by white jerk, of spectral density s
for each coordinate,

    x(t + h) = F(h) x(t) + w,   w ~ N(0, Q(h)),

    F_ij = h^(j-i) / (j-i)!,    Q_ij = s h^(m-i + m-j + 1) / ((m-i)! (m-j)! (m-i + m-j + 1)),

with m the index of the last derivative. Q = s h D K D with D = diag(h^(m-i)) and a constant K, so
that its factor is exact however short h is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np

from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False)
class IntegratorChain:
    """n coordinates with their derivatives: all positions, then all velocities, and so on.

    Attributes:
        order: numbers per coordinate, 2 with velocities, 3 with accelerations.
        density: (n,) spectral density of the derivative behind the last.
    """

    order: int
    density: Array

    def transition(self, h: float) -> Array:
        """(order n, order n) F after a time h [s]."""
        return _kron(self._step(h), np.eye(self.density.size))

    def noise(self, h: float) -> Array:
        """(order n, order n) Q after a time h [s]."""
        D = self._scales(h)
        return _kron(D[:, None] * self._constant() * D, np.diag(self.density))

    def white_rows(self, h: float) -> tuple[Array, Array]:
        """B and A with B x(t) + A x(t + h) = W (x(t + h) - F x(t)) white, W Q Wᵀ = 1."""
        W = np.linalg.inv(np.linalg.cholesky(self._constant())) / self._scales(h)
        scale = np.diag(1.0 / np.sqrt(self.density))
        return -_kron(W @ self._step(h), scale), _kron(W, scale)

    def _step(self, h: float) -> Array:
        F = np.eye(self.order)
        for i in range(self.order):
            for j in range(i + 1, self.order):
                F[i, j] = h ** (j - i) / factorial(j - i)
        return F

    def _constant(self) -> Array:
        behind = range(self.order - 1, -1, -1)  # m - i of each row
        return np.array(
            [[1.0 / (factorial(i) * factorial(j) * (i + j + 1)) for j in behind] for i in behind]
        )

    def _scales(self, h: float) -> Array:
        scales: Array = np.sqrt(h) * np.array([h**i for i in range(self.order - 1, -1, -1)])
        return scales


def _kron(A: Array, B: Array) -> Array:
    return np.asarray(np.kron(A, B), dtype=np.float64)
