"""Curves over time with few points that keep every peak.

A long recording is cut into stretches of equal length, and each is represented by its lowest and
highest value in the order in which they occur: a curve drawn through them looks like the whole one.
Curves of one recording share their stretches, hence their times.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bodysense.spatial.arrays import Array

_BEYOND_DRAWING = 1e12
"""A diverged prediction passes through such values: drawn, they would leave nothing else to see."""


@dataclass(frozen=True)
class Stretches:
    """How the samples of some pieces become points.

    Attributes:
        lengths: number of samples of each piece.
        width: samples in a stretch; 1 if every sample becomes a point.
    """

    lengths: tuple[int, ...]
    width: int

    @classmethod
    def of(cls, lengths: Sequence[int], most: int) -> Stretches:
        """Stretches that make about `most` points of pieces of these lengths."""
        total = sum(lengths)
        width = 1 if total <= most else -(-2 * total // most)
        return cls(tuple(lengths), width)

    @property
    def starts(self) -> list[int]:
        """Where among the points each piece begins."""
        sizes = [n if self.width == 1 else 2 * -(-n // self.width) for n in self.lengths]
        return list(itertools.accumulate(sizes[:-1], initial=0))

    def times(self, pieces: Sequence[Array]) -> Array:
        """Times of the points, of times (n_t,) of each piece."""
        if self.width == 1:
            return np.concatenate(pieces)
        points = []
        for t in pieces:
            first = np.arange(0, t.size, self.width)
            last = np.minimum(first + self.width, t.size) - 1
            # A quarter and three quarters into the stretch; the piece's ends stay where they are.
            early, late = 0.75 * t[first] + 0.25 * t[last], 0.25 * t[first] + 0.75 * t[last]
            early[0], late[-1] = t[0], t[-1]
            points.append(np.stack([early, late], axis=1).ravel())
        return np.concatenate(points)

    def values(self, pieces: Sequence[Array]) -> Array:
        """Points (n_points, n) of curves (n_t, n) of each piece; NaN where nothing can be drawn."""
        out = []
        for piece in pieces:
            y = drawable(piece)
            if self.width == 1:
                out.append(y)
                continue
            y = self._folded(y)
            nan = np.isnan(y)
            lowest = np.where(nan, np.inf, y).argmin(axis=1)
            highest = np.where(nan, -np.inf, y).argmax(axis=1)
            order = np.stack(
                [np.minimum(lowest, highest), np.maximum(lowest, highest)], axis=1
            )  # (m, 2, n)
            out.append(np.take_along_axis(y, order, axis=1).reshape(-1, y.shape[2]))
        return np.concatenate(out)

    def any(self, pieces: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """For each point, whether it holds anywhere in the stretch; (n_points, n)."""
        if self.width == 1:
            return np.concatenate(pieces)
        return np.concatenate([self._folded(p).any(axis=1).repeat(2, axis=0) for p in pieces])

    def _folded(self, y: NDArray[Any]) -> NDArray[Any]:
        """(n_t, n) as (m, width, n); the last sample is repeated to fill the last stretch."""
        m = -(-y.shape[0] // self.width)
        missing = m * self.width - y.shape[0]
        full = np.concatenate([y, np.repeat(y[-1:], missing, axis=0)])
        return full.reshape(m, self.width, -1)


def drawable(values: Array) -> Array:
    """The same with NaN where a value is not finite or absurdly large."""
    return np.where(np.abs(values) < _BEYOND_DRAWING, values, np.nan)
