from __future__ import annotations

import numpy as np
import pinocchio as pin

from bodysense.spatial.manifolds import LogCholesky
from bodysense.spatial.pseudo_inertia import random_pi

MANIFOLD = LogCholesky()


def test_map_and_jacobian_equal_pinocchio(rng: np.random.Generator) -> None:
    for theta in rng.uniform(-1.5, 1.5, (20, 10)):
        oracle = pin.LogCholeskyParameters(theta)
        pi, jacobian = oracle.toDynamicParameters(), oracle.calculateJacobian()
        np.testing.assert_allclose(MANIFOLD.to_pi(theta), pi, rtol=0, atol=1e-14 * np.abs(pi).max())
        np.testing.assert_allclose(
            MANIFOLD.jacobian(theta), jacobian, rtol=0, atol=1e-14 * np.abs(jacobian).max()
        )


def test_pinocchio_understands_the_inverse(rng: np.random.Generator) -> None:
    for pi in random_pi(rng, 20):
        oracle = pin.LogCholeskyParameters(MANIFOLD.from_pi(pi)).toDynamicParameters()
        np.testing.assert_allclose(oracle, pi, rtol=0, atol=1e-14 * np.abs(pi).max())


def test_coordinates_are_log_root_mass_and_centre_of_mass(rng: np.random.Generator) -> None:
    pi = random_pi(rng, 50)
    theta = MANIFOLD.from_pi(pi)
    np.testing.assert_allclose(np.exp(2.0 * theta[:, 0]), pi[:, 0], rtol=1e-14)
    np.testing.assert_allclose(theta[:, 7:], pi[:, 1:4] / pi[:, :1], rtol=0, atol=1e-15)


def test_the_inverse_is_unique(rng: np.random.Generator) -> None:
    theta = rng.uniform(-1.0, 1.0, (200, 10))
    np.testing.assert_allclose(MANIFOLD.from_pi(MANIFOLD.to_pi(theta)), theta, rtol=0, atol=1e-12)
