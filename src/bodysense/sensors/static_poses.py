"""Poses of a log in which a robot stands still, for calibrations by gravity alone."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import Array, as_array

STILL = 0.002  # rad: how far joints may move within a pose
POSE = 0.5  # s that a pose lasts at least
_SETTLED = 0.1  # s that are left out at both ends of a pose
_BLOCK = 0.25  # s that are averaged of a slow motion
_LEAST_POSES = 4  # below, a recording counts as a slow motion


class StaticPoses(NamedTuple):
    """Averages over N poses: positions q (N, n_joints) and readings (N, 6)."""

    q: Array
    readings: Array


def static_poses(t: ArrayLike, q: ArrayLike, readings: ArrayLike) -> StaticPoses:
    """Averages of the readings (T, 6) at times t (T,) [s] where joints q (T, n_joints) stand.

    Where a recording has fewer than four poses of half a second, it counts as a slow motion, and
    averages of a quarter of a second come back.
    """
    t = as_array(t, (None,), "t")
    q = as_array(q, (t.size, None), "q")
    y = np.asarray(readings, dtype=np.float64)
    if y.shape != (t.size, 6):
        raise ShapeError(f"readings have shape {y.shape}, expected {(t.size, 6)}.")
    first, bounds = 0, []
    for k in range(1, t.size + 1):  # the longest runs that stay near where they began
        if k == t.size or np.abs(q[k] - q[first]).max() > STILL:
            if t[k - 1] - t[first] >= POSE:
                inner = np.searchsorted(t, [t[first] + _SETTLED, t[k - 1] - _SETTLED])
                bounds.append((int(inner[0]), int(inner[1])))
            first = k
    if len(bounds) < _LEAST_POSES:
        edges = np.searchsorted(t, np.arange(t[0], t[-1], _BLOCK)).tolist() if t.size else []
        bounds = [(a, b) for a, b in pairwise(edges) if b > a]
    good = np.flatnonzero(np.isfinite(y).all(axis=1))
    rows = [good[(good >= a) & (good < b)] for a, b in bounds]
    rows = [r for r in rows if r.size]
    n = len(rows)
    return StaticPoses(
        np.array([q[r].mean(axis=0) for r in rows]).reshape(n, q.shape[1]),
        np.array([y[r].mean(axis=0) for r in rows]).reshape(n, 6),
    )
