"""Which moments are solved side by side: those with the same readings present."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bodysense.robot._kernels.lanes import LANES
from bodysense.spatial.arrays import Array


def side_by_side(y: Array, first: NDArray[np.int64]) -> NDArray[np.int64]:
    """(G, LANES) moments, every one of T in some group; a group that is short repeats its last.

    Args:
        y: (T, m) readings; not finite where there is none.
        first: (blocks + 1,) first row of each block of readings, which is there as a whole.
    """
    finite = np.isfinite(y)
    if finite.all():
        return _in_groups(np.arange(len(y)))
    present = np.logical_and.reduceat(finite, first[:-1], axis=1)
    _, pattern = np.unique(np.packbits(present, axis=1), axis=0, return_inverse=True)
    order = np.argsort(pattern, kind="stable")
    changes = np.flatnonzero(np.diff(pattern[order])) + 1
    return np.concatenate([_in_groups(part) for part in np.split(order, changes)])


def _in_groups(moments: NDArray[np.int64]) -> NDArray[np.int64]:
    short = -len(moments) % LANES
    return np.append(moments, np.repeat(moments[-1:], short)).reshape(-1, LANES)
