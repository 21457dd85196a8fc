"""Curves over time in little space: as 16-bit numbers, thinned by `logs.thinning`."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bodysense.logs.thinning import Stretches as Stretches
from bodysense.logs.thinning import drawable as drawable
from bodysense.spatial.arrays import Array

_LARGEST = 32767
_MISSING = -32768


def runs(mask: NDArray[np.bool_], starts: Sequence[int]) -> list[list[int]]:
    """First and last place of each run of true ones in (n,); runs end where pieces do."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8))) + 1
    cuts = sorted({0, *edges.tolist(), *starts, mask.size})
    return [[begin, end - 1] for begin, end in itertools.pairwise(cuts) if mask[begin]]


def float_bytes(values: Array) -> str:
    """Numbers as 32-bit floats, little end first, in base 64."""
    return base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")


@dataclass
class TracePool:
    """Encoded curves, each kept once: training and left-out blocks share what was measured.

    Attributes:
        traces: for each its middle, its step, and 16-bit multiples of the step in base 64;
            -32768 stands for nothing.
    """

    traces: list[tuple[float, float, str]] = field(default_factory=list)
    _places: dict[tuple[float, float, str], int] = field(default_factory=dict)

    def add(self, y: Array) -> int:
        """Keep a curve (n,) and return its number."""
        known = np.isfinite(y)
        low, high = (float(y[known].min()), float(y[known].max())) if known.any() else (0.0, 0.0)
        middle, step = 0.5 * (low + high), max(0.5 * (high - low), 1e-300) / _LARGEST
        scaled = np.where(known, np.rint((np.where(known, y, middle) - middle) / step), _MISSING)
        packed = np.clip(scaled, _MISSING, _LARGEST).astype("<i2").tobytes()
        trace = (middle, step, base64.b64encode(packed).decode("ascii"))
        if trace not in self._places:
            self._places[trace] = len(self.traces)
            self.traces.append(trace)
        return self._places[trace]
