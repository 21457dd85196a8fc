"""Zero-phase low-pass filters, differentiation and decimation of evenly sampled signals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import signal
from scipy.interpolate import make_interp_spline

from bodysense.errors import ShapeError
from bodysense.logs.log import Log
from bodysense.spatial.arrays import Array, as_array

# Coefficients of x[k+1] - x[k-1], x[k+2] - x[k-2], … by order of accuracy.
_CENTRAL = {2: (1 / 2,), 4: (2 / 3, -1 / 12), 6: (3 / 4, -3 / 20, 1 / 60)}


def lowpass(x: ArrayLike, rate: float, cutoff: float, *, order: int = 4) -> Array:
    """Butterworth low-pass, forward and backward: no phase, no delay.

    The gain at the cut-off is 1/2 (1/√2 for each of the two passes).

    Args:
        x: (n_t, n) evenly sampled signals.
        rate: samples per second [Hz].
        cutoff: Hz, below half the rate; infinite for no filter at all.
        order: of the filter in one direction.
    """
    values = as_array(x, (None, None), "x")
    if cutoff == np.inf:
        return values
    if not 0.0 < cutoff < 0.5 * rate:
        raise ShapeError(
            f"the cut-off is {cutoff:g} Hz: give one above zero and below half the sampling rate "
            f"({0.5 * rate:g} Hz)."
        )
    sections = signal.butter(order, cutoff, fs=rate, output="sos")
    # Ends are continued by an odd reflection over three time constants of the filter.
    pad = int(np.ceil(3.0 * rate / cutoff))
    if values.shape[0] < 2:
        return values
    filtered: Array = signal.sosfiltfilt(
        sections, values, axis=0, padlen=min(pad, values.shape[0] - 1)
    )
    return filtered


def differentiate(x: ArrayLike, rate: float, *, accuracy: int = 4) -> Array:
    """Central differences in time, no phase: (n_t, n) in x's units a second.

    Args:
        x: (n_t, n) evenly sampled signals.
        rate: samples per second [Hz].
        accuracy: order of the error in the sampling period: 2, 4 or 6. At a tenth of the rate the
            amplitude is 6.5, 0.5 and 0.04 % low. Towards the ends the order falls to two.
    """
    values = as_array(x, (None, None), "x")
    if accuracy not in _CENTRAL:
        raise ShapeError(f"accuracy is {accuracy}: give {', '.join(map(str, _CENTRAL))}.")
    if values.shape[0] < 2:
        return np.zeros_like(values)
    weights = _CENTRAL[accuracy]
    reach, n = len(weights), values.shape[0]
    slope: Array = np.gradient(values, 1.0 / rate, axis=0, edge_order=2 if n > 2 else 1)
    if n > 2 * reach:
        inner = np.zeros((n - 2 * reach, values.shape[1]))
        for k, weight in enumerate(weights, start=1):
            ahead, behind = values[reach + k : n - reach + k], values[reach - k : n - reach - k]
            inner += (weight * rate) * (ahead - behind)
        slope[reach : n - reach] = inner
    return slope


def fir_lowpass(rate: float, cutoff: float) -> Array:
    """Taps of a symmetric low-pass with a gain of 1/2 at the cut-off, for `decimate`.

    Three periods of the cut-off long, with a Kaiser window: below half the cut-off the gain is one,
    above 1.5 times zero, both within 1 %.
    """
    half = int(np.ceil(1.5 * rate / cutoff))
    taps: Array = signal.firwin(2 * half + 1, cutoff, fs=rate, window=("kaiser", 4.0))
    return taps


def decimate(x: Array, taps: Array, step: int) -> Array:
    """Filter (n_t, …) along the first axis and keep every `step`-th sample.

    Only samples that the filter covers in full come out: the first one stands for sample
    ``(len(taps) - 1) / 2``, and there are ``(n_t - len(taps)) // step + 1`` of them.
    """
    n_t, width = x.shape[0], taps.size
    n_out = (n_t - width) // step + 1 if n_t >= width else 0
    flat = x.reshape(n_t, math.prod(x.shape[1:]))
    out = np.empty((n_out, flat.shape[1]))
    # A band of the convolution matrix as a dense product, over outputs that share most inputs.
    together = max(1, min(n_out, width // (2 * step) + 1))
    band = np.zeros((together, (together - 1) * step + width))
    for k in range(together):
        band[k, k * step : k * step + width] = taps
    for first in range(0, n_out, together):
        m = min(together, n_out - first)
        reach = (m - 1) * step + width
        np.matmul(band[:m, :reach], flat[first * step :][:reach], out=out[first : first + m])
    return out.reshape(n_out, *x.shape[1:])


# Recordings with uneven time, put on an even grid.

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


# From recorded positions of joints to a smooth motion: positions, velocities, accelerations.
#
# Positions pass a low-pass filter without phase, and are then differentiated twice by central
# differences. A joint that does not move has no velocity: what its encoder shows is noise.

STILL_SPEED = 0.02
"""rad/s (or m/s): below it a joint counts as standing, …"""

_STILL_SHARE = 0.05
"""… or below this share of its r.m.s. speed: slow joints, such as fingers, move slowly."""

_NEVER = 1e-3  # rad/s or m/s: joints that are slower throughout do not move at all
LEAST_RANGE = 5e-3
"""rad or m: a joint that stays within this range stands. Its velocity is noise, which must not be
taken for motion: the less of it there is, the larger a friction it would stand for."""

LEAST_TRAVEL = 0.05
"""rad: a hinge that stays within this range in a recording is held there and gives way to what
the others do. Its friction is that of presliding, which tells nothing about motion."""


class SmoothMotion(NamedTuple):
    """Positions, velocities and accelerations (n_t, n), all of the same bandwidth."""

    q: Array
    v: Array
    a: Array


def smooth_motion(
    q: Array, rate: float, cutoff: float, *, order: int = 4, accuracy: int = 4
) -> SmoothMotion:
    """Filter evenly sampled positions (n_t, n) and differentiate them; standing joints stand.

    Args:
        q: positions as recorded.
        rate: samples per second [Hz].
        cutoff: of the low-pass [Hz]; see `usable_cutoff`.
        order: of the Butterworth filter in one direction.
        accuracy: order of the central differences.
    """
    smooth = lowpass(q, rate, cutoff, order=order)
    v = differentiate(smooth, rate, accuracy=accuracy)
    a = differentiate(v, rate, accuracy=accuracy)
    still = (np.ptp(smooth, axis=0) < LEAST_RANGE) | standing(v, STILL_SPEED).all(axis=0)
    v[:, still] = a[:, still] = 0.0
    return SmoothMotion(smooth, v, a)


def usable_cutoff(cutoff: float, rate: float) -> float:
    """The cut-off [Hz], or for a log of a low rate the highest that a filter can have there.

    An infinite one, which stands for no filter, stays.
    """
    return cutoff if cutoff == np.inf else min(cutoff, 0.45 * rate)


def slowest_motion(v: Array, still_speed: float) -> Array:
    """(n,) speeds from which joints with velocities v (n_t, n) count as moving."""
    rms = np.sqrt(np.mean(v**2, axis=0))
    return np.where(rms > _NEVER, np.minimum(still_speed, _STILL_SHARE * rms), still_speed)


def standing(v: Array, still_speed: float) -> NDArray[np.bool_]:
    """(n_t, n) where joints with velocities v (n_t, n) stand."""
    still: NDArray[np.bool_] = np.abs(v) < slowest_motion(v, still_speed)
    return still


# Curves over time with few points that keep every peak.
#
# A long recording is cut into stretches of equal length, and each is represented by its lowest and
# highest value in the order in which they occur: a curve drawn through them looks like the whole
# one. Curves of one recording share their stretches, hence their times.

_BEYOND_DRAWING = 1e12
"""A diverged prediction passes through such values: drawn, they would leave nothing else to see."""


@dataclass(frozen=True)
class Stretches:
    """How the samples of some pieces become points.

    Attributes:
        lengths: number of samples of each piece.
        width: samples in a stretch; 1 if every sample becomes a point.
    """

    lengths: tuple[int, ...]
    width: int

    @classmethod
    def of(cls, lengths: Sequence[int], most: int) -> Stretches:
        """Stretches that make about `most` points of pieces of these lengths."""
        total = sum(lengths)
        width = 1 if total <= most else -(-2 * total // most)
        return cls(tuple(lengths), width)

    @property
    def starts(self) -> list[int]:
        """Where among the points each piece begins."""
        sizes = [n if self.width == 1 else 2 * -(-n // self.width) for n in self.lengths]
        return list(itertools.accumulate(sizes[:-1], initial=0))

    def times(self, pieces: Sequence[Array]) -> Array:
        """Times of the points, of times (n_t,) of each piece."""
        if self.width == 1:
            return np.concatenate(pieces)
        points = []
        for t in pieces:
            first = np.arange(0, t.size, self.width)
            last = np.minimum(first + self.width, t.size) - 1
            # A quarter and three quarters into the stretch; the piece's ends stay where they are.
            early, late = 0.75 * t[first] + 0.25 * t[last], 0.25 * t[first] + 0.75 * t[last]
            early[0], late[-1] = t[0], t[-1]
            points.append(np.stack([early, late], axis=1).ravel())
        return np.concatenate(points)

    def values(self, pieces: Sequence[Array]) -> Array:
        """Points (n_points, n) of curves (n_t, n) of each piece; NaN where nothing can be drawn."""
        out = []
        for piece in pieces:
            y = drawable(piece)
            if self.width == 1:
                out.append(y)
                continue
            y = self._folded(y)
            nan = np.isnan(y)
            lowest = np.where(nan, np.inf, y).argmin(axis=1)
            highest = np.where(nan, -np.inf, y).argmax(axis=1)
            order = np.stack(
                [np.minimum(lowest, highest), np.maximum(lowest, highest)], axis=1
            )  # (m, 2, n)
            out.append(np.take_along_axis(y, order, axis=1).reshape(-1, y.shape[2]))
        return np.concatenate(out)

    def any(self, pieces: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """For each point, whether it holds anywhere in the stretch; (n_points, n)."""
        if self.width == 1:
            return np.concatenate(pieces)
        return np.concatenate([self._folded(p).any(axis=1).repeat(2, axis=0) for p in pieces])

    def _folded(self, y: NDArray[Any]) -> NDArray[Any]:
        """(n_t, n) as (m, width, n); the last sample is repeated to fill the last stretch."""
        m = -(-y.shape[0] // self.width)
        missing = m * self.width - y.shape[0]
        full = np.concatenate([y, np.repeat(y[-1:], missing, axis=0)])
        return full.reshape(m, self.width, -1)


def drawable(values: Array) -> Array:
    """The same with NaN where a value is not finite or absurdly large."""
    return np.where(np.abs(values) < _BEYOND_DRAWING, values, np.nan)
