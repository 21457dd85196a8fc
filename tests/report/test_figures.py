"""Axes, error bars, curves and bodies of figures."""

from __future__ import annotations

import base64
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.logs.filtering import Stretches, drawable
from bodysense.report.figures import (
    WIDTH,
    Axis,
    TracePool,
    WhiskerScale,
    ellipsoid,
    float_bytes,
    round_step,
    runs,
)
from bodysense.spatial import exp_so3
from bodysense.spatial.pseudo_inertia import pi_from_mass_com_inertia

NUMBERS = st.floats(-1e6, 1e6)


@given(st.lists(NUMBERS, min_size=1, max_size=5))
def test_all_values_are_on_the_axis(values):
    axis = Axis.around(values, 10.0, 200.0)
    places = [axis.place(value) for value in values]
    assert all(10.0 <= place <= 200.0 for place in places)
    ordered = [axis.place(value) for value in sorted(values)]
    assert ordered == sorted(ordered)


@given(st.lists(NUMBERS, min_size=1, max_size=5))
def test_ticks_are_few_and_stand_where_they_say(values):
    axis = Axis.around(values, 0.0, 1000.0)
    ticks = axis.ticks(6)
    assert len(ticks) <= 8
    for place, label in ticks:
        number = float(label.replace("\N{MINUS SIGN}", "-"))
        width = axis.high - axis.low
        assert place == pytest.approx(1000.0 * (number - axis.low) / width, abs=1.0)


def test_what_is_not_finite_does_not_count():
    axis = Axis.around([1.0, math.nan, math.inf, 3.0], 0.0, 1.0)
    assert (axis.low, axis.high) == pytest.approx((0.84, 3.16))


def test_an_axis_of_nothing_or_of_one_value():
    assert Axis.around([], 0.0, 1.0).low < 0.0
    one = Axis.around([5.0, 5.0], 0.0, 100.0)
    assert one.place(5.0) == 50.0


@pytest.mark.parametrize(
    ("rough", "step"), [(0.9, 1.0), (1.0, 1.0), (1.1, 2.0), (0.021, 0.05), (6.0, 10.0)]
)
def test_steps_are_round(rough, step):
    assert round_step(rough) == pytest.approx(step)


finite = st.floats(-1e6, 1e6)


@given(values=st.lists(finite, min_size=1, max_size=20), reach=st.floats(0, 1e6))
def test_places_are_ordered_and_inside(values: list[float], reach: float) -> None:
    scale = WhiskerScale.of(np.array(values), np.full(len(values), reach))
    for value in values:
        whisker = scale.whisker(value, reach)
        assert 0.0 <= whisker["low"] <= whisker["at"] <= whisker["high"] <= WIDTH
        assert whisker["outside"] == (abs(value) > scale.most)
    places = [scale.place(value) for value in sorted(values)]
    assert places == sorted(places)
    assert scale.place(0.0) == WIDTH / 2


def test_every_value_of_usual_size_is_on_the_axis() -> None:
    values = np.array([-30.0, 0.2, 3.0])
    scale = WhiskerScale.of(values, np.zeros(3))
    assert not any(scale.whisker(v, 0.0)["outside"] for v in values)


def test_what_is_no_number_gets_the_longest_bar() -> None:
    scale = WhiskerScale.of(np.array([np.nan]), np.array([np.inf]))
    whisker = scale.whisker(np.nan, 1.0)
    assert (whisker["low"], whisker["high"], whisker["outside"]) == (0.0, WIDTH, True)
    assert scale.whisker(0.0, np.inf)["low"] == 0.0


def test_marks_have_room() -> None:
    for most in (1.5, 8.0, 11.0, 100.0):
        marks = WhiskerScale(most).marks
        places = [at for at, _ in marks]
        assert (np.diff(places) > 13.0).all()
        assert places[0] > 9.0
        assert "0" in [text for _, text in marks]
        assert [at for at, text in marks if text == "1"] == [WhiskerScale(most).plausible[1]]


