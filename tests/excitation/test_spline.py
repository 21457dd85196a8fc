from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import BSpline

from bodysense.errors import ShapeError, TrajectoryError
from bodysense.excitation import SplineTrajectory


def points_of(rng: np.random.Generator, n: int, axes: int = 2):
    points = rng.normal(size=(n, axes))
    points[:3], points[-3:] = points[0], points[-1]
    return points


@given(seed=st.integers(0, 1000), n=st.integers(7, 20), duration=st.floats(0.5, 20.0))
def test_rest_at_both_ends_and_inside_the_hull_of_its_points(seed, n, duration):
    points = points_of(np.random.default_rng(seed), n)
    motion = SplineTrajectory(duration, points)
    q, v, a = motion(np.array([0.0, duration]))
    np.testing.assert_allclose(q, points[[0, -1]], atol=1e-12)
    assert np.abs(v).max() < 1e-9 / duration
    assert np.abs(a).max() < 1e-7 / duration**2
    q, _, _ = motion(np.linspace(0.0, duration, 200))
    assert (q <= points.max(axis=0) + 1e-12).all()
    assert (q >= points.min(axis=0) - 1e-12).all()


def test_velocity_and_acceleration_are_derivatives(rng):
    motion = SplineTrajectory(4.0, points_of(rng, 12))
    t, step = np.linspace(0.1, 3.9, 50), 1e-5
    _, v, a = motion(t)
    np.testing.assert_allclose(
        (motion(t + step)[0] - motion(t - step)[0]) / (2 * step), v, atol=1e-7
    )
    np.testing.assert_allclose(
        (motion(t + step)[1] - motion(t - step)[1]) / (2 * step), a, atol=1e-6
    )


def test_the_curve_is_the_sum_of_basis_functions(rng):
    points = points_of(rng, 9, axes=1)
    knots = np.concatenate([np.zeros(5), np.linspace(0.0, 2.0, 5), np.full(5, 2.0)])
    t = np.linspace(0.0, 2.0, 31)
    total = sum(points[k, 0] * BSpline(knots, np.eye(9)[k], 5)(t) for k in range(9))
    np.testing.assert_allclose(SplineTrajectory(2.0, points)(t)[0][:, 0], total, atol=1e-13)


def test_it_stands_still_outside(rng):
    motion = SplineTrajectory(2.0, points_of(rng, 8))
    q, v, a = motion(np.array([-1.0, 3.0]))
    np.testing.assert_array_equal(q, motion(np.array([0.0, 2.0]))[0])
    assert not v.any()
    assert not a.any()


def test_its_size(rng):
    motion = SplineTrajectory(2.0, points_of(rng, 8, axes=3))
    assert (motion.n_axes, motion.duration, motion.points.shape) == (3, 2.0, (8, 3))
    assert "8 control points" in repr(motion)


@pytest.mark.parametrize("end", [0, -1])
def test_an_end_that_is_not_at_rest(end, rng):
    points = points_of(rng, 8)
    points[end, 0] += 0.1
    with pytest.raises(TrajectoryError, match="make them equal"):
        SplineTrajectory(1.0, points)


def test_too_few_points():
    with pytest.raises(TrajectoryError, match="at least 7"):
        SplineTrajectory(1.0, np.zeros((6, 1)))


def test_points_that_are_no_numbers():
    with pytest.raises(ShapeError, match="nan"):
        SplineTrajectory(1.0, np.full((8, 1), np.nan))
