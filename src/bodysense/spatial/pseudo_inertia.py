"""Inertial parameters of a body, its pseudo-inertia and its physical consistency.

pi = (m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz), kg, kg m, kg m^2: Pinocchio's order, the
inertia about the origin of the link. Its pseudo-inertia is the 4x4 matrix of the moments of the
mass distribution up to the second, in homogeneous coordinates x = (p, 1):

    P = integral of x x^T dm = [[Sigma, h], [h^T, m]],   h = m c,   Sigma = tr(I)/2 1 - I

(thesis eqs 165, 170; paper 002 eq 8). It is linear in pi, a change of frame is the congruence
T P T^T, and pi is physically consistent (a body of finite density has it) if and only if P is
positive definite: positive mass, positive moments and the triangle inequalities in one condition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import InconsistentInertiaError, ShapeError
from bodysense.spatial.arrays import Array, as_array, as_stack, read_only, require_same_stack
from bodysense.spatial.se3 import exp_so3, require_rotation, skew

PI_NAMES = ("m", "mcx", "mcy", "mcz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")

_MIXED = ((5, 0, 1), (7, 0, 2), (8, 1, 2))  # place in pi of Ixy, Ixz, Iyz and its row, column
_DIAGONAL = (4, 6, 9)  # place in pi of Ixx, Iyy, Izz


def _constant_maps() -> tuple[Array, Array]:
    basis, dual = np.zeros((10, 4, 4)), np.zeros((10, 4, 4))
    basis[0, 3, 3] = dual[0, 3, 3] = 1.0
    for axis in range(3):
        basis[1 + axis, axis, 3] = basis[1 + axis, 3, axis] = 1.0
        dual[1 + axis, axis, 3] = dual[1 + axis, 3, axis] = 0.5
        for other in range(3):
            basis[_DIAGONAL[axis], other, other] = -0.5 if other == axis else 0.5
            dual[_DIAGONAL[axis], other, other] = 0.0 if other == axis else 1.0
    for place, row, column in _MIXED:
        basis[place, row, column] = basis[place, column, row] = -1.0
        dual[place, row, column] = dual[place, column, row] = -0.5
    return read_only(basis), read_only(dual)


# P = sum_k pi_k PSEUDO_INERTIA_BASIS[k]  and  pi_k = <PI_DUAL_BASIS[k], P>, both (10, 4, 4).
PSEUDO_INERTIA_BASIS, PI_DUAL_BASIS = _constant_maps()

_ROUNDING = 32.0 * np.finfo(np.float64).eps  # of Sigma - h h^T / m, relative to its largest term


def pseudo_inertia_from_pi(pi: ArrayLike) -> Array:
    """P (..., 4, 4) of pi (..., 10): thesis eq 170 in Pinocchio's order."""
    pi = as_stack(pi, (10,), "pi")
    return (pi @ PSEUDO_INERTIA_BASIS.reshape(10, 16)).reshape(*pi.shape[:-1], 4, 4)


def pi_from_pseudo_inertia(P: ArrayLike) -> Array:
    """Return pi (..., 10) of P (..., 4, 4); of a P that is not symmetric, its symmetric part."""
    P = as_stack(P, (4, 4), "P")
    return P.reshape(*P.shape[:-2], 16) @ PI_DUAL_BASIS.reshape(10, 16).T


def inertia_at_com(pi: ArrayLike) -> Array:
    """Inertia about the centre of mass, link axes, I - S(h) S(h)^T / m (paper 002 eq 5).

    (..., 10) -> (..., 3, 3), kg m^2.

    Raises:
        InconsistentInertiaError: the mass is zero, so that there is no centre of mass.
    """
    pi = as_stack(pi, (10,), "pi")
    if (pi[..., 0] == 0.0).any():
        raise InconsistentInertiaError(
            "the mass is zero, so the body has no centre of mass: give it a mass, or use the "
            "inertia about the link origin."
        )
    Sigma_com, _ = _second_moments_at_com(pi)
    trace = np.trace(Sigma_com, axis1=-2, axis2=-1)
    inertia: Array = trace[..., None, None] * np.eye(3) - Sigma_com
    return inertia


def spatial_inertia(pi: Array) -> Array:
    """(6, 6) spatial inertia about the link's origin, linear first, of pi (10,); it may be zero."""
    I = np.zeros((6, 6))
    I[:3, :3] = pi[0] * np.eye(3)
    I[3:, :3] = skew(pi[1:4])
    I[:3, 3:] = -I[3:, :3]
    xx, xy, yy, xz, yz, zz = pi[4:]
    I[3:, 3:] = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
    return I


