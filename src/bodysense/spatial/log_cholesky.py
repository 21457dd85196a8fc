"""Log-Cholesky manifold: the pseudo-inertia as U U^T with an upper triangular U.

    U = e^alpha [[e^d1, s12,  s13,  t1],
                 [0,    e^d2, s23,  t2],
                 [0,    0,    e^d3, t3],
                 [0,    0,    0,    1 ]],     P = U U^T

theta = (alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3): paper 002 eqs 9 and 10, after Rucker and
Wensing (2022). In print the third diagonal entry is s23, which leaves rank 9: it is e^d3. And
vech(U U^T) is Sigma and h, so the inertia is tr(Sigma) 1 - Sigma. The map is one to one onto all
bodies, with a Jacobian that is regular everywhere: e^2alpha is the mass, t the centre of mass.
Same coordinates as `pin.LogCholeskyParameters`, which has no inverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bodysense.spatial.arrays import Array
from bodysense.spatial.manifold import InertiaManifold, product_derivative

_ROWS = np.array([0, 1, 0, 0, 1, 2])  # of s12, s23, s13, t1, t2, t3 in U
_COLUMNS = np.array([1, 2, 2, 3, 3, 3])
_DIAGONAL = np.arange(3)


@dataclass(frozen=True)
class LogCholesky(InertiaManifold):
    """Paper 002 eqs 9 and 10: no singularity anywhere, at the price of a strong nonlinearity."""

    name: ClassVar[str] = "log-cholesky"
    coordinate_names: ClassVar[tuple[str, ...]] = (
        *("alpha", "d1", "d2", "d3"),
        *("s12", "s23", "s13", "t1", "t2", "t3"),
    )

    def _pseudo_inertia(self, theta: Array) -> Array:
        U = _factor(theta)
        return U @ np.swapaxes(U, -1, -2)

    def _coordinates(self, P: Array) -> Array:
        # numpy's factor is lower triangular; reversing both axes before and after makes it upper.
        U = np.linalg.cholesky(P[..., ::-1, ::-1])[..., ::-1, ::-1]
        scale = U[..., 3, 3, None]
        theta = np.empty((*P.shape[:-2], 10))
        theta[..., 0] = np.log(scale[..., 0])
        theta[..., 1:4] = np.log(U[..., _DIAGONAL, _DIAGONAL] / scale)
        theta[..., 4:] = U[..., _ROWS, _COLUMNS] / scale
        return theta

    def _derivatives(self, theta: Array) -> Array:
        U = _factor(theta)
        dU = np.zeros((*theta.shape, 4, 4))
        dU[..., 0, :, :] = U
        dU[..., 1 + _DIAGONAL, _DIAGONAL, _DIAGONAL] = U[..., _DIAGONAL, _DIAGONAL]
        dU[..., 4 + np.arange(6), _ROWS, _COLUMNS] = U[..., 3, 3, None]
        return product_derivative(U, dU)

    def _rank(self, theta: Array) -> int:
        # U^-1 dU is upper triangular, so dP = 0 asks for an antisymmetric triangular matrix.
        return 10

    def _why_singular(self, theta: Array) -> str:
        return ""  # never asked: the rank is 10 everywhere


def _factor(theta: Array) -> Array:
    U = np.zeros((*theta.shape[:-1], 4, 4))
    U[..., _DIAGONAL, _DIAGONAL] = np.exp(theta[..., 1:4])
    U[..., _ROWS, _COLUMNS] = theta[..., 4:]
    U[..., 3, 3] = 1.0
    U *= np.exp(theta[..., 0])[..., None, None]
    return U
