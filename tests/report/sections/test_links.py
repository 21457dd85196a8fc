from __future__ import annotations

import numpy as np
import pytest

from bodysense.report.sections.links import ellipsoid
from bodysense.spatial import exp_so3
from bodysense.spatial.pseudo_inertia import pi_from_mass_com_inertia


def test_an_ellipsoid_comes_back_as_itself(rng: np.random.Generator) -> None:
    a, b, c = semi_axes = np.array([0.1, 0.2, 0.35])
    mass, com, R = 3.0, np.array([0.1, -0.2, 0.3]), exp_so3(rng.normal(size=3))
    # Moments of a solid ellipsoid, from a table of integrals.
    moments = mass / 5.0 * np.array([b**2 + c**2, a**2 + c**2, a**2 + b**2])
    pi = pi_from_mass_com_inertia(mass, com, R @ np.diag(moments) @ R.T)
    found = ellipsoid(pi)
    assert found is not None
    centre, axes = found
    np.testing.assert_allclose(centre, com, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(axes, axis=0), semi_axes, atol=1e-9)
    directions = np.abs(R.T @ axes / semi_axes)
    np.testing.assert_allclose(directions, np.eye(3), atol=1e-6)


def test_what_cannot_exist_is_drawn_flat() -> None:
    pi = pi_from_mass_com_inertia(1.0, np.zeros(3), np.diag([1.0, 1.0, 5.0]))
    found = ellipsoid(pi)
    assert found is not None
    assert np.linalg.norm(found[1], axis=0)[0] == 0.0


@pytest.mark.parametrize("mass", [0.0, -1.0, np.nan])
def test_without_mass_there_is_nothing_to_draw(mass: float) -> None:
    assert ellipsoid(np.array([mass, *np.ones(9)])) is None
