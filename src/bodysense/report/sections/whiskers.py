"""Small drawings of a value with its error bar, one a table row, all to the same scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bodysense.spatial.arrays import Array

WIDTH = 220.0
"""Of a drawing, in its own units."""

_LINEAR = 0.1  # changes below are shown in proportion, larger ones ever more compressed
_SMALLEST, _LARGEST = 1.5, 100.0  # range of an axis
_MARKS = (0.1, 1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Whisker:
    """Places along a drawing: a value and the ends of its bar; `outside` if the value is beyond."""

    at: float
    low: float
    high: float
    outside: bool


@dataclass(frozen=True)
class WhiskerScale:
    """An axis from -most to most that compresses large numbers: x ∝ asinh(u / 0.1)."""

    most: float

    @classmethod
    def of(cls, values: Array, reach: Array) -> WhiskerScale:
        """The axis that shows these values (n,) with half the bars (n,)."""
        far = np.abs(values) + np.minimum(reach, 2.0)
        far = far[np.isfinite(far)]
        largest = float(far.max()) if far.size else 0.0
        return cls(min(max(1.1 * largest, _SMALLEST), _LARGEST))

    def place(self, value: float) -> float:
        """Where a value stands, from 0 to `WIDTH`; values beyond the axis at its ends."""
        share = np.arcsinh(value / _LINEAR) / np.arcsinh(self.most / _LINEAR)
        return round(0.5 * WIDTH * (1.0 + float(np.clip(share, -1.0, 1.0))), 1)

    @property
    def marks(self) -> tuple[tuple[float, str], ...]:
        """Places and labels of the axis."""
        # Labels need room: from each other, and from the ends.
        near, far = 0.5 * WIDTH + 14.0, WIDTH - 10.0
        inside = [m for m in _MARKS if near < self.place(m) < far]
        values = [-m for m in reversed(inside)] + [0.0] + inside
        return tuple((self.place(v), f"{v:g}".replace("-", "\N{MINUS SIGN}")) for v in values)

    @property
    def plausible(self) -> tuple[float, float]:
        """Where -1 and 1 stand."""
        return self.place(-1.0), self.place(1.0)

    def whisker(self, value: float, reach: float) -> Whisker:
        """A value with its bar; something not finite stands in the middle with the longest bar."""
        if not np.isfinite(value):
            return Whisker(self.place(0.0), 0.0, WIDTH, True)
        reach = reach if np.isfinite(reach) else 2.0 * self.most
        return Whisker(
            self.place(value),
            self.place(value - reach),
            self.place(value + reach),
            abs(value) > self.most,
        )
