"""`CausalFilter`: one low-pass for all signals of a stream, with their rates and a stated delay.

Signals that enter one estimate must be late by the same time. Each passes the same filter of second
order, whose states are the rates that a source does not have:

    x_f'' = ω² (x - x_f) - 2 ζ ω x_f',     x_f / x = ω² / (s² + 2 ζ ω s + ω²)

by the trapezoidal rule, whatever the steps are. Slow signals come out late by 2 ζ / ω.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import Array

_DAMPING = math.sqrt(0.5)
"""ζ of the flattest response (Butterworth): -3 dB at the cut-off."""
_SETTLED = 10.0
"""Times 1/ω: after these exp(-ζ ω t) = 1e-3 is left of what the filter started with."""
_FORGOTTEN = 2.0
"""Times 1/ω for which a signal may be missing before its filter starts anew."""


class Filtered(NamedTuple):
    """Signals (n,), their rates and the rates of these; NaN where they are not known."""

    value: Array
    rate: Array
    second: Array


class CausalFilter:
    """Filters n signals, sample by sample.

    Attributes:
        cutoff: where the amplitude is down by 3 dB [Hz].
        delay: by which slow signals are late [s].
        ready: (n,) times from which on the signals have settled [s].
    """

    def __init__(self, size: int, cutoff: float) -> None:
        """Start without any sample; `size` is n, `cutoff` in Hz."""
        if not (math.isfinite(cutoff) and cutoff > 0.0):
            raise ShapeError(f"the cut-off is {cutoff:g} Hz: give a positive one.")
        self.cutoff = cutoff
        self._omega = 2.0 * math.pi * cutoff
        self.delay = 2.0 * _DAMPING / self._omega
        self._value, self._rate, self._input = np.zeros((3, size))
        self.ready = np.full(size, np.inf)
        self._last = np.full(size, -np.inf)  # times of the last values
        self._t = math.nan

    def restart(self) -> None:
        """Forget all samples, as after a gap."""
        self._t = math.nan
        self._last[:] = -np.inf

    def step(self, t: float, x: Array) -> Filtered:
        """Filter the signals (n,) of time `t` [s]; NaN is a value that did not come."""
        w, damping = self._omega, 2.0 * _DAMPING * self._omega
        there = ~np.isnan(x)
        fresh = there & (t - self._last > _FORGOTTEN / w)
        u = np.where(there, x, self._input)
        if not math.isnan(self._t):
            k = 0.5 * (t - self._t)
            drive = k * w * w * (self._input + u - 2.0 * self._value)
            after = (1.0 - k * damping - (k * w) ** 2) * self._rate + drive
            after /= 1.0 + k * damping + (k * w) ** 2
            self._value += k * (self._rate + after)
            self._rate = after
        if fresh.any():
            self._value[fresh], self._rate[fresh] = x[fresh], 0.0
            self.ready[fresh] = t + _SETTLED / w
        self._last[there] = t
        self._input, self._t = u, t
        second = w * w * (u - self._value) - damping * self._rate
        known = there & (t >= self.ready)
        return Filtered(*(np.where(known, s, np.nan) for s in (self._value, self._rate, second)))
