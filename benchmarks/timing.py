"""Interleaved timing: the sides of a comparison take turns, so that other load hits them all."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numba


@dataclass(frozen=True)
class Timings:
    """Seconds of each side, round by round.

    Attributes:
        seconds: for each side, its time in every round.
    """

    seconds: Mapping[str, tuple[float, ...]]

    def best(self, side: str) -> float:
        """Shortest time of a side: other load only ever adds."""
        return min(self.seconds[side])

    def paired_ratio(self, slow: str, fast: str) -> float:
        """Median over the rounds of slow over fast: a check on the ratio of the best times."""
        rounds = zip(self.seconds[slow], self.seconds[fast], strict=True)
        return statistics.median(a / b for a, b in rounds)


def interleaved(sides: Mapping[str, Callable[[], object]], repeat: int) -> Timings:
    """Time every side `repeat` times in turns, after one round that is not counted.

    The order rotates from round to round, so that no side always meets the caches that the same
    other one leaves. What a call returns is freed after the clock has been read.
    """
    for function in sides.values():
        function()
    names = list(sides)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for k in range(repeat):
        turn = k % len(names)
        for name in names[turn:] + names[:turn]:
            seconds[name].append(_once(sides[name]))
    return Timings({name: tuple(values) for name, values in seconds.items()})


def _once(function: Callable[[], object]) -> float:
    collecting = gc.isenabled()
    gc.disable()
    try:
        start = time.perf_counter()
        kept = function()
        seconds = time.perf_counter() - start
    finally:
        if collecting:
            gc.enable()
    del kept
    return seconds


def all_threads() -> int:
    """Return how many threads numba may use."""
    return int(vars(numba.config)["NUMBA_NUM_THREADS"])


@contextmanager
def numba_threads(n: int) -> Iterator[None]:
    """Run a block on n numba threads, or as many as there are."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(n, all_threads()))
    try:
        yield
    finally:
        numba.set_num_threads(before)


def on_threads(n: int, function: Callable[[], object]) -> Callable[[], object]:
    """Return the function, bound to run on n numba threads."""

    def bound() -> object:
        with numba_threads(n):
            return function()

    return bound
