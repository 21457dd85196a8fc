"""Sums over the windows of the detector, and how many tests windows of links amount to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bodysense.estimation.contact.detector import WINDOWS
from bodysense.spatial.arrays import Array

_ALONG = 0.66
"""Power of the number of links along a chain that so many independent tests amount to: alarms of
chi² of 1 to 6 degrees of freedom, each part of the next, at levels from 1e-2 to 1e-4."""


class WindowSums:
    """Sums over the last 2 … 32 of what is pushed, in memory of constant size."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._ring = np.zeros((WINDOWS[-1], *shape))
        self._sums = np.zeros((len(WINDOWS), *shape))
        self._place = 0
        self._back = np.array(WINDOWS)

    def push(self, x: Array, share: Array | float, out: Array) -> None:
        """Add the latest, drop the oldest; writes the sums (W, …), each times its share (W,)."""
        size, i = len(self._ring), self._place
        self._sums -= self._ring[(i - self._back) % size]
        self._sums += x
        self._ring[i] = x
        self._place = (i + 1) % size
        if self._place == 0:  # rounding errors do not add up
            for w, window in enumerate(WINDOWS):
                np.sum(self._ring[size - window :], axis=0, out=self._sums[w])
        factors = np.reshape(share, (-1,) + (1,) * x.ndim)
        np.multiply(self._sums, factors, out=out)


def count_tests(links: Sequence[str], names: Sequence[str], parent: Sequence[int]) -> float:
    """Independent tests that tests of all these links amount to, in a tree of bodies.

    What a link along a chain feels is a part of what the next one feels; links of different limbs
    feel different things. `parent` gives the place of the body before each, -1 for the root.
    """
    tested = [link in links for link in names]
    length, tests = [0.0] * len(names), float(len(set(links) - set(names)))
    reach = [int(x) for x in tested]  # tested links on the longest way down
    for k in range(len(names) - 1, 0, -1):
        p = parent[k]
        if p < 0:
            continue
        down = reach[k]
        if down > length[p]:
            tests += length[p] ** _ALONG
            length[p] = down
        else:
            tests += down**_ALONG
        reach[p] = int(length[p]) + tested[p]
    roots = [float(reach[k]) ** _ALONG for k, p in enumerate(parent) if p < 0]
    return float(tests + sum(roots))
