"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from numba import get_num_threads, njit

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


def uncached(function: Kernel, *, boundscheck: bool = False) -> Kernel:
    """Compile a function of the user's, for this process only."""
    return _compile(boundscheck=boundscheck)(function)


def entry(function: Kernel) -> Kernel:
    """Compile what Python calls, parallel over samples: it makes the memory of each thread."""
    return _compile(parallel=True, **_FAST)(function)


def threaded(function: Kernel) -> Kernel:
    """Compile what Python calls for a range of runs, without its lock: see `in_threads`.

    A parallel loop would compile the whole simulation once more, for which users would wait.
    """
    return _compile(nogil=True, **_FAST)(function)


def in_threads(kernel: Kernel, runs: int, *arguments: object) -> None:
    """Call ``kernel(first, last, *arguments)`` for shares of the runs on numba's threads."""
    shares = min(runs, get_num_threads())
    ends = [runs * k // shares for k in range(shares + 1)]
    if shares == 1:
        kernel(0, runs, *arguments)
        return
    with ThreadPoolExecutor(shares) as pool:
        jobs = [pool.submit(kernel, a, b, *arguments) for a, b in pairwise(ends)]
        for job in jobs:
            job.result()
