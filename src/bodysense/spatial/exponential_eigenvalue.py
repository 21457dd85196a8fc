"""Exponential eigenvalue manifold: mass, first moment, principal axes and second moments.

    m = e^sigma_m,   Sigma_com = R diag(e^sigma_x, e^sigma_y, e^sigma_z) R^T,   R = Exp(omega),
    Sigma = Sigma_com + h h^T / m

theta = (sigma_m, h, omega, sigma): paper 002 eqs 11 to 15. The first moment h = m c is the
coordinate, not the centre of mass: doubling m at constant theta halves c, and
dSigma/dsigma_m = -h h^T / m. Second moments give the principal moments of inertia as
D_x = L_y + L_z and so on, hence positive L_i are the triangle inequalities.

Turning equal second moments changes nothing, so the Jacobian has rank 9 for an axisymmetric body
and 7 for a sphere; where |omega| is 2 pi it has rank 8, because the exponential itself stalls.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product
from typing import ClassVar

import numpy as np

from bodysense.spatial.arrays import Array, read_only
from bodysense.spatial.manifold import InertiaManifold
from bodysense.spatial.se3 import exp_so3, left_jacobian, log_so3, right_jacobian, skew

_SINGULAR = 1e-9  # relative size of a direction that no longer moves pi
_OTHER_TWO = ((1, 2), (2, 0), (0, 1))  # turning about axis i mixes these two


def _signed_permutations() -> Array:
    """The 24 rotations (24, 3, 3) that map the coordinate axes onto themselves."""
    candidates = [
        np.eye(3)[list(order)] * np.array(signs)
        for order in permutations(range(3))
        for signs in product((1.0, -1.0), repeat=3)
    ]
    return read_only(np.array([c for c in candidates if np.linalg.det(c) > 0.0]))


_RELABELLINGS = _signed_permutations()


@dataclass(frozen=True)
class ExponentialEigenvalue(InertiaManifold):
    """Paper 002 eqs 11 to 15: coordinates with a physical meaning, singular for symmetric bodies.

    Of the 24 ways to name and orient principal axes `from_pi` takes the one with the smallest
    |omega| (at most 63 degrees), so a body whose axes are those of the link gets omega = 0.
    """

    name: ClassVar[str] = "exponential-eigenvalue"
    coordinate_names: ClassVar[tuple[str, ...]] = (
        *("sigma_m", "hx", "hy", "hz"),
        *("omega_x", "omega_y", "omega_z", "sigma_x", "sigma_y", "sigma_z"),
    )

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
        turns = _gaps(theta)[:, None] * right_jacobian(theta[4:7])
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
            "|omega| is near a multiple of 2 pi, where the exponential stalls, or the second "
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
