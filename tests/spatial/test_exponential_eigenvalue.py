from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.spatial.manifolds import ExponentialEigenvalue
from bodysense.spatial.pseudo_inertia import (
    inertia_at_com,
    pi_from_mass_com_inertia,
    random_pi,
    transform_pi,
)

MANIFOLD = ExponentialEigenvalue()
THETA = np.array([0.3, 0.2, -0.5, 0.1, 0.4, -0.2, 0.3, -1.0, -0.5, 0.2])


def test_map_is_the_one_of_the_paper_built_with_pinocchio(rng: np.random.Generator) -> None:
    for theta in rng.uniform(-1.5, 1.5, (20, 10)):
        mass, R = np.exp(theta[0]), pin.exp3(theta[4:7])
        L = np.exp(theta[7:])
        D = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]]) @ L
        oracle = pin.Inertia(mass, theta[1:4] / mass, R @ np.diag(D) @ R.T).toDynamicParameters()
        np.testing.assert_allclose(
            MANIFOLD.to_pi(theta), oracle, rtol=0, atol=1e-14 * np.abs(oracle).max()
        )


def test_doubling_the_mass_halves_the_centre_of_mass() -> None:
    heavier = THETA + np.log(2.0) * np.eye(10)[0]
    pi, pi_heavier = MANIFOLD.to_pi(THETA), MANIFOLD.to_pi(heavier)
    np.testing.assert_allclose(pi_heavier[0], 2.0 * pi[0], rtol=1e-15)
    np.testing.assert_array_equal(pi_heavier[1:4], pi[1:4])
    S = pin.skew(pi[1:4])
    by_mass = MANIFOLD.jacobian(THETA)[4:, 0]
    expected = (-S @ S.T / pi[0])[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    np.testing.assert_allclose(by_mass, expected, rtol=0, atol=1e-15)


def test_axes_of_the_link_give_no_rotation() -> None:
    pi = pi_from_mass_com_inertia(2.0, [0.3, 0.1, 0.2], np.diag([0.05, 0.02, 0.04]))
    theta = MANIFOLD.from_pi(pi)
    np.testing.assert_allclose(theta[4:7], 0.0, atol=1e-14)
    np.testing.assert_allclose(np.exp(theta[7:]), [0.005, 0.035, 0.015], rtol=1e-12)


def test_rotation_is_the_smallest_of_the_24(rng: np.random.Generator) -> None:
    theta = MANIFOLD.from_pi(random_pi(rng, 500))
    angles = np.linalg.norm(theta[:, 4:7], axis=1)
    # the farthest any frame can be from the nearest of the 24: 62.7994 degrees
    assert angles.max() < np.deg2rad(62.80)
    small = rng.uniform(-0.4, 0.4, (200, 10))
    np.testing.assert_allclose(MANIFOLD.from_pi(MANIFOLD.to_pi(small)), small, rtol=0, atol=1e-12)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_reflections_from_eigh_do_not_matter(axis: int, sign: float) -> None:
    # Quarter and half turns permute the axes, so that eigh returns both orientations.
    pi = MANIFOLD.to_pi(THETA)
    for angle in (np.pi / 2, np.pi):
        T = pin.SE3(pin.exp3(sign * angle * np.eye(3)[axis]), np.zeros(3)).homogeneous
        turned = transform_pi(pi, T)
        theta = MANIFOLD.from_pi(turned)
        np.testing.assert_allclose(MANIFOLD.to_pi(theta), turned, rtol=0, atol=1e-14)
        np.testing.assert_allclose(np.sort(theta[7:]), np.sort(THETA[7:]), rtol=0, atol=1e-13)


@pytest.mark.parametrize("moments", [[0.03, 0.03, 0.02], [0.03, 0.03, 0.03]])
def test_symmetric_bodies_still_have_coordinates(
    moments: list[float], rng: np.random.Generator
) -> None:
    straight = pi_from_mass_com_inertia(2.0, [0.3, 0.1, 0.2], np.diag(moments))
    for _ in range(20):
        T = pin.SE3(pin.exp3(rng.uniform(-2, 2, 3)), rng.uniform(-1, 1, 3)).homogeneous
        pi = transform_pi(straight, T)
        back = MANIFOLD.to_pi(MANIFOLD.from_pi(pi))
        np.testing.assert_allclose(back, pi, rtol=0, atol=1e-14 * np.abs(pi).max())
        principal = np.linalg.eigvalsh(inertia_at_com(back))
        np.testing.assert_allclose(principal, np.sort(moments), rtol=0, atol=1e-14)


def test_reasons_name_the_axis_and_the_remedy() -> None:
    axisymmetric = THETA.copy()
    axisymmetric[9] = axisymmetric[7]
    reason = MANIFOLD.singular_reason(axisymmetric)
    assert reason is not None
    assert "sigma_z and sigma_x are equal" in reason
    assert "principal axis y" in reason
    full_turn = THETA.copy()
    full_turn[4:7] *= 2.0 * np.pi / np.linalg.norm(full_turn[4:7])
    reason = MANIFOLD.singular_reason(full_turn)
    assert reason is not None
    assert "from_pi(to_pi(theta))" in reason
    assert MANIFOLD.rank(MANIFOLD.from_pi(MANIFOLD.to_pi(full_turn))) == 10
