"""Which samples are solved side by side: those with the same readings present."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.compiled.lanes import LANES
from bodysense.spatial.arrays import Array

_FEW = 2  # samples that take as long one by one as side by side
_MANY = 0.1  # of all samples: of so many it counts, and is worth another kernel to compile


class Groups(NamedTuple):
    """T samples, every one of them in one place.

    Attributes:
        together: (G, LANES) samples with the same readings present; a short group repeats its last.
        alone: samples that are better solved one by one.
    """

    together: NDArray[np.int64]
    alone: NDArray[np.int64]

    @classmethod
    def of(cls, y: Array, first: NDArray[np.int64]) -> Groups:
        """Sort samples by what is present.

        Args:
            y: (T, m) readings; not finite where there is none.
            first: (blocks + 1,) first row of each block of readings, which is there as a whole.
        """
        finite = np.isfinite(y)
        parts = [np.arange(len(y))]
        if not finite.all():
            present = np.logical_and.reduceat(finite, first[:-1], axis=1)
            _, pattern = np.unique(np.packbits(present, axis=1), axis=0, return_inverse=True)
            order = np.argsort(pattern, kind="stable")
            parts = np.split(order, np.flatnonzero(np.diff(pattern[order])) + 1)
        rest = [len(part) % LANES for part in parts]
        rest = [count if count <= _FEW else 0 for count in rest]
        if sum(rest) <= _MANY * len(y):
            rest = [0] * len(parts)
        cuts = [np.split(part, [len(part) - k]) for part, k in zip(parts, rest, strict=True)]
        return cls(
            np.concatenate([_in_rows(whole) for whole, _ in cuts]),
            np.concatenate([few for _, few in cuts]),
        )


def _in_rows(samples: NDArray[np.int64]) -> NDArray[np.int64]:
    short = -len(samples) % LANES
    return np.append(samples, np.repeat(samples[-1:], short)).reshape(-1, LANES)
