"""Rotations and their exponential coordinates, exact near 0 and near pi.

Pinocchio has them for one rotation at a time. Here all functions take any leading axes, and
the logarithm goes through the quaternion, so that it keeps
full precision up to an angle of pi.

With omega (rad), R = Exp(omega), and small d:
    Exp(omega + d) = Exp(left_jacobian(omega) d) R = R Exp(left_jacobian(-omega) d).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import Array, as_stack

_SERIES_ANGLE = 0.3  # rad; below, the closed form of a coefficient cancels and its series is exact
_ORTHONORMAL_TOLERANCE = 1e-6  # largest entry of R R^T - 1


def skew(vector: ArrayLike) -> Array:
    """S(v), (..., 3) -> (..., 3, 3), with S(v) w = v x w."""
    v = as_stack(vector, (3,), "vector")
    matrix = np.zeros((*v.shape, 3))
    matrix[..., 2, 1], matrix[..., 1, 2] = v[..., 0], -v[..., 0]
    matrix[..., 0, 2], matrix[..., 2, 0] = v[..., 1], -v[..., 1]
    matrix[..., 1, 0], matrix[..., 0, 1] = v[..., 2], -v[..., 2]
    return matrix


def exp_so3(omega: ArrayLike) -> Array:
    """Rotation matrix of exponential coordinates omega (rad), (..., 3) -> (..., 3, 3)."""
    omega = as_stack(omega, (3,), "omega")
    angle = np.linalg.norm(omega, axis=-1)
    return _polynomial(omega, _sinc(angle), 0.5 * _sinc(0.5 * angle) ** 2)


def log_so3(R: ArrayLike) -> Array:
    """Exponential coordinates (rad) of rotation matrices, (..., 3, 3) -> (..., 3), norm <= pi.

    At an angle of exactly pi both signs of the axis are right; one of them comes back.

    Raises:
        ShapeError: R is not a rotation (not orthonormal, or a reflection).
    """
    quaternion = _quaternion(require_rotation(R, "R"))
    return _logarithm(quaternion[..., 0], quaternion[..., 1:])


def log_quaternion(quaternion: ArrayLike) -> Array:
    """Exponential coordinates (rad) of quaternions x, y, z, w, (..., 4) -> (..., 3), norm <= pi.

    q and -q are the same rotation and give the same coordinates; the length does not matter. Of
    what is no rotation, because it is not finite or has no length, they are NaN.
    """
    q = np.asarray(quaternion, dtype=np.float64)
    if q.ndim == 0 or q.shape[-1] != 4:
        raise ShapeError(f"quaternions have shape {q.shape}: the last axis holds x, y, z, w.")
    length = np.linalg.norm(q, axis=-1, keepdims=True)
    good = np.isfinite(length) & (length > 0.0)
    unit = np.divide(q, length, out=np.full_like(q, np.nan), where=good)
    unit = np.where(unit[..., 3:] < 0.0, -unit, unit)
    return _logarithm(unit[..., 3], unit[..., :3])


def left_jacobian(omega: ArrayLike) -> Array:
    """Derivative of Exp on the left, (..., 3) -> (..., 3, 3).

    Singular at |omega| = 2 pi k, k > 0.
    """
    omega = as_stack(omega, (3,), "omega")
    angle = np.linalg.norm(omega, axis=-1)
    return _polynomial(omega, 0.5 * _sinc(0.5 * angle) ** 2, _third_coefficient(angle))


def left_jacobian_inverse(omega: ArrayLike) -> Array:
    """J in Log(Exp(d) R) = omega + J d, for |omega| < 2 pi, (..., 3) -> (..., 3, 3)."""
    omega = as_stack(omega, (3,), "omega")
    angle = np.linalg.norm(omega, axis=-1)
    return _polynomial(omega, np.full_like(angle, -0.5), _inverse_coefficient(angle))


def require_rotation(R: ArrayLike, name: str) -> Array:
    """Return R (..., 3, 3) if every matrix in it is a rotation, orthonormal to 1e-6."""
    R = as_stack(R, (3, 3), name)
    error = float(np.abs(R @ np.swapaxes(R, -1, -2) - np.eye(3)).max(initial=0.0))
    if error > _ORTHONORMAL_TOLERANCE:
        raise ShapeError(
            f"{name} is not a rotation matrix: R R^T differs from the identity by {error:.3g}. "
            "Orthonormalise it, for example with a singular value decomposition."
        )
    if (np.linalg.det(R) < 0.0).any():
        raise ShapeError(
            f"{name} is a reflection (determinant -1), not a rotation: flip the sign of one column."
        )
    return R


def _logarithm(w: Array, xyz: Array) -> Array:
    """Of unit quaternions with w >= 0."""
    sine = np.linalg.norm(xyz, axis=-1)
    half_angle = np.arctan2(sine, w)
    # half_angle / sine -> 1 / w = 1 at the identity
    ratio = np.divide(half_angle, sine, out=np.ones_like(sine), where=sine > 0.0)
    logarithm: Array = 2.0 * ratio[..., None] * xyz
    return logarithm


def _polynomial(omega: Array, first: Array, second: Array) -> Array:
    """1 + first S + second S^2 with S = S(omega)."""
    S = skew(omega)
    matrix: Array = np.eye(3) + first[..., None, None] * S + second[..., None, None] * (S @ S)
    return matrix


def _sinc(angle: Array) -> Array:
    return np.asarray(np.sinc(angle / np.pi))


def _third_coefficient(angle: Array) -> Array:
    """(x - sin x) / x^3."""
    x2 = angle**2
    series = 1 / 6 - x2 / 120 * (1 - x2 / 42 * (1 - x2 / 72 * (1 - x2 / 110 * (1 - x2 / 156))))
    large = np.where(angle > _SERIES_ANGLE, angle, 1.0)
    return np.where(angle > _SERIES_ANGLE, (large - np.sin(large)) / large**3, series)


def _inverse_coefficient(angle: Array) -> Array:
    """(1 - (x/2) cot(x/2)) / x^2."""
    x2 = angle**2
    series = 1 / 12 + x2 / 720 * (1 + x2 / 42 * (1 + x2 / 40 * (1 + 10 * x2 / 396)))
    large = np.where(angle > _SERIES_ANGLE, angle, 1.0)
    closed = (1.0 - 0.5 * large / np.tan(0.5 * large)) / large**2
    return np.where(angle > _SERIES_ANGLE, closed, series)


def _quaternion(R: Array) -> Array:
    """Unit quaternion (w, x, y, z) with w >= 0, (..., 3, 3) -> (..., 4).

    All products 4 q_i q_j are linear in R; the row of the largest q_i divides by nothing small.
    """
    products = np.empty((*R.shape[:-2], 4, 4))
    diagonal = np.diagonal(R, axis1=-2, axis2=-1)
    trace = diagonal.sum(axis=-1)
    products[..., 0, 0] = 1.0 + trace
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        products[..., i + 1, i + 1] = 1.0 + 2.0 * diagonal[..., i] - trace
        products[..., 0, i + 1] = products[..., i + 1, 0] = R[..., k, j] - R[..., j, k]
        off_diagonal = R[..., j, k] + R[..., k, j]
        products[..., j + 1, k + 1] = products[..., k + 1, j + 1] = off_diagonal
    largest = np.diagonal(products, axis1=-2, axis2=-1).argmax(axis=-1)
    row = np.take_along_axis(products, largest[..., None, None], axis=-2)[..., 0, :]
    row = np.where(row[..., :1] < 0.0, -row, row)
    quaternion: Array = row / np.linalg.norm(row, axis=-1, keepdims=True)
    return quaternion
