"""Parts and entries: what is left of numba after its compiler was changed for them."""

from __future__ import annotations

import gc
import math

import numpy as np
import pytest
from numba import njit

from bodysense.compiled import numba_internals
from bodysense.compiled.jit import called, inlined, threaded
from bodysense.compiled.numba_internals import errors


@inlined
def square(x):
    return x * x


@called
def add_squares(x, total):
    for k in range(x.size):
        total += square(x[k])
    return total


@threaded
def length(x):
    return math.sqrt(add_squares(x, 0.0))


@threaded
def length_in_three_calls(x):
    return math.sqrt(add_squares(x, 0.0) + add_squares(x, 1.0) - add_squares(x, 2.0) + 1.0)


def test_entries_compute_what_their_parts_do():
    x = np.array([3.0, 4.0])
    assert length(x) == 5.0
    assert length_in_three_calls(x) == 5.0


def test_a_part_is_compiled_once_for_all_numbers_in_calls():
    njit(length_in_three_calls.py_func)(np.ones(2))  # not from the cache
    assert len(add_squares.signatures) == 1
    assert len(square.signatures) == 1


def test_python_cannot_call_a_part():
    with pytest.raises(TypeError, match="add_squares is a part of kernels"):
        add_squares(np.ones(2), 0.0)


def test_numba_is_left_as_it_was():
    message, collecting = errors.termcolor().errmsg("bad"), gc.isenabled()
    threaded(lambda x: x + 1.0)(2.0)
    assert errors.termcolor().errmsg("bad") == message
    assert gc.isenabled() is collecting
    assert njit(lambda x: [x])(1.0) == [1.0]  # its own pipeline still counts references


def test_numba_is_left_as_it_was_after_a_failure():
    message = errors.termcolor().errmsg("bad")
    with pytest.raises(errors.TypingError):
        threaded(lambda x: x.nothing)(2.0)
    assert errors.termcolor().errmsg("bad") == message
    assert gc.isenabled()


@pytest.mark.parametrize("version", ["0.61.2", "0.70.0rc1", "1.0.0"])
def test_other_numbas_are_refused(version):
    with pytest.raises(ImportError, match=r"install 'numba>=0\.62,<0\.70'"):
        numba_internals._check_version(version)


@pytest.mark.parametrize("version", ["0.62.0", "0.69.1rc1"])
def test_numbas_that_are_tested_pass(version):
    numba_internals._check_version(version)