def pi_from_mass_com_inertia(mass: ArrayLike, com: ArrayLike, inertia_com: ArrayLike) -> Array:
    """Return pi (..., 10) of mass (...), centre of mass (..., 3) and inertia about it (..., 3, 3).

    What CAD and URDF give: kg, m, kg m^2, all in the axes of the link frame.
    """
    mass = as_stack(mass, (), "mass")
    com = as_stack(com, (3,), "com")
    inertia = as_stack(inertia_com, (3, 3), "inertia_com")
    require_same_stack(mass=mass.shape, com=com.shape[:-1], inertia_com=inertia.shape[:-2])
    asymmetry = np.abs(inertia - np.swapaxes(inertia, -1, -2)).max(initial=0.0)
    if asymmetry > 1e-9 * np.abs(inertia).max(initial=0.0):
        raise ShapeError(
            f"inertia_com is not symmetric (by {asymmetry:.3g} kg m^2): give the full symmetric "
            "matrix, for example (A + A.T) / 2."
        )
    h = mass[..., None] * com
    trace = np.trace(inertia, axis1=-2, axis2=-1)
    Sigma = 0.5 * trace[..., None, None] * np.eye(3) - inertia + h[..., :, None] * com[..., None, :]
    P = np.empty((*Sigma.shape[:-2], 4, 4))
    P[..., :3, :3], P[..., 3, 3] = Sigma, mass
    P[..., :3, 3] = P[..., 3, :3] = h
    return pi_from_pseudo_inertia(P)


def transform_pi(pi: ArrayLike, T_new_old: ArrayLike) -> Array:
    """Express the pi (..., 10) of a body in another frame: P_new = T_new_old P_old T_new_old^T.

    T_new_old (..., 4, 4) is the rigid motion that maps old to new coordinates, as
    `pin.SE3.homogeneous`.
    """
    P = pseudo_inertia_from_pi(pi)
    T = as_stack(T_new_old, (4, 4), "T_new_old")
    require_same_stack(pi=P.shape[:-2], T_new_old=T.shape[:-2])
    require_rotation(T[..., :3, :3], "the rotation in T_new_old")
    if (T[..., 3, :] != np.array([0.0, 0.0, 0.0, 1.0])).any():
        raise ShapeError("the last row of T_new_old must be (0, 0, 0, 1): pass a rigid motion.")
    return pi_from_pseudo_inertia(T @ P @ np.swapaxes(T, -1, -2))


def random_pi(rng: np.random.Generator, n: int) -> Array:
    """`n` physically consistent random bodies of robot size, (n, 10).

    Mass 0.1 to 10 kg and radii of gyration 2 to 30 cm, both log-uniform, principal axes in any
    direction, centre of mass up to 20 cm away along each axis.
    """
    mass = 0.1 * 100.0 ** rng.random(n)
    radii = 0.02 * 15.0 ** rng.random((n, 3))
    R = exp_so3(rng.uniform(-2.0, 2.0, (n, 3)))
    com = rng.uniform(-0.2, 0.2, (n, 3))
    Sigma = (R * (mass[:, None] * radii**2)[:, None, :]) @ np.swapaxes(R, -1, -2)
    trace = np.trace(Sigma, axis1=-2, axis2=-1)
    return pi_from_mass_com_inertia(mass, com, trace[:, None, None] * np.eye(3) - Sigma)


@dataclass(frozen=True, eq=False)
class PhysicalConsistency:
    """Physical consistency of one body: its margin, and what is wrong with it.

    Attributes:
        mass: kg.
        com: centre of mass, m, (3,); NaN when the mass is zero.
        smallest_moment: smallest principal moment about the centre of mass, kg m^2.
        margin: smallest eigenvalue of the pseudo-inertia about the centre of mass, after dividing
            masses by |m| and lengths by the r.m.s. radius of gyration per axis. Free of units and
            of the choice of frame: 1 for a ball or a cube of any size and mass, 0 (exactly, when
            rounding cannot tell) for a plate, a rod, a point or nothing, negative if infeasible.
        consistent: margin > 0, that is the pseudo-inertia is positive definite.
        reason: the first condition that fails, and by how much; empty when consistent.
    """

    mass: float
    com: Array
    smallest_moment: float
    margin: float
    consistent: bool
    reason: str

    @property
    def feasible(self) -> bool:
        """Whether it is consistent or on the border: plates, rods and points included.

        Robot files simplify: a point mass is no reason to refuse one. It has no logarithm,
        though, so that manifolds and barriers ask for `consistent`.
        """
        return self.mass > 0.0 and self.margin >= 0.0


