from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import BSpline

from bodysense.errors import BodysenseError, ShapeError, TrajectoryError
from bodysense.excitation import (
    HoldTrajectory,
    SampledTrajectory,
    SplineTrajectory,
    Trajectory,
)


def minimum_jerk(s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The quintic from 0 to 1 over [0, 1] with zero end velocity and acceleration."""
    return (
        10 * s**3 - 15 * s**4 + 6 * s**5,
        30 * s**2 - 60 * s**3 + 30 * s**4,
        60 * s - 180 * s**2 + 120 * s**3,
    )


def test_hold_stands_still_at_all_times() -> None:
    hold = HoldTrajectory([0.3, -1.0], 2.0)
    assert (hold.n_axes, hold.duration) == (2, 2.0)
    q, v, a = hold([-1.0, 0.0, 1.0, 5.0])
    np.testing.assert_array_equal(q, np.tile([0.3, -1.0], (4, 1)))
    np.testing.assert_array_equal(v, np.zeros((4, 2)))
    np.testing.assert_array_equal(a, np.zeros((4, 2)))


def test_hold_is_not_changed_through_its_input_or_output() -> None:
    pose = np.array([1.0, 2.0])
    hold = HoldTrajectory(pose, 1.0)
    pose[0] = 9.0
    q, _, _ = hold([0.0])
    q[0, 1] = 9.0
    np.testing.assert_array_equal(hold([0.0])[0], [[1.0, 2.0]])


@pytest.mark.parametrize(
    ("duration", "rate", "n_samples"),
    [(10.0, 1000.0, 10001), (0.29, 100.0, 30), (1.0, 3.0, 4), (0.35, 10.0, 4), (0.05, 10.0, 1)],
)
def test_sample_runs_from_zero_to_the_end(duration: float, rate: float, n_samples: int) -> None:
    t, q, v, a = HoldTrajectory([0.0], duration).sample(rate)
    assert t.shape == (n_samples,)
    assert q.shape == v.shape == a.shape == (n_samples, 1)
    assert t[0] == 0.0
    assert t[-1] <= duration
    np.testing.assert_allclose(t, np.arange(n_samples) / rate, rtol=1e-15)


@given(n_steps=st.integers(1, 5000), rate=st.floats(0.1, 1e5))
def test_sample_includes_the_end_when_it_is_on_the_grid(n_steps: int, rate: float) -> None:
    duration = n_steps / rate
    t, *_ = HoldTrajectory([0.0], duration).sample(rate)
    assert t.size == n_steps + 1
    assert t[-1] == pytest.approx(duration, rel=1e-15)


def test_two_points_at_rest_give_the_minimum_jerk_motion() -> None:
    trajectory = SampledTrajectory([3.0, 5.0], [[1.0, 0.0], [2.0, -4.0]])
    assert trajectory.duration == 2.0
    t = np.linspace(0.0, 2.0, 41)
    q, v, a = trajectory(t)
    s, ds, dds = minimum_jerk(t / 2.0)
    reach = np.array([1.0, -4.0])
    np.testing.assert_allclose(q - [1.0, 0.0], np.outer(s, reach), atol=1e-13)
    np.testing.assert_allclose(v, np.outer(ds, reach) / 2.0, atol=1e-13)
    np.testing.assert_allclose(a, np.outer(dds, reach) / 4.0, atol=2e-13)


def test_running_points_of_a_quintic_are_reproduced_exactly() -> None:
    rng = np.random.default_rng(0)
    polynomials = [np.polynomial.Polynomial(rng.standard_normal(6)) for _ in range(3)]
    knots = np.sort(rng.uniform(-1.0, 1.0, 9))
    trajectory = SampledTrajectory(
        knots, np.column_stack([p(knots) for p in polynomials]), at_rest=False
    )
    t = np.linspace(0.0, trajectory.duration, 50)
    for computed, order in zip(trajectory(t), (0, 1, 2), strict=True):
        exact = np.column_stack([p.deriv(order)(t + knots[0]) for p in polynomials])
        np.testing.assert_allclose(computed, exact, atol=1e-9)


@pytest.mark.parametrize("at_rest", [True, False])
def test_sampled_passes_through_its_points_and_differentiates(at_rest: bool) -> None:
    rng = np.random.default_rng(1)
    knots = np.cumsum(rng.uniform(0.5, 1.5, 8))
    points = rng.standard_normal((8, 2))
    trajectory = SampledTrajectory(knots, points, at_rest=at_rest)
    np.testing.assert_allclose(trajectory(knots - knots[0])[0], points, atol=1e-12)
    t, h = np.linspace(0.1, trajectory.duration - 0.1, 200), 1e-5
    before, now, after = trajectory(t - h), trajectory(t), trajectory(t + h)
    np.testing.assert_allclose((after[0] - before[0]) / (2 * h), now[1], atol=1e-7)
    np.testing.assert_allclose((after[1] - before[1]) / (2 * h), now[2], atol=1e-6)


def test_sampled_stands_still_outside_its_points() -> None:
    knots = np.arange(7.0)
    trajectory = SampledTrajectory(knots, np.sin(knots)[:, np.newaxis], at_rest=False)
    q, v, a = trajectory([-1.0, 0.0, 6.0, 60.0])
    np.testing.assert_allclose(q[:, 0], np.sin([0.0, 0.0, 6.0, 6.0]), atol=1e-12)
    assert v[0, 0] == v[3, 0] == a[0, 0] == a[3, 0] == 0.0
    assert v[1, 0] != 0.0
    assert v[2, 0] != 0.0


def test_the_last_sample_of_a_running_piece_still_moves() -> None:
    # On some grids k / rate exceeds the duration by a rounding; the end must not look still.
    for n_steps in range(6, 200):
        knots = np.arange(n_steps + 1) / 100.0
        trajectory = SampledTrajectory(knots, knots[:, np.newaxis], at_rest=False)
        assert trajectory.sample(100.0)[2][-1, 0] == pytest.approx(1.0, rel=1e-9)


def test_trajectory_itself_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Trajectory()  # type: ignore[abstract]


@pytest.mark.parametrize("duration", [0.0, -1.0, math.nan, math.inf])
def test_bad_duration(duration: float) -> None:
    with pytest.raises(TrajectoryError, match=r"duration.*finite number above zero"):
        HoldTrajectory([0.0], duration)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_bad_rate(rate: float) -> None:
    with pytest.raises(TrajectoryError, match="rate"):
        HoldTrajectory([0.0], 1.0).sample(rate)


def test_duration_that_is_not_a_number() -> None:
    with pytest.raises(ShapeError, match="'ten'"):
        HoldTrajectory([0.0], "ten")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("t", "q", "message"),
    [
        ([0.0], [[1.0]], "at least 2 points"),
        ([0.0, 0.0, 1.0], [[1.0]] * 3, r"t\[1\] = 0.0.*drop repeated"),
        ([0.0, 2.0, 1.0], [[1.0]] * 3, r"t\[1\] = 2.0 is followed by t\[2\] = 1.0"),
        ([0.0, 1.0], [1.0, 2.0], "shape"),
        ([0.0, 1.0], [[1.0], [math.nan]], "nan"),
        ([0.0, math.inf], [[1.0], [2.0]], "inf"),
    ],
)
def test_bad_points(t: list[float], q: list[list[float]], message: str) -> None:
    with pytest.raises(BodysenseError, match=message):
        SampledTrajectory(t, q)


def test_too_few_running_points() -> None:
    with pytest.raises(TrajectoryError, match="at least 6 points, or at_rest=True"):
        SampledTrajectory(np.arange(5.0), np.zeros((5, 1)), at_rest=False)


def test_bad_times() -> None:
    with pytest.raises(ShapeError, match="t has shape"):
        HoldTrajectory([0.0], 1.0)([[0.5]])


@pytest.mark.parametrize(
    ("duration", "times"),
    [
        (1.0, [0.0, 0.25, 0.5, 0.75, 1.0]),
        (0.9, [0.0, 0.25, 0.5, 0.75, 0.9]),
        (0.76, [0.0, 0.25, 0.5, 0.76]),  # two points 10 ms apart would be too much
        (0.1, [0.0, 0.1]),
        (0.01, [0.0, 0.01]),
    ],
)
def test_points_reach_the_end(duration, times):
    motion = SampledTrajectory([0.0, duration], [[0.0], [1.0]])
    t, q, v, a = motion.sample_to_end(4.0)
    np.testing.assert_allclose(t, times)
    for ours, theirs in zip((q, v, a), motion(times), strict=True):
        np.testing.assert_allclose(ours, theirs)
    assert q[-1] == pytest.approx(1.0)
    assert v[-1] == pytest.approx(0.0, abs=1e-9)


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
