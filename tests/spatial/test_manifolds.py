from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import InconsistentInertiaError, ShapeError, UnknownNameError
from bodysense.spatial.arrays import Array
from bodysense.spatial.manifolds import (
    MANIFOLDS,
    ExponentialEigenvalue,
    LogCholesky,
    SquareRoot,
    manifold_named,
)
from bodysense.spatial.pseudo_inertia import (
    inertia_at_com,
    pi_from_mass_com_inertia,
    random_pi,
    transform_pi,
)


def test_manifolds_are_found_by_name() -> None:
    for manifold in MANIFOLDS:
        assert manifold_named(manifold.name) is manifold
    assert len({manifold.name for manifold in MANIFOLDS}) == 3


def test_unknown_name_lists_the_valid_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"log-cholesky.*exponential-eigenvalue"):
        manifold_named("log_choleski")


LOG_CHOLESKY = LogCholesky()


def test_map_and_jacobian_equal_pinocchio(rng: np.random.Generator) -> None:
    for theta in rng.uniform(-1.5, 1.5, (20, 10)):
        oracle = pin.LogCholeskyParameters(theta)
        pi, jacobian = oracle.toDynamicParameters(), oracle.calculateJacobian()
        np.testing.assert_allclose(
            LOG_CHOLESKY.to_pi(theta), pi, rtol=0, atol=1e-14 * np.abs(pi).max()
        )
        np.testing.assert_allclose(
            LOG_CHOLESKY.jacobian(theta), jacobian, rtol=0, atol=1e-14 * np.abs(jacobian).max()
        )


def test_pinocchio_understands_the_inverse(rng: np.random.Generator) -> None:
    for pi in random_pi(rng, 20):
        oracle = pin.LogCholeskyParameters(LOG_CHOLESKY.from_pi(pi)).toDynamicParameters()
        np.testing.assert_allclose(oracle, pi, rtol=0, atol=1e-14 * np.abs(pi).max())


def test_coordinates_are_log_root_mass_and_centre_of_mass(rng: np.random.Generator) -> None:
    pi = random_pi(rng, 50)
    theta = LOG_CHOLESKY.from_pi(pi)
    np.testing.assert_allclose(np.exp(2.0 * theta[:, 0]), pi[:, 0], rtol=1e-14)
    np.testing.assert_allclose(theta[:, 7:], pi[:, 1:4] / pi[:, :1], rtol=0, atol=1e-15)


def test_the_inverse_is_unique(rng: np.random.Generator) -> None:
    theta = rng.uniform(-1.0, 1.0, (200, 10))
    np.testing.assert_allclose(
        LOG_CHOLESKY.from_pi(LOG_CHOLESKY.to_pi(theta)), theta, rtol=0, atol=1e-12
    )


EXPONENTIAL_EIGENVALUE = ExponentialEigenvalue()
THETA = np.array([0.3, 0.2, -0.5, 0.1, 0.4, -0.2, 0.3, -1.0, -0.5, 0.2])


def test_map_is_the_one_of_the_paper_built_with_pinocchio(rng: np.random.Generator) -> None:
    for theta in rng.uniform(-1.5, 1.5, (20, 10)):
        mass, R = np.exp(theta[0]), pin.exp3(theta[4:7])
        L = np.exp(theta[7:])
        D = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]]) @ L
        oracle = pin.Inertia(mass, theta[1:4] / mass, R @ np.diag(D) @ R.T).toDynamicParameters()
        np.testing.assert_allclose(
            EXPONENTIAL_EIGENVALUE.to_pi(theta),
            oracle,
            rtol=0,
            atol=1e-14 * np.abs(oracle).max(),
        )


