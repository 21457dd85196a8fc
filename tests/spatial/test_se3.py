from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import Array
from bodysense.spatial.se3 import (
    exp_so3,
    left_jacobian,
    left_jacobian_inverse,
    log_so3,
    skew,
)

# From nothing to a full turn, and both sides of every place where a formula changes.
ANGLES = [
    *(0.0, 1e-300, 1e-160, 1e-12, 1e-8, 1e-4, 0.01, 0.29999, 0.30001, 1.0, 3.0),
    *(np.pi - 1e-4, np.pi - 1e-8, np.pi - 1e-12),
]
AXIS = np.array([2.0, -3.0, 6.0]) / 7.0
vectors = arrays(np.float64, 3, elements=st.floats(-1.8, 1.8, allow_subnormal=False))


def test_skew_is_the_cross_product(rng: np.random.Generator) -> None:
    v, w = rng.normal(size=(2, 5, 3))
    np.testing.assert_allclose((skew(v) @ w[..., None])[..., 0], np.cross(v, w), atol=1e-15)


def power_series(matrix: Array, offset: int) -> Array:
    """Sum of matrix^k / (k + offset)!, which is Exp for offset 0 and its Jacobian for 1.

    With 40 digits, since terms of the series are 60 times the sum at an angle of 6.
    """
    exact = np.vectorize(Decimal, otypes=[object])
    with localcontext() as context:
        context.prec = 40
        total, power, matrix = exact(np.zeros((3, 3))), exact(np.eye(3)), exact(matrix)
        for k in range(60):
            total = total + power / math.factorial(k + offset)
            power = power @ matrix
        return total.astype(float)


@pytest.mark.parametrize("angle", [*ANGLES, np.pi, 4.0, 6.0])
def test_exponential_and_its_jacobians_equal_their_power_series(angle: float) -> None:
    omega = angle * AXIS
    S = skew(omega)
    for found, expected in (
        (exp_so3(omega), power_series(S, 0)),
        (left_jacobian(omega), power_series(S, 1)),
        (left_jacobian(-omega), power_series(-S, 1)),
    ):
        # relative for the small off-diagonal entries
        np.testing.assert_allclose(found, expected, rtol=5e-15, atol=1e-15 * angle)


# Near 1e-4 rad pin.Jexp3 of Pinocchio 4.1 is off by up to 2e-13: below, its series has the sign of
# the term in angle^2 / 24 wrong; above, its closed form cancels. Hence the power series as oracle.
@pytest.mark.parametrize("angle", [0.01, 0.2, 1.0, 3.0, np.pi, 4.0, 6.0])
def test_exponential_and_its_jacobian_equal_pinocchio(angle: float) -> None:
    omega = angle * AXIS
    np.testing.assert_allclose(exp_so3(omega), pin.exp3(omega), rtol=0, atol=3e-15)
    np.testing.assert_allclose(left_jacobian(-omega), pin.Jexp3(omega), rtol=0, atol=3e-15)


@pytest.mark.parametrize("angle", ANGLES)
def test_log_inverts_exp_to_full_precision(angle: float) -> None:
    omega = angle * AXIS
    np.testing.assert_allclose(log_so3(exp_so3(omega)), omega, rtol=1e-14, atol=2e-15)


@pytest.mark.parametrize("axis", [*np.eye(3), AXIS, -AXIS, [0.6, 0.8, 0.0], [0.0, -0.6, 0.8]])
def test_log_at_a_half_turn_returns_either_sign_of_the_axis(axis: Array) -> None:
    omega = log_so3(2.0 * np.outer(axis, axis) - np.eye(3))
    np.testing.assert_allclose(np.linalg.norm(omega), np.pi, rtol=1e-15)
    np.testing.assert_allclose(exp_so3(omega), exp_so3(np.pi * np.asarray(axis)), atol=3e-15)


@given(omega=vectors)
def test_log_inverts_exp_everywhere_below_a_half_turn(omega: Array) -> None:
    angle = np.linalg.norm(omega)
    if angle < np.pi:
        np.testing.assert_allclose(log_so3(exp_so3(omega)), omega, rtol=0, atol=5e-15)
    R = exp_so3(omega)
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=2e-15)


@pytest.mark.parametrize("angle", [*ANGLES, 4.0, 6.0])
def test_inverse_jacobians_invert(angle: float) -> None:
    omega = angle * AXIS
    product = left_jacobian(omega) @ left_jacobian_inverse(omega)
    np.testing.assert_allclose(product, np.eye(3), atol=2e-14)
    # the right one is the left one at -omega
    product = left_jacobian(-omega) @ left_jacobian_inverse(-omega)
    np.testing.assert_allclose(product, np.eye(3), atol=2e-14)


@pytest.mark.parametrize("angle", [0.0, 1e-5, 0.2, 0.5, 2.0, 3.0])
def test_jacobians_are_the_derivatives_of_exp_and_log(angle: float) -> None:
    omega, step = angle * AXIS, 1e-4
    R = exp_so3(omega)
    for k, d in enumerate(step * np.eye(3)):
        forward, backward = exp_so3(omega + d), exp_so3(omega - d)
        left = (log_so3(forward @ R.T) - log_so3(backward @ R.T)) / (2.0 * step)
        right = (log_so3(R.T @ forward) - log_so3(R.T @ backward)) / (2.0 * step)
        np.testing.assert_allclose(left, left_jacobian(omega)[:, k], atol=1e-8)
        np.testing.assert_allclose(right, left_jacobian(-omega)[:, k], atol=1e-8)
        left = (log_so3(exp_so3(d) @ R) - log_so3(exp_so3(-d) @ R)) / (2.0 * step)
        right = (log_so3(R @ exp_so3(d)) - log_so3(R @ exp_so3(-d))) / (2.0 * step)
        np.testing.assert_allclose(left, left_jacobian_inverse(omega)[:, k], atol=1e-8)
        np.testing.assert_allclose(right, left_jacobian_inverse(-omega)[:, k], atol=1e-8)


def test_jacobian_stalls_at_a_full_turn() -> None:
    singular_values = np.linalg.svd(left_jacobian(2.0 * np.pi * AXIS), compute_uv=False)
    np.testing.assert_allclose(singular_values, [1.0, 0.0, 0.0], atol=1e-15)


def test_stacks_equal_single_calls(rng: np.random.Generator) -> None:
    omega = rng.uniform(-1.0, 1.0, (2, 3, 3))
    for function in (skew, exp_so3, left_jacobian, left_jacobian_inverse):
        stacked = function(omega)
        assert stacked.shape == (2, 3, 3, 3)
        np.testing.assert_array_equal(stacked[1, 2], function(omega[1, 2]))
    np.testing.assert_allclose(log_so3(exp_so3(omega)), omega, atol=1e-15)


def test_what_is_not_a_rotation_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"differs from the identity by 0\.1"):
        log_so3(np.diag([1.0, 1.0, 1.05]))
    with pytest.raises(ShapeError, match=r"reflection.*flip"):
        log_so3(np.diag([1.0, 1.0, -1.0]))
    with pytest.raises(ShapeError, match=r"omega has shape \(4,\)"):
        exp_so3(np.zeros(4))
    with pytest.raises(ShapeError, match="nan"):
        exp_so3([0.0, np.nan, 0.0])
    with pytest.raises(ShapeError, match="vector must be an array of numbers"):
        skew([[1.0, 2.0, 3.0], [1.0]])
