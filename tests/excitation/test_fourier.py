from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space

from bodysense.errors import BodysenseError, ShapeError
from bodysense.excitation import FourierTrajectory, TrajectoryError

INF = math.inf


def drawn(seed: int = 0, **changes: object) -> FourierTrajectory:
    arguments: dict[str, object] = {
        "n_axes": 6,
        "duration": 10.0,
        "harmonics": 20,
        "lower": -2.5,
        "upper": 2.0,
        "velocity": 3.0,
        "acceleration": 9.0,
        "rng": np.random.default_rng(seed),
    }
    return FourierTrajectory.random(**(arguments | changes))  # type: ignore[arg-type]


def test_one_harmonic_against_the_closed_form() -> None:
    a, b, q0, period = 0.7, -0.4, 0.2, 3.0
    w = 2 * math.pi / period
    series = FourierTrajectory(period, [[0.0, a]], [[0.0, b]], [q0])
    t = np.linspace(-1.0, 7.0, 33)
    q, v, acceleration = series(t)
    sine, cosine = np.sin(2 * w * t), np.cos(2 * w * t)
    np.testing.assert_allclose(q[:, 0], q0 + (a * sine - b * cosine) / (2 * w), atol=1e-14)
    np.testing.assert_allclose(v[:, 0], a * cosine + b * sine, atol=1e-14)
    np.testing.assert_allclose(acceleration[:, 0], 2 * w * (b * cosine - a * sine), atol=1e-14)


def test_velocity_and_acceleration_are_the_derivatives() -> None:
    series = drawn()
    t, h = np.linspace(0.0, 10.0, 301), 1e-5
    before, now, after = series(t - h), series(t), series(t + h)
    np.testing.assert_allclose((after[0] - before[0]) / (2 * h), now[1], atol=1e-8)
    np.testing.assert_allclose((after[1] - before[1]) / (2 * h), now[2], atol=1e-7)


def test_the_mean_position_is_q0() -> None:
    series = drawn()
    t = np.arange(64) * (10.0 / 64)  # exact for fewer than 64 harmonics
    np.testing.assert_allclose(series(t)[0].mean(axis=0), series.q0, atol=1e-13)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    harmonics=st.integers(3, 30),
    duration=st.floats(0.5, 60.0),
    fraction=st.floats(0.05, 1.0),
    low=st.floats(-6.0, 5.0),
    width=st.floats(0.01, 12.0),
    velocity=st.floats(0.01, 20.0) | st.just(INF),
    acceleration=st.floats(0.01, 200.0) | st.just(INF),
)
def test_random_starts_at_rest_and_uses_its_limits_up_to_the_fraction(
    seed: int,
    harmonics: int,
    duration: float,
    fraction: float,
    low: float,
    width: float,
    velocity: float,
    acceleration: float,
) -> None:
    limits = {
        "lower": low,
        "upper": low + width,
        "velocity": velocity,
        "acceleration": acceleration,
    }
    series = drawn(
        seed, n_axes=3, harmonics=harmonics, duration=duration, fraction=fraction, **limits
    )
    greatest = series.bounds()
    _, v, a = series([0.0, duration])
    assert (np.abs(v) <= 1e-12 * greatest.velocity).all()
    assert (np.abs(a) <= 1e-11 * greatest.acceleration).all()

    np.testing.assert_allclose(series.peak_ratio(**limits), fraction, rtol=1e-9)
    t = np.random.default_rng(seed).uniform(0.0, duration, 2000)
    q, v, a = series(t)
    half, slack = 0.5 * width * fraction, 1.0 + 1e-9
    assert (np.abs(q - (low + 0.5 * width)) <= half * slack).all()
    assert (np.abs(v) <= velocity * fraction * slack).all()
    assert (np.abs(a) <= acceleration * fraction * slack).all()


def test_the_limit_is_reached_and_not_merely_kept() -> None:
    series = drawn(fraction=1.0)
    _, q, v, a = series.sample(5000.0)
    used = np.maximum.reduce(
        [
            np.abs(q + 0.25).max(axis=0) / 2.25,
            np.abs(v).max(axis=0) / 3.0,
            np.abs(a).max(axis=0) / 9.0,
        ]
    )
    assert (used <= 1.0).all()
    assert (used >= math.cos(math.pi / 64) - 1e-6).all()


