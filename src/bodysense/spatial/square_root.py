"""Square-root manifold: the pseudo-inertia as C C^T + epsilon 1 with a lower triangular C.

theta = (C11, C21, C22, C31, C32, C33, C41, C42, C43, C44), thesis eqs 168 to 173, after Sutanto
et al. The thesis orders its parameters chi as (M, MX, MY, MZ, XX, XY, XZ, YY, YZ, ZZ);
here pi is in Pinocchio's order, as everywhere. The map is quadratic, without exponentials, and
epsilon keeps every theta consistent, theta = 0 included.

Its Jacobian loses rank where a diagonal entry of C is zero. The sign of each column of C is
free; `from_pi` returns the positive diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import InconsistentInertiaError
from bodysense.spatial.arrays import Array, as_array, read_only
from bodysense.spatial.manifold import InertiaManifold, product_derivative
from bodysense.spatial.pseudo_inertia import PI_DUAL_BASIS
from bodysense.spatial.stacks import as_stack

_SINGULAR = 1e-9  # diagonal entry of C, relative to its row, that no longer moves pi
_ROWS, _COLUMNS = np.tril_indices(4)  # C11, C21, C22, C31, ...: the order of eq 169


def _constant_basis() -> Array:
    basis = np.zeros((10, 4, 4))
    basis[np.arange(10), _ROWS, _COLUMNS] = 1.0
    return read_only(basis)


_BASIS = _constant_basis()


@dataclass(frozen=True)
class SquareRoot(InertiaManifold):
    """Thesis eqs 168 to 173.

    Attributes:
        epsilon: the fraction of the identity in eq 168, kg and kg m^2. Smaller than any body in
            hand: 1e-10 is below the second moments of a gram within three millimetres.
    """

    epsilon: float = 1e-10

    name: ClassVar[str] = "square-root"
    coordinate_names: ClassVar[tuple[str, ...]] = tuple(
        f"C{row + 1}{column + 1}" for row, column in zip(_ROWS, _COLUMNS, strict=True)
    )

    def __post_init__(self) -> None:
        as_array(self.epsilon, (), "epsilon")
        if self.epsilon < 0.0:
            raise InconsistentInertiaError(
                f"epsilon is {self.epsilon:.3g}: a negative one admits impossible bodies. "
                "Use zero or a small positive number, such as 1e-10."
            )

    def bilinear_factor(self, theta: ArrayLike) -> Array:
        """A(theta), (..., 10, 10), linear in theta, with pi = A(theta) theta + to_pi(0).

        Thesis eq 173, rows in Pinocchio's order: the inner step of sequential programming holds
        A and solves for theta. Regular if and only if no diagonal entry of C is zero.
        """
        theta = as_stack(theta, (10,), "theta")
        C = _factor(theta)
        # Of each product C_ik C_jk with i >= j, the thesis holds C_jk and solves for C_ik.
        lower = np.tril(_BASIS @ np.swapaxes(C, -1, -2)[..., None, :, :])
        strict = np.tril(lower, -1)
        half = lower + np.swapaxes(strict, -1, -2)
        by_theta = half.reshape(*theta.shape, 16) @ PI_DUAL_BASIS.reshape(10, 16).T
        return np.ascontiguousarray(np.swapaxes(by_theta, -1, -2))

    def _pseudo_inertia(self, theta: Array) -> Array:
        C = _factor(theta)
        P: Array = C @ np.swapaxes(C, -1, -2) + self.epsilon * np.eye(4)
        return P

    def _coordinates(self, P: Array) -> Array:
        try:
            C = np.linalg.cholesky(P - self.epsilon * np.eye(4))
        except np.linalg.LinAlgError as error:
            smallest = float(np.linalg.eigvalsh(P)[..., 0].min())
            raise InconsistentInertiaError(
                f"the smallest eigenvalue of the pseudo-inertia, {smallest:.3g}, does not exceed "
                f"epsilon = {self.epsilon:.3g}: use SquareRoot(epsilon={0.01 * smallest:.1g}) or "
                "less."
            ) from error
        return np.asarray(C[..., _ROWS, _COLUMNS], dtype=np.float64)

    def _derivatives(self, theta: Array) -> Array:
        return product_derivative(_factor(theta), _BASIS)

    def _rank(self, theta: Array) -> int:
        # A row of C has one unit, and scaling rows keeps the rank: unit rows make it unit-free.
        C = _factor(theta)
        length = np.linalg.norm(C, axis=-1, keepdims=True)
        C = np.divide(C, length, out=np.zeros_like(C), where=length > 0.0)
        derivatives = product_derivative(C, _BASIS).reshape(10, 16)
        return int((np.linalg.svd(derivatives, compute_uv=False) > _SINGULAR).sum())

    def _why_singular(self, theta: Array) -> str:
        diagonal = np.abs(np.diagonal(_factor(theta)))
        zero = [f"C{k + 1}{k + 1}" for k in np.flatnonzero(diagonal <= _SINGULAR * diagonal.max())]
        named = ", ".join(zero) if zero else f"C{diagonal.argmin() + 1}{diagonal.argmin() + 1}"
        return (
            f"{named} on the diagonal of C is zero, the border where the body goes flat but for "
            "epsilon: bound the diagonal away from zero"
        )


def _factor(theta: Array) -> Array:
    C = np.zeros((*theta.shape[:-1], 4, 4))
    C[..., _ROWS, _COLUMNS] = theta
    return C
