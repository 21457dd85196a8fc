"""A straight axis of a drawing: where numbers stand, and which of them are marked."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_ROOM = 0.08  # of the range, beyond the outermost values


@dataclass(frozen=True)
class Axis:
    """Numbers from `low` to `high` stand from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: Iterable[float], start: float, end: float) -> Axis:
        """The axis that shows all finite values, with some room."""
        finite = [float(value) for value in values if math.isfinite(value)]
        low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
        room = _ROOM * (high - low) or 0.1 * abs(high) or 1.0
        return cls(low - room, high + room, start, end)

    def place(self, value: float) -> float:
        """Where a number stands; beyond the axis at its ends."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + (self.end - self.start) * min(max(share, 0.0), 1.0), 1)

    def ticks(self, most: int = 6) -> tuple[tuple[float, str], ...]:
        """Places and labels of round numbers."""
        step = round_step((self.high - self.low) / most)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return tuple(
            (self.place(k * step), f"{k * step:.{digits}f}".replace("-", "\N{MINUS SIGN}"))
            for k in range(first, last + 1)
        )


def round_step(rough: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not smaller."""
    power = 10.0 ** math.floor(math.log10(rough))
    return float(power * next(f for f in (1.0, 2.0, 5.0, 10.0) if f * power >= rough * (1 - 1e-9)))