def test_bounds_hold_in_the_worst_case_between_samples() -> None:
    # One harmonic whose peaks all lie in the middle between the samples that bounds() takes.
    harmonics, period = 5, 2.0
    shift = math.pi / 64
    a, b = np.zeros((1, harmonics)), np.zeros((1, harmonics))
    a[0, -1], b[0, -1] = math.cos(shift), math.sin(shift)
    bounds = FourierTrajectory(period, a, b, [0.3]).bounds()
    kw = harmonics * 2 * math.pi / period
    assert bounds.velocity[0] == pytest.approx(1.0, rel=1e-12)
    # A quarter period is 16 samples, so the peaks of position and acceleration are missed too.
    assert bounds.acceleration[0] == pytest.approx(kw, rel=1e-12)
    assert bounds.upper[0] == pytest.approx(0.3 + 1 / kw, rel=1e-12)
    assert bounds.lower[0] == pytest.approx(0.3 - 1 / kw, rel=1e-12)


def test_axes_have_their_own_limits() -> None:
    lower, upper = np.array([-1.0, 0.0, -INF]), np.array([1.0, 0.1, INF])
    limits = {
        "lower": lower,
        "upper": upper,
        "velocity": [INF, INF, 2.0],
        "acceleration": [INF, 0.5, INF],
    }
    series = drawn(n_axes=3, **limits)
    np.testing.assert_allclose(series.peak_ratio(**limits)[:2], 0.8, rtol=1e-12)
    assert series.peak_ratio(**limits)[2] <= 0.8 * (1 + 1e-12)
    bounds = series.bounds()
    np.testing.assert_allclose(bounds.upper[0], 0.8, rtol=1e-12)
    np.testing.assert_allclose(bounds.lower[0], -0.8, rtol=1e-12)


@pytest.mark.parametrize("none", [INF, 1e9, np.finfo(float).max])
def test_an_axis_without_any_limit_sweeps_pi(none: float) -> None:
    series = drawn(
        lower=-none, upper=none, velocity=INF, acceleration=INF, fraction=1.0, centre=2.0
    )
    bounds = series.bounds()
    np.testing.assert_allclose(bounds.lower, 2.0 - math.pi, rtol=1e-12)
    np.testing.assert_allclose(bounds.upper, 2.0 + math.pi, rtol=1e-12)
    ratio = series.peak_ratio(lower=-none, upper=none, velocity=INF, acceleration=INF)
    np.testing.assert_array_equal(ratio, 0.0)


def test_centre_is_the_middle_of_the_range_swept() -> None:
    series = drawn(centre=1.5, velocity=INF, acceleration=INF, fraction=0.5)
    bounds = series.bounds()
    np.testing.assert_allclose(bounds.lower, 1.25, rtol=1e-12)
    np.testing.assert_allclose(bounds.upper, 1.75, rtol=1e-12)


def test_the_same_seed_gives_the_same_motion() -> None:
    np.testing.assert_array_equal(drawn(7).a, drawn(7).a)
    assert not np.array_equal(drawn(7).a, drawn(8).a)


def test_amplitude_decreases_as_one_over_the_harmonic() -> None:
    series = drawn(0, n_axes=400, velocity=1.0, acceleration=INF, lower=-INF, upper=INF)
    spread = np.sqrt((series.a**2 + series.b**2).mean(axis=0))
    slope, _ = np.polyfit(np.log(np.arange(3, 21)), np.log(spread[2:]), 1)
    assert slope == pytest.approx(-1.0, abs=0.1)


