"""Lanes: the arithmetic of the kernels on several numbers at a time, as on floats."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from bodysense.compiled import lanes
from bodysense.compiled.lanes import LANES, lanes_of, lanes_of_zeros
from bodysense.spatial.arrays import Array


def read_only(array):
    array.flags.writeable = False
    return array


class Pair(NamedTuple):
    x: Array  # (k, LANES)
    count: Array
    out: Array  # (rows, k, LANES)


@njit
def arithmetic(x, y, out):
    """Everything that lanes can do, mixed with floats, with one source for both."""
    out[0] = x + y
    out[1] = x - 2.0 * y
    out[2] = 0.5 + x * y - 1.0
    out[3] = x / y
    out[4] = -x
    out[5] = math.sqrt(abs(x))
    out[6] = math.sin(x) + math.cos(y)
    out[7] = math.log(abs(y))
    z = 0.0  # becomes lanes
    for _ in range(3):
        z += x
        z *= 0.5
        z -= y
    out[8] = z
    out[9] = lanes.away_from(abs(x), y)
    out[10] = lanes.inverse(y)
    total = 0.0
    for k in range(lanes.lanes_in(x)):
        total += lanes.lane(x, k)
        x = lanes.with_lane(x, k, total)
    out[11] = x
    out[12] = 1.0 if lanes.is_zero(y) else 0.0
    out[13] = 3.0


@njit
def in_lanes(pair):
    seen = lanes_of(pair)
    for j in range(seen.count[0] - 1):
        arithmetic(seen.x[j], seen.x[j + 1], seen.out[:, j])


@njit
def in_floats(x, y):
    out = np.empty(14)
    arithmetic(x, y, out)
    return out


def test_lanes_calculate_as_floats_do():
    rng = np.random.default_rng(0)
    x, out = lanes_of_zeros((6,)), lanes_of_zeros((14, 6))
    x[:] = rng.normal(size=(6, LANES))
    in_lanes(Pair(x, np.array([6]), out))
    for j in range(5):
        expected = np.stack([in_floats(*x[j : j + 2, k]) for k in range(LANES)], axis=1)
        expected[11] = np.cumsum(x[j])  # the one that looks at other lanes
        np.testing.assert_allclose(out[:, j], expected, rtol=1e-15, atol=0.0)
    np.testing.assert_array_equal(out[:, 5], 0.0)  # nobody wrote there


def test_zero_in_some_lanes():
    x, out = lanes_of_zeros((2,)), lanes_of_zeros((14, 2))
    x[0], x[1] = 1.0, np.arange(LANES) - 1.0
    in_lanes(Pair(x, np.array([2]), out))
    inverse = np.divide(1.0, x[1], out=np.zeros(LANES), where=x[1] != 0.0)
    np.testing.assert_array_equal(out[10, 0], inverse)
    np.testing.assert_array_equal(out[12, 0], 0.0)  # not all of them
    np.testing.assert_array_equal(np.abs(out[9, 0]), 1.0)
    x[1] = 0.0
    in_lanes(Pair(x, np.array([2]), out))
    np.testing.assert_array_equal(out[12, 0], 1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_lane_does_not_spoil_the_others(bad):
    x, out = lanes_of_zeros((2,)), lanes_of_zeros((14, 2))
    x[:] = np.random.default_rng(1).normal(size=(2, LANES))
    x[0, 3] = bad
    in_lanes(Pair(x, np.array([2]), out))
    others = np.delete(np.arange(LANES), 3)
    assert np.isfinite(np.delete(out, 11, axis=0)[:, 0, others]).all()


def test_floats_of_python_as_compiled_ones():
    for x in (-2.0, 0.5):
        assert lanes.away_from(3.0, x) == (3.0 if x < 0.0 else -3.0)
        assert lanes.inverse(x) == 1.0 / x
        assert not lanes.is_zero(x)
        assert lanes.lanes_in(x) == 1
        assert lanes.lane(x, 0) == x
        assert lanes.with_lane(x, 0, 4.0) == 4.0


@pytest.mark.parametrize("spoil", [np.asfortranarray, lambda x: x[:, ::2], read_only])
def test_arrays_without_lanes_are_refused(spoil):
    with pytest.raises(TypingError, match="writable C array"):
        in_lanes(Pair(spoil(np.zeros((6, 2 * LANES))), np.array([6]), lanes_of_zeros((14, 6))))


@pytest.mark.parametrize("shape", [(), (3,), (5, 7), (0, 4)])
def test_lanes_are_aligned(shape):
    array = lanes_of_zeros(shape)
    assert array.shape == (*shape, LANES)
    assert array.flags.c_contiguous
    assert not array.any()
    assert array.size == 0 or array.ctypes.data % (8 * LANES) == 0
