"""A short and smooth version of the samples, for checks that need velocities and accelerations.

Positions and torques pass the same filter, so that what it takes from the one it takes from the
other: averages of 10 ms, then a Gaussian of 20 ms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bodysense.identification.doctor.samples import Samples
from bodysense.spatial.arrays import Array

_STEP = 0.01  # s: 100 Hz shows all that an arm does
_SIGMA = 2.0  # steps
_LEAST = 30  # steps in a piece
# Checks of units need thousands of samples, not a day of them.
_MOST = 20_000


class Condensed(NamedTuple):
    """Even, smooth samples of all pieces, one after the other.

    Attributes:
        q: (n, n_joints) positions.
        v: (n, n_joints) velocities, from positions.
        a: (n, n_joints) accelerations, from positions.
        tau: (n, n_joints) torques.
        v_recorded: (n, n_joints) velocities as recorded, if they were.
    """

    q: Array
    v: Array
    a: Array
    tau: Array
    v_recorded: Array | None

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.q.shape[0])


def condensed(samples: Samples) -> Condensed:
    """Average, resample, smooth and differentiate; pieces that are too short are left out."""
    width = max(_STEP, samples.period)
    blocks = [values for _, values in samples.blocks]
    parts: list[list[Array]] = []
    for part in samples.slices():
        found = _even(samples.t[part], [values[part] for values in blocks], width)
        if found is not None:
            q = found[0]
            v = np.gradient(q, width, axis=0)
            a = np.gradient(v, width, axis=0)
            parts.append([q, v, a, *found[1:]])
    if not parts:
        empty = np.zeros((0, len(samples.joint_names)))
        return Condensed(empty, empty, empty, empty, None if samples.v is None else empty)
    whole = [np.concatenate(group) for group in zip(*parts, strict=True)]
    every = 1 + whole[0].shape[0] // _MOST
    whole = [np.ascontiguousarray(values[::every]) for values in whole]
    q, v, a, tau = whole[:4]
    return Condensed(q, v, a, tau, whole[4] if len(whole) > 4 else None)


def _even(t: Array, blocks: list[Array], width: float) -> list[Array] | None:
    """The blocks at even times `width` apart, smoothed; nothing where that is impossible."""
    from scipy.ndimage import gaussian_filter1d

    if t.size < _LEAST or not np.isfinite(width):
        return None
    place = np.floor((t - t[0]) / width)
    # A piece has no long gaps: more steps than samples by far are no time axis.
    if not place[-1] < 10.0 * t.size or place[-1] < _LEAST:
        return None
    first = np.concatenate([[0], np.flatnonzero(np.diff(place)) + 1])
    count = np.diff(np.append(first, t.size))
    # From the first time, for sums of large times would lose the small steps.
    mean = np.add.reduceat(t - t[0], first) / count
    even = np.arange(mean[0], mean[-1], width)
    if even.size < _LEAST:
        return None
    results = []
    for values in blocks:
        columns = np.add.reduceat(values, first, axis=0) / count[:, np.newaxis]
        grid = np.stack([np.interp(even, mean, x) for x in columns.T], axis=1)
        results.append(gaussian_filter1d(grid, _SIGMA, axis=0, mode="nearest"))
    # The ends lean on values that are not there.
    inner = slice(int(2 * _SIGMA), even.size - int(2 * _SIGMA))
    return [values[inner] for values in results]