def physical_consistency(pi: ArrayLike) -> PhysicalConsistency:
    """Judge the pi (10,) of one body; any finite numbers get a verdict, never an exception."""
    pi = as_array(pi, (10,), "pi")
    with np.errstate(all="ignore"):
        margin, second = _margin(pi)
        com = pi[1:4] / pi[0] if pi[0] != 0.0 else np.full(3, np.nan)
        moments = second.sum() - second[::-1]  # ascending, as the second moments are
        reason = "" if margin > 0.0 else _reason(pi, float(margin), moments)
    return PhysicalConsistency(
        mass=float(pi[0]),
        com=read_only(com),
        smallest_moment=float(moments[0]),
        margin=float(margin),
        consistent=bool(margin > 0.0),
        reason=reason,
    )


def require_consistent(pi: ArrayLike, name: str = "pi") -> Array:
    """Return pi (..., 10) if every body in it is strictly consistent.

    Raises `InconsistentInertiaError` that names the first body that is not, why, and what to check.
    """
    pi = as_stack(pi, (10,), name)
    with np.errstate(all="ignore"):
        good = _margin(pi)[0] > 0.0
    if not good.all():
        index = tuple(int(k) for k in np.argwhere(~good)[0])
        where = f"{name}[{', '.join(map(str, index))}]" if index else name
        raise InconsistentInertiaError(
            f"{where} is not physically consistent: {physical_consistency(pi[index]).reason}. "
            f"Check units, the order ({', '.join(PI_NAMES)}), and that the inertia is taken "
            "about the link origin, not about the centre of mass."
        )
    return pi


def _second_moments_at_com(pi: Array) -> tuple[Array, Array]:
    """Sigma - h h^T / m (Sigma itself where m = 0), and the rounding error of its entries."""
    P = (pi @ PSEUDO_INERTIA_BASIS.reshape(10, 16)).reshape(*pi.shape[:-1], 4, 4)
    h, mass = P[..., :3, 3], P[..., 3:, 3]
    com = np.divide(h, mass, out=np.zeros_like(h), where=mass != 0.0)
    shift = h[..., :, None] * com[..., None, :]
    Sigma = P[..., :3, :3]
    largest = np.abs(Sigma).max(axis=(-2, -1)) + np.abs(shift).max(axis=(-2, -1))
    return Sigma - 0.5 * (shift + np.swapaxes(shift, -1, -2)), _ROUNDING * largest


def _margin(pi: Array) -> tuple[Array, Array]:
    """Margin (...) and eigenvalues of the second moments about the CoM (..., 3), ascending."""
    Sigma, rounding = _second_moments_at_com(pi)
    finite = np.asarray(np.isfinite(Sigma).all(axis=(-2, -1)))
    second = np.linalg.eigvalsh(np.where(finite[..., None, None], Sigma, 0.0))
    second = np.where(finite[..., None], second, np.nan)
    size = np.abs(second).mean(axis=-1)
    resolved = np.abs(second[..., 0]) > rounding
    margin = np.divide(second[..., 0], size, out=np.zeros_like(size), where=resolved)
    mass, h = pi[..., 0], pi[..., 1:4]
    of_mass = np.where((mass == 0.0) & (h != 0.0).any(axis=-1), -1.0, np.sign(mass))
    margin = np.where(finite, np.minimum(margin, of_mass), -np.inf)
    return margin, second


def _reason(pi: Array, margin: float, moments: Array) -> str:
    mass, h = pi[0], pi[1:4]
    if not pi.any():
        return "the body is massless: mass, first moments and inertia are all zero"
    if mass < 0.0:
        return f"the mass is {mass:.6g} kg, it must be positive"
    if mass == 0.0 and h.any():
        return f"the mass is zero but the first moment m c is {math.hypot(*h):.6g} kg m"
    if mass == 0.0:
        return "the mass is zero but the inertia is not"
    if not np.isfinite(margin):
        return "its numbers are too large or too small for double precision"
    low, middle, high = moments
    values = f"the principal moments about the centre of mass are {low:.6g}, {middle:.6g}, "
    values += f"{high:.6g} kg m^2"
    if margin == 0.0:
        return f"the body has no volume (a plate, a rod or a point): {values}"
    if low < 0.0:
        return f"{values}: the smallest is negative"
    excess = high - low - middle
    return f"{values}: the triangle inequality fails by {excess:.6g} kg m^2"
