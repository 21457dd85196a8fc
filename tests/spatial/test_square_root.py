from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import InconsistentInertiaError, ShapeError
from bodysense.spatial.arrays import Array
from bodysense.spatial.manifolds import SquareRoot
from bodysense.spatial.pseudo_inertia import pi_from_mass_com_inertia, random_pi

MANIFOLD = SquareRoot()
# chi of the thesis is (M, MX, MY, MZ, XX, XY, XZ, YY, YZ, ZZ); this picks pi out of it
PI_OF_CHI = [0, 1, 2, 3, 4, 5, 7, 6, 8, 9]


def chi_in_print(C: Array, epsilon: float) -> Array:
    """Thesis eq 172, typed entry by entry."""
    C11, C21, C22, C31, C32, C33, C41, C42, C43, C44 = C
    return np.array(
        [
            C41**2 + C42**2 + C43**2 + C44**2 + epsilon,
            C11 * C41,
            C21 * C41 + C22 * C42,
            C31 * C41 + C32 * C42 + C33 * C43,
            C21**2 + C22**2 + C31**2 + C32**2 + C33**2 + 2 * epsilon,
            -C11 * C21,
            -C11 * C31,
            C11**2 + C31**2 + C32**2 + C33**2 + 2 * epsilon,
            -C21 * C31 - C22 * C32,
            C11**2 + C21**2 + C22**2 + 2 * epsilon,
        ]
    )


def A_in_print(C: Array) -> Array:
    """Thesis eq 173, rows in the order of chi."""
    C11, C21, C22, C31, C32, C33, C41, C42, C43, C44 = C
    return np.array(
        [
            [0, 0, 0, 0, 0, 0, C41, C42, C43, C44],
            [0, 0, 0, 0, 0, 0, C11, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, C21, C22, 0, 0],
            [0, 0, 0, 0, 0, 0, C31, C32, C33, 0],
            [0, C21, C22, C31, C32, C33, 0, 0, 0, 0],
            [0, -C11, 0, 0, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, -C11, 0, 0, 0, 0, 0, 0],
            [C11, 0, 0, C31, C32, C33, 0, 0, 0, 0],
            [0, 0, 0, -C21, -C22, 0, 0, 0, 0, 0],
            [C11, C21, C22, 0, 0, 0, 0, 0, 0, 0],
        ]
    )


@pytest.mark.parametrize("epsilon", [0.0, 1e-10, 0.01])
def test_map_is_equation_172(epsilon: float, rng: np.random.Generator) -> None:
    for theta in rng.uniform(-2.0, 2.0, (20, 10)):
        expected = chi_in_print(theta, epsilon)[PI_OF_CHI]
        np.testing.assert_allclose(
            SquareRoot(epsilon).to_pi(theta), expected, rtol=0, atol=1e-14 * np.abs(expected).max()
        )


def test_bilinear_factor_is_equation_173(rng: np.random.Generator) -> None:
    theta = rng.uniform(-2.0, 2.0, (20, 10))
    A = MANIFOLD.bilinear_factor(theta)
    for A_k, theta_k in zip(A, theta, strict=True):
        np.testing.assert_array_equal(A_k, A_in_print(theta_k)[PI_OF_CHI])
    rebuilt = (A @ theta[..., None])[..., 0] + MANIFOLD.to_pi(np.zeros(10))
    np.testing.assert_allclose(rebuilt, MANIFOLD.to_pi(theta), rtol=0, atol=1e-14)
    # a quadratic map is half its derivative along itself
    along = (MANIFOLD.jacobian(theta) @ theta[..., None])[..., 0]
    np.testing.assert_allclose(along, 2.0 * (A @ theta[..., None])[..., 0], rtol=0, atol=1e-13)


def test_inverse_has_a_positive_diagonal(rng: np.random.Generator) -> None:
    theta = MANIFOLD.from_pi(random_pi(rng, 100))
    assert (theta[:, [0, 2, 5, 9]] > 0.0).all()
    flipped = theta.copy()
    flipped[:, [2, 4, 7]] *= -1.0  # the second column of C
    np.testing.assert_allclose(MANIFOLD.to_pi(flipped), MANIFOLD.to_pi(theta), rtol=1e-15)
    np.testing.assert_allclose(MANIFOLD.from_pi(MANIFOLD.to_pi(flipped)), theta, rtol=0, atol=1e-13)


def test_zero_is_a_body_because_of_epsilon() -> None:
    pi = MANIFOLD.to_pi(np.zeros(10))
    np.testing.assert_array_equal(pi, 1e-10 * np.array([1, 0, 0, 0, 2, 0, 2, 0, 0, 2]))


def test_a_body_smaller_than_epsilon_asks_for_a_smaller_one() -> None:
    dust = pi_from_mass_com_inertia(1e-6, np.zeros(3), 1e-14 * np.eye(3))
    with pytest.raises(InconsistentInertiaError, match=r"use SquareRoot\(epsilon=5e-17\)"):
        MANIFOLD.from_pi(dust)
    finer = SquareRoot(epsilon=5e-17)
    np.testing.assert_allclose(finer.to_pi(finer.from_pi(dust)), dust, rtol=1e-14)


def test_bad_epsilon_is_refused() -> None:
    with pytest.raises(InconsistentInertiaError, match="negative"):
        SquareRoot(epsilon=-1e-3)
    with pytest.raises(ShapeError, match="nan"):
        SquareRoot(epsilon=np.nan)


def test_reason_names_the_entry() -> None:
    theta = np.ones(10)
    theta[5] = 0.0
    reason = MANIFOLD.singular_reason(theta)
    assert reason is not None
    assert "C33" in reason
