from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.report.traces import Stretches, TracePool, drawable, float_bytes, runs


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
