"""What every inertia manifold offers: ten free numbers theta, always a body that can exist."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import InconsistentInertiaError
from bodysense.spatial.arrays import Array, as_array, as_stack
from bodysense.spatial.pseudo_inertia import (
    PI_DUAL_BASIS,
    pseudo_inertia_from_pi,
    require_consistent,
)


class InertiaManifold(ABC):
    """A smooth map theta in R^10 -> pi whose every value is physically consistent.

    Optimising over theta needs no constraint. All functions take leading axes, (..., 10), except
    `rank` and `singular_reason`, which look at one theta. The promise holds as far as doubles
    reach: an exponent of -20 beside one of +20 is a body thinner than rounding.
    """

    name: ClassVar[str]
    coordinate_names: ClassVar[tuple[str, ...]]

    def to_pi(self, theta: ArrayLike) -> Array:
        """Return pi (..., 10) of theta (..., 10).

        Raises:
            InconsistentInertiaError: theta is so large that pi overflows or the mass vanishes.
        """
        theta = as_stack(theta, (10,), "theta")
        with np.errstate(all="ignore"):
            P = self._pseudo_inertia(theta)
            pi: Array = P.reshape(*P.shape[:-2], 16) @ PI_DUAL_BASIS.reshape(10, 16).T
        self._require_range(pi, (pi[..., 0] > 0.0).all())
        return pi

    def from_pi(self, pi: ArrayLike) -> Array:
        """Return the theta (..., 10) of pi (..., 10): `to_pi(from_pi(pi))` is pi.

        Raises:
            InconsistentInertiaError: pi is not strictly consistent; says which body and why.
        """
        return self._coordinates(pseudo_inertia_from_pi(require_consistent(pi)))

    def jacobian(self, theta: ArrayLike) -> Array:
        """Return d pi / d theta, (..., 10, 10), row by pi and column by theta."""
        theta = as_stack(theta, (10,), "theta")
        with np.errstate(all="ignore"):
            dP = self._derivatives(theta)
            by_theta = dP.reshape(*dP.shape[:-2], 16) @ PI_DUAL_BASIS.reshape(10, 16).T
        self._require_range(by_theta)
        return np.ascontiguousarray(np.swapaxes(by_theta, -1, -2))

    def rank(self, theta: ArrayLike) -> int:
        """Rank of the Jacobian at one theta (10,), free of units; 10 where the chart is regular."""
        return self._rank(as_array(theta, (10,), "theta"))

    def singular_reason(self, theta: ArrayLike) -> str | None:
        """Why the chart is singular at one theta (10,) and what to do; None where it is not."""
        theta = as_array(theta, (10,), "theta")
        rank = self._rank(theta)
        return None if rank == 10 else f"rank {rank} of 10: {self._why_singular(theta)}"

    @abstractmethod
    def _pseudo_inertia(self, theta: Array) -> Array:
        """P (..., 4, 4) of theta (..., 10)."""

    @abstractmethod
    def _coordinates(self, P: Array) -> Array:
        """Theta (..., 10) of a positive definite P (..., 4, 4)."""

    @abstractmethod
    def _derivatives(self, theta: Array) -> Array:
        """dP/dtheta_k, (..., 10, 4, 4)."""

    @abstractmethod
    def _rank(self, theta: Array) -> int: ...

    @abstractmethod
    def _why_singular(self, theta: Array) -> str: ...

    def _require_range(self, values: Array, positive: bool | np.bool_ = True) -> None:
        if not (positive and np.isfinite(values).all()):
            raise InconsistentInertiaError(
                f"theta is out of the range of the {self.name} manifold: its mass or moments "
                "overflow or vanish in double precision. Bound the step or start from from_pi()."
            )


def product_derivative(factor: Array, dfactor: Array) -> Array:
    """d(F F^T) = dF F^T + F dF^T, for F (..., 4, 4) and dF (..., 10, 4, 4)."""
    half = dfactor @ np.swapaxes(factor, -1, -2)[..., None, :, :]
    derivative: Array = half + np.swapaxes(half, -1, -2)
    return derivative
