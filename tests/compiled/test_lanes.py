"""Lanes: the arithmetic of the kernels on several numbers at a time, as on floats."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
import pytest

from bodysense.compiled import lanes
from bodysense.compiled.jit import called, threaded
from bodysense.compiled.lanes import LANES
from bodysense.compiled.views import Integers, Table, reader, zeros_of
from bodysense.spatial.arrays import Array


class Numbers(NamedTuple):
    x: Annotated[Array, "k"]
    count: Annotated[Integers, 1]
    out: Annotated[Array, "k", 14]


numbers_at, numbers_in_lanes_at = reader(Numbers), reader(Numbers, lanes.lanes)


@called
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


@threaded
def in_lanes(address):
    numbers = numbers_in_lanes_at(address)
    for j in range(numbers.count[0] - 1):
        arithmetic(numbers.x[j], numbers.x[j + 1], numbers.out[j])


@threaded
def in_floats(address):
    numbers = numbers_at(address)
    arithmetic(numbers.x[0], numbers.x[1], numbers.out[0])


def calculate_in_lanes(x):
    numbers = zeros_of(Numbers, lanes=LANES, k=len(x))
    numbers.x[:], numbers.count[0] = x, len(x)
    in_lanes(Table(numbers, lanes=True).address)
    return numbers.out.swapaxes(0, 1)


def calculate_in_floats(x, y):
    numbers = zeros_of(Numbers, k=2)
    numbers.x[:] = x, y
    in_floats(Table(numbers).address)
    return numbers.out[0]


def test_lanes_calculate_as_floats_do():
    x = np.random.default_rng(0).normal(size=(6, LANES))
    out = calculate_in_lanes(x)
    for j in range(5):
        expected = np.stack([calculate_in_floats(*x[j : j + 2, k]) for k in range(LANES)], axis=1)
        expected[11] = np.cumsum(x[j])  # the one that looks at other lanes
        np.testing.assert_allclose(out[:, j], expected, rtol=1e-15, atol=0.0)
    np.testing.assert_array_equal(out[:, 5], 0.0)  # nobody wrote there


def test_zero_in_some_lanes():
    x = np.stack([np.ones(LANES), np.arange(LANES) - 1.0])
    out = calculate_in_lanes(x)
    inverse = np.divide(1.0, x[1], out=np.zeros(LANES), where=x[1] != 0.0)
    np.testing.assert_array_equal(out[10, 0], inverse)
    np.testing.assert_array_equal(out[12, 0], 0.0)  # not all of them
    np.testing.assert_array_equal(np.abs(out[9, 0]), 1.0)
    x[1] = 0.0
    np.testing.assert_array_equal(calculate_in_lanes(x)[12, 0], 1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_lane_does_not_spoil_the_others(bad):
    x = np.random.default_rng(1).normal(size=(2, LANES))
    x[0, 3] = bad
    out = calculate_in_lanes(x)
    others = np.delete(np.arange(LANES), 3)
    assert np.isfinite(np.delete(out, 11, axis=0)[:, 0, others]).all()


@pytest.mark.parametrize("x", [-2.0, 0.5])
def test_functions_of_lanes_take_floats(x):
    out = calculate_in_floats(3.0, x)
    assert out[9] == (3.0 if x < 0.0 else -3.0)
    assert out[10] == 1.0 / x
    assert out[11] == 3.0
    assert out[12] == 0.0
    assert calculate_in_floats(3.0, 0.0)[12] == 1.0


@pytest.mark.parametrize("spoil", [np.asfortranarray, lambda x: x[:, ::2]])
def test_arrays_without_lanes_are_refused(spoil):
    numbers = zeros_of(Numbers, lanes=LANES, k=6)
    bad = numbers._replace(x=spoil(np.zeros((6, 2 * LANES))))
    with pytest.raises(TypeError, match="contiguous"):
        Table(bad, lanes=True)


@pytest.mark.parametrize("k", [0, 1, 3])
def test_lanes_are_aligned(k):
    numbers = zeros_of(Numbers, lanes=LANES, k=k)
    for array in (numbers.x, numbers.out):
        assert array.shape[-1] == LANES
        assert array.flags.c_contiguous
        assert not array.any()
        assert array.size == 0 or array.ctypes.data % (8 * LANES) == 0
