"""Recordings with uneven time, put on an even grid."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import make_interp_spline

from bodysense.errors import ShapeError
from bodysense.signals.log import Log
from bodysense.spatial.arrays import Array

_SMOOTH = ("q", "v", "q_des")
"""Quantities that are smooth in time: interpolated by a cubic. Torques and the rest may jump."""

_EVEN = 1e-3
"""Largest deviation from an even grid, in sampling periods, that is left as it is."""


def is_even(t: Array) -> bool:
    """Whether times (n_t,) lie on an even grid, up to the rounding of their digits."""
    if t.size < 3:
        return True
    grid = np.linspace(t[0], t[-1], t.size)
    return bool(np.abs(t - grid).max() <= _EVEN * (t[-1] - t[0]) / (t.size - 1))


def resample(log: Log, rate: float | None = None) -> tuple[Log, float]:
    """Put a log on an even grid; one that is even already stays as it is.

    Positions, velocities and references are interpolated by a cubic spline through the samples,
    everything else by straight lines. Nothing is filtered here: choose a rate close to the log's
    own, and decimate afterwards.

    Args:
        log: with at least two samples.
        rate: of the grid [Hz]; the log's mean rate if not given.

    Returns:
        The log on the grid and its rate [Hz].
    """
    t = log.t
    if t.size < 2:
        raise ShapeError(f"a log of {t.size} samples has no rate: at least two are needed.")
    own = float((t.size - 1) / (t[-1] - t[0]))
    if rate is None or abs(rate / own - 1.0) < 1e-9:
        if is_even(t):
            return log, own
        rate = own
    if not 0.0 < rate < np.inf:
        raise ShapeError(f"the rate is {rate:g} Hz: give a positive one.")
    n_t = int(np.floor((t[-1] - t[0]) * rate * (1.0 + 1e-12))) + 1
    grid = np.minimum(t[0] + np.arange(n_t) / rate, t[-1])
    channels = {}
    for name, values in log.channels.items():
        if name.partition(".")[0] in _SMOOTH and t.size > 3:
            channels[name] = make_interp_spline(t, values, k=3)(grid)
        else:
            channels[name] = np.interp(grid, t, values)
    return Log.of(grid, channels, log.units), rate
