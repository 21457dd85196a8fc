"""Views: arrays behind an address are indexed, cut and measured as numpy's."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import pytest

from bodysense.compiled.jit import called, threaded
from bodysense.compiled.views import Integers, Table, flat, reader, rows_of, zeros_of
from bodysense.spatial.arrays import Array


class Bundle(NamedTuple):
    A: Annotated[Array, "rows", 3, 2]
    b: Annotated[Array, "rows + 1"]
    which: Annotated[Integers, "rows"]
    scale: float
    count: int


bundle_at = reader(Bundle)


@called
def total(x):
    result = 0.0
    for k in range(x.size):
        result += x[k]
    return result


@threaded
def measure(address, out):
    x = bundle_at(address)
    out[0] = x.A[1, 2, 1]
    out[1] = total(x.A[1, 2])
    out[2] = x.A[1][0][1]
    out[3] = total(flat(x.A[1:3]))
    out[4] = total(rows_of(x.A)[0])
    out[5] = x.A.shape[0] * 100 + x.A.shape[1] * 10 + x.A.shape[2]
    out[6] = x.A.size
    out[7] = x.b[x.which[0]] * x.scale
    out[8] = x.count
    out[9] = x.b[1:99].size


@threaded
def write(address):
    x = bundle_at(address)
    x.A[0, 1, 1] = 7.0
    x.A[1][2, 0] = 8.0
    x.b[2] = 9.0
    x.which[0] = 3


def bundle():
    rng = np.random.default_rng(0)
    return Bundle(rng.normal(size=(4, 3, 2)), rng.normal(size=5), np.array([2, 0, 1, 3]), 0.5, 11)


def test_views_read_as_arrays_do():
    x, out = bundle(), np.zeros(10)
    table = Table(x)
    measure(table.address, out)
    A, b = x.A, x.b
    expected = [A[1, 2, 1], A[1, 2].sum(), A[1, 0, 1], A[1:3].sum(), A[0].sum()]
    expected += [432, 24, b[2] * 0.5, 11, 4]
    np.testing.assert_allclose(out, expected, rtol=1e-14)


def test_views_write_where_arrays_do():
    x, y = bundle(), bundle()
    table = Table(x)
    write(table.address)
    y.A[0, 1, 1], y.A[1, 2, 0], y.b[2], y.which[0] = 7.0, 8.0, 9.0, 3
    for found, expected in zip(x, y, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "change",
    [
        {"A": np.zeros((4, 3))},
        {"A": np.zeros((4, 3, 2), dtype=np.float32)},
        {"A": np.zeros((4, 3, 4))[:, :, ::2]},
        {"which": np.zeros(4)},
    ],
)
def test_tables_refuse_arrays_that_are_not_as_declared(change):
    (name,) = change
    with pytest.raises(TypeError, match=f"{name} has .*: give"):
        Table(bundle()._replace(**change))


def test_zeros_have_the_declared_shapes():
    class Memory(NamedTuple):
        A: Annotated[Array, "rows", 3, "rows + 2"]
        which: Annotated[Integers, "rows"]

    memory = zeros_of(Memory, rows=4)
    assert memory.A.shape == (4, 3, 6)
    assert memory.which.shape == (4,)
    assert memory.which.dtype == np.int64
    assert not memory.A.any()
