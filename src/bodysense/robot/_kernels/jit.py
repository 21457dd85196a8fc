"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

# A kernel is typed by numba when it is called, so it is any callable to Python's type checker;
# the functions that call it from Python are typed.
Kernel = Callable[..., Any]
_compile: Callable[..., Callable[[Kernel], Kernel]] = njit

# Multiplications and additions may be contracted, which is faster and more exact. Division by
# zero gives infinity, as in numpy, instead of a check before each division.
_FAST: dict[str, Any] = {"cache": True, "error_model": "numpy", "fastmath": {"contract"}}


def inlined(function: Kernel) -> Kernel:
    """Compile a step function: inlined into its caller and without reference counting.

    It must not allocate. Counting references to arrays that the caller owns anyway costs more
    than the arithmetic between two counts, and the compiler cannot always remove it.
    """
    return _compile(forceinline=True, _nrt=False, **_FAST)(function)


def allocating(function: Kernel) -> Kernel:
    """Compile a function that makes the working memory of one thread."""
    return _compile(cache=True)(function)


def uncached(function: Kernel) -> Kernel:
    """Compile a function of the user's, for this process only."""
    return _compile()(function)


def entry(function: Kernel) -> Kernel:
    """Compile what Python calls: it makes each thread's memory and loops over runs or samples."""
    return _compile(parallel=True, **_FAST)(function)
