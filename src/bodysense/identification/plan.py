"""How a motion becomes rows: which samples, filtered how, and in which fold each is held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import ShapeError
from bodysense.identification.preprocessing import Motion, Preprocessing
from bodysense.signals.filtering import decimate, fir_lowpass
from bodysense.spatial.arrays import Array

FOLDS = 3
_BLOCKS_A_FOLD = 6
_SHORTEST_BLOCK = 0.5  # s
_LENGTHS_A_BLOCK = 4.0

_OVERSAMPLING = 12.0  # times the cut-off: where regressors are computed


@dataclass(frozen=True, eq=False)
class Plan:
    """How a motion becomes rows: every `stride`-th sample, filtered by `taps`, every `step`-th.

    Attributes:
        stride: between the samples that are looked at.
        step: between rows, in such samples.
        taps: of the filter; one alone for none.
        n_out: number of rows.
    """

    stride: int
    step: int
    taps: Array
    n_out: int

    @classmethod
    def of(cls, motion: Motion, settings: Preprocessing) -> Plan:
        """The plan of a motion; settings with all choices made."""
        cutoff, band = settings.cutoff, settings.band
        if cutoff is None or band is None:
            raise ShapeError("the preprocessing is not settled: call settled(robot, cutoff) first.")
        n_t = motion.t.size
        if not settings.decimate:
            return cls(1, 1, np.ones(1), n_t)
        # Beyond some times the cut-off, samples repeat each other.
        stride = max(1, int(motion.rate / (_OVERSAMPLING * cutoff)))
        rate = motion.rate / stride
        n_t = -(-n_t // stride)
        band = min(band, 0.4 * rate)
        taps = fir_lowpass(rate, band)
        step = max(1, int(rate / (2.5 * band)))
        if n_t < taps.size + 4 * step:  # too short for the filter: all samples count as they are
            return cls(stride, 1, np.ones(1), n_t)
        return cls(stride, step, taps, (n_t - taps.size) // step + 1)

    def filtered(self, x: Array) -> Array:
        """Samples that are looked at (m, …) as the rows see them: filtered, every `step`-th."""
        return decimate(x, self.taps, self.step) if self.taps.size > 1 else np.array(x)


def fold_of(t: Array, filter_length: float = 0.0) -> NDArray[np.int64]:
    """(n_t,) fold of each time: blocks dealt out in turn.

    Blocks last at least half a second, and some lengths of the filter [s], whose window reaches
    from one block into the next.
    """
    span = float(t[-1] - t[0]) if t.size else 0.0
    block = max(_SHORTEST_BLOCK, _LENGTHS_A_BLOCK * filter_length, span / (FOLDS * _BLOCKS_A_FOLD))
    block = min(block, max(span / FOLDS, np.finfo(float).tiny))
    folds: NDArray[np.int64] = ((t - t[0]) / block + 1e-9).astype(np.int64) % FOLDS
    return folds
