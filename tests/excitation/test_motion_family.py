from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.errors import TrajectoryError
from bodysense.excitation.motion_family import MotionFamily

FAMILIES = [
    MotionFamily("fourier", 4.0, False, 5),
    MotionFamily("fourier", 4.0, True, 5),
    MotionFamily("spline", 4.0, False, 9),
    MotionFamily("spline", 4.0, True, 9),
]
IDS = ["fourier", "fourier-anchored", "spline", "spline-anchored"]


@pytest.mark.parametrize("family", FAMILIES, ids=IDS)
@given(seed=st.integers(0, 100))
def test_trajectories_are_linear_in_their_coefficients(family: MotionFamily, seed: int):
    rng = np.random.default_rng(seed)
    x, anchor = rng.normal(size=(3, family.size)), rng.normal(size=3)
    t = np.linspace(0.0, 4.0, 41)
    motion = family.trajectory(x, anchor)(t)
    for k, (part, phi) in enumerate(zip(motion, family.basis(t), strict=True)):
        expected = phi @ x.T + (anchor if k == 0 else 0.0)
        np.testing.assert_allclose(part, expected, atol=1e-11 * max(1.0, np.abs(part).max()))


@pytest.mark.parametrize("family", FAMILIES, ids=IDS)
def test_they_start_and_end_at_rest_in_the_same_pose(family: MotionFamily, rng):
    anchor = np.array([0.3, -0.2])
    motion = family.trajectory(rng.normal(size=(2, family.size)), anchor)
    q, v, a = motion(np.array([0.0, family.duration]))
    np.testing.assert_allclose(q[0], q[1], atol=1e-12)
    np.testing.assert_allclose(v, 0.0, atol=1e-11)
    np.testing.assert_allclose(a, 0.0, atol=1e-10)
    if family.anchored:
        np.testing.assert_allclose(q[0], anchor, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES, ids=IDS)
def test_no_coefficient_is_idle(family: MotionFamily):
    phi, _, _ = family.basis(np.linspace(0.0, 4.0, 200))
    assert np.linalg.matrix_rank(phi) == family.size


def test_the_highest_frequency_of_a_series():
    assert MotionFamily("fourier", 10.0, False, 20).highest_frequency == pytest.approx(2.0)


def test_too_few_harmonics():
    with pytest.raises(TrajectoryError, match="at least 3"):
        MotionFamily("fourier", 1.0, False, 2)


def test_too_few_knots():
    with pytest.raises(TrajectoryError, match="at least 4"):
        MotionFamily("spline", 1.0, False, 3)