def test_at_rest_turns_draws_into_draws_under_the_condition() -> None:
    # The covariance of N(0, S) on the null space of c is N (N' S^-1 N)^-1 N', N a basis of it.
    harmonics = 7
    k = np.arange(1.0, harmonics + 1)
    unit = np.eye(harmonics)
    rested = FourierTrajectory(1.0, unit, unit, np.zeros(harmonics)).at_rest()
    for projection, c in ((rested.a.T, np.ones_like(k)), (rested.b.T, k)):
        basis = null_space(c[np.newaxis])
        expected = basis @ np.linalg.inv(basis.T @ np.diag(k**2) @ basis) @ basis.T
        np.testing.assert_allclose(projection @ np.diag(k**-2) @ projection.T, expected, atol=1e-14)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), harmonics=st.integers(2, 25))
def test_at_rest_is_a_projection_onto_the_constraints(seed: int, harmonics: int) -> None:
    rng = np.random.default_rng(seed)
    series = FourierTrajectory(
        4.0, rng.standard_normal((2, harmonics)), rng.standard_normal((2, harmonics)), [1.0, 2.0]
    )
    rested = series.at_rest()
    k = np.arange(1, harmonics + 1)
    np.testing.assert_allclose(rested.a.sum(axis=1), 0.0, atol=1e-13)
    np.testing.assert_allclose(rested.b @ k, 0.0, atol=1e-11)
    again = rested.at_rest()
    np.testing.assert_allclose(again.a, rested.a, atol=1e-13)
    np.testing.assert_allclose(again.b, rested.b, atol=1e-13)
    np.testing.assert_array_equal(rested.q0, series.q0)


def test_coefficients_cannot_be_changed_from_outside() -> None:
    a = np.ones((1, 3))
    series = FourierTrajectory(1.0, a, np.zeros((1, 3)), np.zeros(1))
    a[0, 0] = 5.0
    assert series.a[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        series.a[0, 0] = 2.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lower": 2.5}, "axis 0.*swapped.*lower < upper"),
        ({"lower": [-1.0] * 5 + [3.0]}, "axis 5.*swapped"),
        ({"lower": 2.0}, "no room to move.*leave the axis out"),
        ({"velocity": 0.0}, "velocity is 0.*inf for no limit"),
        ({"acceleration": -1.0}, "acceleration is -1"),
        ({"lower": -INF}, "one side only"),
        ({"lower": INF}, "swapped"),
        ({"upper": -INF}, "swapped"),
        ({"harmonics": 2}, "harmonics is 2, at least 3"),
        ({"n_axes": 0}, "n_axes is 0"),
        ({"duration": 0.0}, "above zero"),
        ({"duration": -3.0}, "above zero"),
        ({"duration": math.nan}, "above zero"),
        ({"fraction": 0.0}, "fraction"),
        ({"fraction": 1.01}, "fraction"),
        ({"fraction": math.nan}, "fraction"),
        ({"centre": 2.0}, "axis 0: centre = 2 leaves no room.*between lower = -2.5"),
        ({"centre": -9.0}, "centre"),
        ({"centre": INF}, "centre"),
    ],
)
def test_limits_without_a_motion(changes: dict[str, object], message: str) -> None:
    with pytest.raises(TrajectoryError, match=message):
        drawn(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lower": math.nan}, "lower holds nan"),
        ({"velocity": [1.0, math.nan, 1.0, 1.0, 1.0, 1.0]}, "velocity holds nan"),
        ({"centre": math.nan}, "centre holds nan"),
        ({"upper": [1.0, 2.0]}, r"upper has shape \(2,\).*one number, or 6"),
        ({"upper": "high"}, "upper must be a number"),
        ({"harmonics": 4.5}, "harmonics must be a whole number, not 4.5"),
    ],
)
def test_malformed_arguments(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        drawn(**changes)


@pytest.mark.parametrize(
    ("a", "b", "q0"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), np.zeros(2)),
        (np.ones((2, 3)), np.ones((2, 3)), np.zeros(3)),
        (np.ones((2, 0)), np.ones((2, 0)), np.zeros(2)),
        (np.full((1, 3), np.nan), np.ones((1, 3)), np.zeros(1)),
    ],
)
def test_malformed_coefficients(a: np.ndarray, b: np.ndarray, q0: np.ndarray) -> None:
    with pytest.raises(BodysenseError):
        FourierTrajectory(1.0, a, b, q0)