def test_doubling_the_mass_halves_the_centre_of_mass() -> None:
    heavier = THETA + np.log(2.0) * np.eye(10)[0]
    pi, pi_heavier = (
        EXPONENTIAL_EIGENVALUE.to_pi(THETA),
        EXPONENTIAL_EIGENVALUE.to_pi(heavier),
    )
    np.testing.assert_allclose(pi_heavier[0], 2.0 * pi[0], rtol=1e-15)
    np.testing.assert_array_equal(pi_heavier[1:4], pi[1:4])
    S = pin.skew(pi[1:4])
    by_mass = EXPONENTIAL_EIGENVALUE.jacobian(THETA)[4:, 0]
    expected = (-S @ S.T / pi[0])[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    np.testing.assert_allclose(by_mass, expected, rtol=0, atol=1e-15)


def test_axes_of_the_link_give_no_rotation() -> None:
    pi = pi_from_mass_com_inertia(2.0, [0.3, 0.1, 0.2], np.diag([0.05, 0.02, 0.04]))
    theta = EXPONENTIAL_EIGENVALUE.from_pi(pi)
    np.testing.assert_allclose(theta[4:7], 0.0, atol=1e-14)
    np.testing.assert_allclose(np.exp(theta[7:]), [0.005, 0.035, 0.015], rtol=1e-12)


def test_rotation_is_the_smallest_of_the_24(rng: np.random.Generator) -> None:
    theta = EXPONENTIAL_EIGENVALUE.from_pi(random_pi(rng, 500))
    angles = np.linalg.norm(theta[:, 4:7], axis=1)
    # the farthest any frame can be from the nearest of the 24: 62.7994 degrees
    assert angles.max() < np.deg2rad(62.80)
    small = rng.uniform(-0.4, 0.4, (200, 10))
    np.testing.assert_allclose(
        EXPONENTIAL_EIGENVALUE.from_pi(EXPONENTIAL_EIGENVALUE.to_pi(small)),
        small,
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_reflections_from_eigh_do_not_matter(axis: int, sign: float) -> None:
    # Quarter and half turns permute the axes, so that eigh returns both orientations.
    pi = EXPONENTIAL_EIGENVALUE.to_pi(THETA)
    for angle in (np.pi / 2, np.pi):
        T = pin.SE3(pin.exp3(sign * angle * np.eye(3)[axis]), np.zeros(3)).homogeneous
        turned = transform_pi(pi, T)
        theta = EXPONENTIAL_EIGENVALUE.from_pi(turned)
        np.testing.assert_allclose(EXPONENTIAL_EIGENVALUE.to_pi(theta), turned, rtol=0, atol=1e-14)
        np.testing.assert_allclose(np.sort(theta[7:]), np.sort(THETA[7:]), rtol=0, atol=1e-13)


@pytest.mark.parametrize("moments", [[0.03, 0.03, 0.02], [0.03, 0.03, 0.03]])
def test_symmetric_bodies_still_have_coordinates(
    moments: list[float], rng: np.random.Generator
) -> None:
    straight = pi_from_mass_com_inertia(2.0, [0.3, 0.1, 0.2], np.diag(moments))
    for _ in range(20):
        T = pin.SE3(pin.exp3(rng.uniform(-2, 2, 3)), rng.uniform(-1, 1, 3)).homogeneous
        pi = transform_pi(straight, T)
        back = EXPONENTIAL_EIGENVALUE.to_pi(EXPONENTIAL_EIGENVALUE.from_pi(pi))
        np.testing.assert_allclose(back, pi, rtol=0, atol=1e-14 * np.abs(pi).max())
        principal = np.linalg.eigvalsh(inertia_at_com(back))
        np.testing.assert_allclose(principal, np.sort(moments), rtol=0, atol=1e-14)


def test_reasons_name_the_axis_and_the_remedy() -> None:
    axisymmetric = THETA.copy()
    axisymmetric[9] = axisymmetric[7]
    reason = EXPONENTIAL_EIGENVALUE.singular_reason(axisymmetric)
    assert reason is not None
    assert "sigma_z and sigma_x are equal" in reason
    assert "principal axis y" in reason
    full_turn = THETA.copy()
    full_turn[4:7] *= 2.0 * np.pi / np.linalg.norm(full_turn[4:7])
    reason = EXPONENTIAL_EIGENVALUE.singular_reason(full_turn)
    assert reason is not None
    assert "from_pi(to_pi(theta))" in reason
    assert (
        EXPONENTIAL_EIGENVALUE.rank(
            EXPONENTIAL_EIGENVALUE.from_pi(EXPONENTIAL_EIGENVALUE.to_pi(full_turn))
        )
        == 10
    )


SQUARE_ROOT = SquareRoot()
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


def test_map_and_jacobian_agree_with_equation_173(rng: np.random.Generator) -> None:
    theta = rng.uniform(-2.0, 2.0, (20, 10))
    A = np.array([A_in_print(row)[PI_OF_CHI] for row in theta])
    rebuilt = (A @ theta[..., None])[..., 0] + SQUARE_ROOT.to_pi(np.zeros(10))
    np.testing.assert_allclose(rebuilt, SQUARE_ROOT.to_pi(theta), rtol=0, atol=1e-14)
    # a quadratic map is half its derivative along itself
    along = (SQUARE_ROOT.jacobian(theta) @ theta[..., None])[..., 0]
    np.testing.assert_allclose(along, 2.0 * (A @ theta[..., None])[..., 0], rtol=0, atol=1e-13)


def test_inverse_has_a_positive_diagonal(rng: np.random.Generator) -> None:
    theta = SQUARE_ROOT.from_pi(random_pi(rng, 100))
    assert (theta[:, [0, 2, 5, 9]] > 0.0).all()
    flipped = theta.copy()
    flipped[:, [2, 4, 7]] *= -1.0  # the second column of C
    np.testing.assert_allclose(SQUARE_ROOT.to_pi(flipped), SQUARE_ROOT.to_pi(theta), rtol=1e-15)
    np.testing.assert_allclose(
        SQUARE_ROOT.from_pi(SQUARE_ROOT.to_pi(flipped)), theta, rtol=0, atol=1e-13
    )


def test_zero_is_a_body_because_of_epsilon() -> None:
    pi = SQUARE_ROOT.to_pi(np.zeros(10))
    np.testing.assert_array_equal(pi, 1e-10 * np.array([1, 0, 0, 0, 2, 0, 2, 0, 0, 2]))


def test_a_body_smaller_than_epsilon_asks_for_a_smaller_one() -> None:
    dust = pi_from_mass_com_inertia(1e-6, np.zeros(3), 1e-14 * np.eye(3))
    with pytest.raises(InconsistentInertiaError, match=r"use SquareRoot\(epsilon=5e-17\)"):
        SQUARE_ROOT.from_pi(dust)
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
    reason = SQUARE_ROOT.singular_reason(theta)
    assert reason is not None
    assert "C33" in reason
