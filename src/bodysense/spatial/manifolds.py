"""Inertia manifolds: ten free coordinates theta that always give a physically consistent body.

Three charts of the positive definite pseudo-inertias P, each with its inverse, its Jacobian and its
singularities; `MANIFOLDS` lists them, `manifold_named` finds one by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import permutations, product
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import InconsistentInertiaError, unknown_name
from bodysense.spatial.arrays import Array, as_array, as_stack
from bodysense.spatial.pseudo_inertia import (
    PI_DUAL_BASIS,
    pseudo_inertia_from_pi,
    require_consistent,
)
from bodysense.spatial.se3 import exp_so3, left_jacobian, log_so3, skew


class InertiaManifold(ABC):
    """A smooth map theta in R^10 -> pi whose every value is physically consistent.

    Optimising over theta needs no constraint. All functions take leading axes, (..., 10), except
    `rank` and `singular_reason`, which look at one theta. The promise holds as far as doubles
    reach: an exponent of -20 beside one of +20 is a body thinner than rounding.
    """

    name: ClassVar[str]

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

    def _rank(self, theta: Array) -> int:
        return 10

    def _why_singular(self, theta: Array) -> str:
        return ""

    def _require_range(self, values: Array, positive: bool | np.bool_ = True) -> None:
        if not (positive and np.isfinite(values).all()):
            raise InconsistentInertiaError(
                f"theta is out of the range of the {self.name} manifold: its mass or moments "
                "overflow or vanish in double precision. Bound the step or start from from_pi()."
            )


def _product_derivative(factor: Array, dfactor: Array) -> Array:
    """d(F F^T) = dF F^T + F dF^T, for F (..., 4, 4) and dF (..., 10, 4, 4)."""
    half = dfactor @ np.swapaxes(factor, -1, -2)[..., None, :, :]
    derivative: Array = half + np.swapaxes(half, -1, -2)
    return derivative


_LC_ROWS = np.array([0, 1, 0, 0, 1, 2])  # of s12, s23, s13, t1, t2, t3 in U
_LC_COLUMNS = np.array([1, 2, 2, 3, 3, 3])
_DIAGONAL = np.arange(3)


@dataclass(frozen=True)
class LogCholesky(InertiaManifold):
    """P = U U^T with an upper triangular U: no singularity anywhere, but a strong nonlinearity.

        U = e^alpha [[e^d1, s12,  s13,  t1],
                     [0,    e^d2, s23,  t2],
                     [0,    0,    e^d3, t3],
                     [0,    0,    0,    1 ]]

    theta = (alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3): paper 002 eqs 9 and 10, after Rucker and
    Wensing (2022). In print the third diagonal entry is s23, which leaves rank 9: it is e^d3. And
    vech(U U^T) is Sigma and h, so the inertia is tr(Sigma) 1 - Sigma. The map is one to one onto
    all bodies: e^2alpha is the mass, t the centre of mass. The rank is 10 everywhere: U^-1 dU is
    upper triangular, so that dP = 0 asks for an antisymmetric triangular matrix. Same coordinates
    as `pin.LogCholeskyParameters`, which has no inverse.
    """

    name: ClassVar[str] = "log-cholesky"

    def _pseudo_inertia(self, theta: Array) -> Array:
        U = _log_cholesky_factor(theta)
        return U @ np.swapaxes(U, -1, -2)

    def _coordinates(self, P: Array) -> Array:
        # numpy's factor is lower triangular; reversing both axes before and after makes it upper.
        U = np.linalg.cholesky(P[..., ::-1, ::-1])[..., ::-1, ::-1]
        scale = U[..., 3, 3, None]
        theta = np.empty((*P.shape[:-2], 10))
        theta[..., 0] = np.log(scale[..., 0])
        theta[..., 1:4] = np.log(U[..., _DIAGONAL, _DIAGONAL] / scale)
        theta[..., 4:] = U[..., _LC_ROWS, _LC_COLUMNS] / scale
        return theta

    def _derivatives(self, theta: Array) -> Array:
        U = _log_cholesky_factor(theta)
        dU = np.zeros((*theta.shape, 4, 4))
        dU[..., 0, :, :] = U
        dU[..., 1 + _DIAGONAL, _DIAGONAL, _DIAGONAL] = U[..., _DIAGONAL, _DIAGONAL]
        dU[..., 4 + np.arange(6), _LC_ROWS, _LC_COLUMNS] = U[..., 3, 3, None]
        return _product_derivative(U, dU)


def _log_cholesky_factor(theta: Array) -> Array:
    U = np.zeros((*theta.shape[:-1], 4, 4))
    U[..., _DIAGONAL, _DIAGONAL] = np.exp(theta[..., 1:4])
    U[..., _LC_ROWS, _LC_COLUMNS] = theta[..., 4:]
    U[..., 3, 3] = 1.0
    U *= np.exp(theta[..., 0])[..., None, None]
    return U


_SINGULAR = 1e-9
"""Relative size below which a singular value of a Jacobian counts as zero."""

_SR_ROWS, _SR_COLUMNS = np.tril_indices(4)  # C11, C21, C22, C31, ...: the order of eq 169
_SR_BASIS = np.zeros((10, 4, 4))
_SR_BASIS[np.arange(10), _SR_ROWS, _SR_COLUMNS] = 1.0


@dataclass(frozen=True)
class SquareRoot(InertiaManifold):
    """P = C C^T + epsilon 1 with a lower triangular C: quadratic, without exponentials.

    theta = (C11, C21, C22, C31, C32, C33, C41, C42, C43, C44), thesis eqs 168 to 172, after Sutanto
    et al. The thesis orders its parameters chi as (M, MX, MY, MZ, XX, XY, XZ, YY, YZ, ZZ); here pi
    is in Pinocchio's order. epsilon keeps every theta consistent, theta = 0 included. The Jacobian
    loses rank where a diagonal entry of C is zero. The sign of each column of C is free; `from_pi`
    returns the positive diagonal.

    Attributes:
        epsilon: the fraction of the identity in eq 168, kg and kg m^2. Smaller than any body in
            hand: 1e-10 is below the second moments of a gram within three millimetres.
    """

    epsilon: float = 1e-10

    name: ClassVar[str] = "square-root"

    def __post_init__(self) -> None:
        as_array(self.epsilon, (), "epsilon")
        if self.epsilon < 0.0:
            raise InconsistentInertiaError(
                f"epsilon is {self.epsilon:.3g}: a negative one admits infeasible bodies. "
                "Use zero or a small positive number, such as 1e-10."
            )

    def _pseudo_inertia(self, theta: Array) -> Array:
        C = _square_root_factor(theta)
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
        return np.asarray(C[..., _SR_ROWS, _SR_COLUMNS], dtype=np.float64)

    def _derivatives(self, theta: Array) -> Array:
        return _product_derivative(_square_root_factor(theta), _SR_BASIS)

    def _rank(self, theta: Array) -> int:
        # A row of C has one unit, and scaling rows keeps the rank: unit rows make it unit-free.
        C = _square_root_factor(theta)
        length = np.linalg.norm(C, axis=-1, keepdims=True)
        C = np.divide(C, length, out=np.zeros_like(C), where=length > 0.0)
        derivatives = _product_derivative(C, _SR_BASIS).reshape(10, 16)
        return int((np.linalg.svd(derivatives, compute_uv=False) > _SINGULAR).sum())

    def _why_singular(self, theta: Array) -> str:
        diagonal = np.abs(np.diagonal(_square_root_factor(theta)))
        zero = [f"C{k + 1}{k + 1}" for k in np.flatnonzero(diagonal <= _SINGULAR * diagonal.max())]
        named = ", ".join(zero) if zero else f"C{diagonal.argmin() + 1}{diagonal.argmin() + 1}"
        return (
            f"{named} on the diagonal of C is zero, the border where the body goes flat but for "
            "epsilon: bound the diagonal away from zero"
        )


def _square_root_factor(theta: Array) -> Array:
    C = np.zeros((*theta.shape[:-1], 4, 4))
    C[..., _SR_ROWS, _SR_COLUMNS] = theta
    return C


_OTHER_TWO = ((1, 2), (2, 0), (0, 1))  # turning about axis i mixes these two


_RELABELLINGS = np.array(
    [
        R
        for order in permutations(range(3))
        for signs in product((1.0, -1.0), repeat=3)
        if np.linalg.det(R := np.eye(3)[list(order)] * np.array(signs)) > 0.0
    ]
)
"""The 24 rotations (24, 3, 3) that map the coordinate axes onto themselves."""


@dataclass(frozen=True)
class ExponentialEigenvalue(InertiaManifold):
    """Mass, first moment, principal axes and second moments: singular for symmetric bodies.

        m = e^sigma_m,   Sigma_com = R diag(e^sigma_x, e^sigma_y, e^sigma_z) R^T,   R = Exp(omega),
        Sigma = Sigma_com + h h^T / m

    theta = (sigma_m, h, omega, sigma): paper 002 eqs 11 to 15. The first moment h = m c is the
    coordinate, not the centre of mass: doubling m at constant theta halves c, and
    dSigma/dsigma_m = -h h^T / m. Second moments give the principal moments of inertia as
    D_x = L_y + L_z and so on, hence positive L_i are the triangle inequalities.

    Rotating equal second moments changes nothing, so the Jacobian has rank 9 for an axisymmetric
    body and 7 for a sphere; where |omega| is 2 pi it has rank 8, because the exponential itself is
    singular there. Of the 24 ways to name and orient principal axes `from_pi` takes the one
    with the smallest |omega| (at most 63 degrees): axes of the link give omega = 0.
    """

    name: ClassVar[str] = "exponential-eigenvalue"

    def _pseudo_inertia(self, theta: Array) -> Array:
        mass, h, _, Sigma_com = _parts(theta)
        P = np.empty((*theta.shape[:-1], 4, 4))
        P[..., :3, :3] = Sigma_com + _outer(h, h) / mass[..., None, None]
        P[..., :3, 3] = P[..., 3, :3] = h
        P[..., 3, 3] = mass
        return P

    def _coordinates(self, P: Array) -> Array:
        mass, h = P[..., 3, 3], P[..., :3, 3]
        second, axes = np.linalg.eigh(P[..., :3, :3] - _outer(h, h) / mass[..., None, None])
        axes = axes * np.linalg.det(axes)[..., None, None].round()  # eigh may give a reflection
        # trace(R) = 1 + 2 cos|omega|: the largest trace is the smallest turn
        traces = np.einsum("...ij,kji->...k", axes, _RELABELLINGS)
        relabelling = _RELABELLINGS[traces.argmax(axis=-1)]
        order = np.abs(relabelling).argmax(axis=-2)
        theta = np.empty((*P.shape[:-2], 10))
        theta[..., 0] = np.log(mass)
        theta[..., 1:4] = h
        theta[..., 4:7] = log_so3(axes @ relabelling)
        theta[..., 7:] = np.log(np.take_along_axis(second, order, axis=-1))
        return theta

    def _derivatives(self, theta: Array) -> Array:
        mass, h, R, Sigma_com = _parts(theta)
        dP = np.zeros((*theta.shape, 4, 4))
        dP[..., 0, :3, :3] = -_outer(h, h) / mass[..., None, None]
        dP[..., 0, 3, 3] = mass
        left = left_jacobian(theta[..., 4:7])
        for axis in range(3):
            dP[..., 1 + axis, axis, 3] = dP[..., 1 + axis, 3, axis] = 1.0
            dP[..., 1 + axis, axis, :3] += h / mass[..., None]
            dP[..., 1 + axis, :3, axis] += h / mass[..., None]
            turned = skew(left[..., :, axis]) @ Sigma_com
            dP[..., 4 + axis, :3, :3] = turned + np.swapaxes(turned, -1, -2)
            direction = R[..., :, axis]
            second = np.exp(theta[..., 7 + axis])[..., None, None]
            dP[..., 7 + axis, :3, :3] = second * _outer(direction, direction)
        return dP

    def _rank(self, theta: Array) -> int:
        # Mass, h and sigma always move pi; omega does so through the turn it makes about each
        # principal axis, which shows in Sigma by the relative gap of the other two moments.
        turns = _gaps(theta)[:, None] * left_jacobian(-theta[4:7])
        return 7 + int((np.linalg.svd(turns, compute_uv=False) > _SINGULAR).sum())

    def _why_singular(self, theta: Array) -> str:
        equal = np.flatnonzero(_gaps(theta) <= _SINGULAR)
        if len(equal) == 3:
            return (
                "all second moments are equal (a sphere), so omega has no effect: hold omega, or "
                "use the log-cholesky manifold"
            )
        if len(equal) == 1:
            j, k = ("xyz"[axis] for axis in _OTHER_TWO[equal[0]])
            return (
                f"sigma_{j} and sigma_{k} are equal (an axisymmetric body), so turning about the "
                f"principal axis {'xyz'[equal[0]]} has no effect: step in the null space's "
                "complement, or use the log-cholesky manifold"
            )
        return (
            "|omega| is near a multiple of 2 pi, where the exponential is singular, or the second "
            "moments are nearly equal: restart from theta = from_pi(to_pi(theta))"
        )


def _parts(theta: Array) -> tuple[Array, Array, Array, Array]:
    """Mass, first moment, principal axes, second moments about the centre of mass."""
    R = exp_so3(theta[..., 4:7])
    Sigma_com = (R * np.exp(theta[..., None, 7:])) @ np.swapaxes(R, -1, -2)
    return np.exp(theta[..., 0]), theta[..., 1:4], R, Sigma_com


def _gaps(theta: Array) -> Array:
    """|L_j - L_k| / (L_j + L_k) of the two second moments that each axis turns, (3,)."""
    sigma = theta[7:]
    return np.tanh(0.5 * np.abs([sigma[j] - sigma[k] for j, k in _OTHER_TWO]))


def _outer(a: Array, b: Array) -> Array:
    return a[..., :, None] * b[..., None, :]


MANIFOLDS: tuple[InertiaManifold, ...] = (LogCholesky(), ExponentialEigenvalue(), SquareRoot())


def manifold_named(name: str) -> InertiaManifold:
    """Return the manifold with that `name`, with its default settings."""
    for manifold in MANIFOLDS:
        if manifold.name == name:
            return manifold
    raise unknown_name("inertia manifold", name, (manifold.name for manifold in MANIFOLDS))