@given(
    lengths=st.lists(st.integers(1, 300), min_size=1, max_size=4),
    most=st.integers(4, 200),
    seed=st.integers(0, 99),
)
def test_points_keep_the_extremes_of_each_piece(lengths: list[int], most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    stretches = Stretches.of(lengths, most)
    pieces = [rng.normal(size=(n, 2)) for n in lengths]
    times = [k * 1000.0 + np.sort(rng.uniform(0, 9, n)) for k, n in enumerate(lengths)]
    points, t = stretches.values(pieces), stretches.times(times)
    assert len(points) == len(t)
    assert len(points) <= max(most, 0) + 2 * len(lengths)
    assert (np.diff(t) >= 0).all()
    starts = [*stretches.starts, len(points)]
    for k, piece in enumerate(pieces):
        mine = slice(starts[k], starts[k + 1])
        np.testing.assert_array_equal(points[mine].max(axis=0), piece.max(axis=0))
        np.testing.assert_array_equal(points[mine].min(axis=0), piece.min(axis=0))
        assert t[mine][0] == times[k][0]
        assert t[mine][-1] == pytest.approx(times[k][-1])


def test_few_samples_are_kept_as_they_are() -> None:
    y = np.arange(10.0)[:, None]
    stretches = Stretches.of([4, 6], 10)
    np.testing.assert_array_equal(stretches.values([y[:4], y[4:]]), y)
    assert stretches.starts == [0, 4]


def test_lowest_and_highest_come_in_the_order_of_time() -> None:
    y = np.array([0.0, 5.0, 1.0, -3.0, 2.0, -9.0, 8.0, 0.0])[:, None]
    assert Stretches((8,), 4).values([y]).ravel().tolist() == [5.0, -3.0, -9.0, 8.0]


def test_a_gap_does_not_hide_what_is_beside_it() -> None:
    y = np.array([np.nan, 4.0, 1.0, np.inf, np.nan, np.nan, np.nan, np.nan])[:, None]
    points = Stretches((8,), 4).values([y]).ravel()
    np.testing.assert_array_equal(points, [4.0, 1.0, np.nan, np.nan])


def test_any_in_a_stretch() -> None:
    moving = np.array([0, 0, 1, 0, 0, 0, 0], bool)[:, None]
    assert Stretches((7,), 3).any([moving]).ravel().tolist() == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


def test_runs_end_where_pieces_do() -> None:
    mask = np.array([1, 1, 0, 1, 1, 1], bool)
    assert runs(mask, [0, 4]) == [[0, 1], [3, 3], [4, 5]]
    assert runs(~mask, [0]) == [[2, 2]]


@given(st.lists(st.floats(-1e11, 1e11) | st.just(float("nan")), min_size=1, max_size=50))
def test_encoding_is_exact_to_a_65000th_of_the_range(values: list[float]) -> None:
    y = np.array(values)
    pool = TracePool()
    middle, step, text = pool.traces[pool.add(y)]
    steps = np.frombuffer(base64.b64decode(text), "<i2").astype(float)
    decoded = np.where(steps == -32768, np.nan, middle + step * steps)
    np.testing.assert_array_equal(np.isnan(decoded), np.isnan(y))
    known = y[~np.isnan(y)]
    size = np.ptp(known) if known.size else 0.0
    np.testing.assert_allclose(decoded, y, rtol=1e-9, atol=size / 65000)


def test_equal_curves_are_kept_once() -> None:
    pool = TracePool()
    y = np.array([1.0, 2.0])
    assert [pool.add(y), pool.add(y + 1), pool.add(y.copy())] == [0, 1, 0]
    assert len(pool.traces) == 2


def test_times_as_floats() -> None:
    t = np.array([0.0, 0.5, 1e3])
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(float_bytes(t)), "<f4"), t)


def test_what_can_be_drawn() -> None:
    np.testing.assert_array_equal(
        drawable(np.array([1.0, -1e200, np.inf, np.nan])), [1.0, np.nan, np.nan, np.nan]
    )


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


def test_an_inconsistent_body_is_drawn_flat() -> None:
    pi = pi_from_mass_com_inertia(1.0, np.zeros(3), np.diag([1.0, 1.0, 5.0]))
    found = ellipsoid(pi)
    assert found is not None
    assert np.linalg.norm(found[1], axis=0)[0] == 0.0


@pytest.mark.parametrize("mass", [0.0, -1.0, np.nan])
def test_without_mass_there_is_nothing_to_draw(mass: float) -> None:
    assert ellipsoid(np.array([mass, *np.ones(9)])) is None
