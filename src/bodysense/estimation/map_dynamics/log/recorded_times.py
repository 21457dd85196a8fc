"""Which rows of a recording can be used, and where it is interrupted."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bodysense.spatial.arrays import Array

Mask = NDArray[np.bool_]

BRIDGE = 0.1
"""s: positions that are missing for less are interpolated, and longer pauses interrupt a recording:
within a tenth of a second an arm can hardly begin something new."""

_PAUSE = 5.0  # usual periods that make a pause as well
_STRAY = 10.0  # spans of nearly all times, beyond which a time belongs to another age


def usable_times(t: Array) -> tuple[Mask, dict[str, int]]:
    """(n_t,) rows whose times are numbers and ascend, and how many do not, by reason."""
    finite = np.isfinite(t)
    stray = ~finite
    if finite.any():
        low, middle, high = np.percentile(t[finite], (1.0, 50.0, 99.0))
        reach = _STRAY * (high - low) + 1.0
        stray = ~finite | (np.abs(np.where(finite, t, middle) - middle) > reach)
    best = np.maximum.accumulate(np.where(stray, -np.inf, t))
    before = np.concatenate([[-np.inf], best[:-1]])
    late = ~stray & (t <= before)
    counts = {"with times that are none": int(stray.sum()), "late or repeated": int(late.sum())}
    return ~(stray | late), counts


def bridged(t: Array, q: Array, kept: Mask) -> tuple[Array, Mask]:
    """Positions (n_t, n) with short gaps interpolated, and kept rows (n_t,) that still lack one."""
    full, holes = q.copy(), np.zeros(t.size, dtype=bool)
    for j in range(q.shape[1]):
        good = np.flatnonzero(kept & np.isfinite(q[:, j]))
        bad = np.flatnonzero(kept & ~np.isfinite(q[:, j]))
        if not bad.size:
            continue
        after = np.searchsorted(good, bad)
        inside = (after > 0) & (after < good.size)
        left = good[np.clip(after - 1, 0, max(good.size - 1, 0))] if good.size else bad
        right = good[np.clip(after, 0, max(good.size - 1, 0))] if good.size else bad
        short = inside & (t[right] - t[left] <= BRIDGE)
        if short.any():
            full[bad[short], j] = np.interp(t[bad[short]], t[good], q[good, j])
        holes[bad[~short]] = True
    return full, holes


def pieces(t: Array) -> list[slice]:
    """Stretches of times (n,) without a pause."""
    if t.size < 2:
        return []
    steps = np.diff(t)
    pause = max(BRIDGE, _PAUSE * float(np.median(steps)))
    edges = np.flatnonzero(steps > pause) + 1
    return [slice(a, b) for a, b in pairwise([0, *edges.tolist(), t.size])]
