"""What bandwidth a recording has: of its motion, of what its encoders show, and of scores.

Scores and the choice of the cut-off compare torques below one frequency, the *reference bandwidth*.
It depends on the recorded positions alone, so that no setting can make a score look better:

    B = min(25 f_motion, f_visible, 0.2 · sampling rate)

- `f_motion`: 95 % of the positions' power lie below it, weighted by frequency. By itself, power
  shows slow drifts only; weighted by the square, as the power of speeds is, it shows the vibration
  of a loop that answers the noise of its encoders.
- `f_visible`: where noise and loss of the accelerations are in balance.

Both count the joints that move; over them `f_motion` is the median.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import welch

from bodysense.logs.filtering import LEAST_RANGE, resample
from bodysense.logs.log import Log
from bodysense.spatial.arrays import Array

_HIGHEST_CUTOFF = 0.2  # of the sampling rate: what finite differences can follow
_MOTION_SHARE = 0.95  # of the power that makes the bandwidth of a motion
_HARMONICS = 25.0  # of the motion's bandwidth that count: friction reverses, torques multiply
_MOVING_RANGE = 10.0 * LEAST_RANGE  # rad or m from which a joint's motion has a bandwidth
_CLEAR = 10.0  # power over that of the noise of what is motion: noise alone has it in 5e-5
_NOISE_BAND = (0.3, 0.475)  # of the sampling rate, where nothing moves
_NOISE_SAMPLES = 1024  # of a piece in which noise is looked at
_LEAST_SAMPLES = 64  # of a piece whose spectrum tells anything


@dataclass(frozen=True)
class Bandwidth:
    """Frequencies [Hz] that positions of a recording show.

    Attributes:
        motion: of the motion; NaN if no joint moves.
        visible: up to which accelerations are more than noise; infinite without noise.
        rate: highest sampling rate of its pieces.
    """

    motion: float
    visible: float
    rate: float

    @property
    def limit(self) -> float:
        """Highest cut-off that the sampling rate allows [Hz]."""
        return _HIGHEST_CUTOFF * self.rate

    @property
    def reference(self) -> float:
        """Reference bandwidth of scores [Hz]."""
        return float(np.nanmin((_HARMONICS * self.motion, self.visible, self.limit)))

    @classmethod
    def of(cls, pieces: Sequence[Sequence[Log]]) -> Bandwidth:
        """Of the clean pieces of all logs together."""
        motion, visible, rate = [], [], 0.0
        for piece in (piece for log in pieces for piece in log):
            if piece.t.size > 1:
                rate = max(rate, (piece.t.size - 1) / float(piece.t[-1] - piece.t[0]))
        for q, own in _moving_positions(pieces):
            motion += _motion_bandwidths(q, own)
            visible.append(_visible_bandwidth(*_accelerations(q, own)))
        return cls(
            float(np.median(motion)) if motion else np.nan,
            float(np.median(visible)) if visible else np.inf,
            rate,
        )


def _motion_bandwidths(q: Array, rate: float) -> list[float]:
    """Of each joint of positions (n_t, n) whose motion is more than noise."""
    window = np.hanning(q.shape[0])[:, None]
    power = np.abs(np.fft.rfft((q - q.mean(axis=0)) * window, axis=0)) ** 2
    f = np.fft.rfftfreq(q.shape[0], 1.0 / rate)
    # Lines of a spectrum are exponentially distributed: their median is log 2 of their mean.
    noise = np.median(power[_noise_lines(f, rate)], axis=0) / np.log(2.0)
    below = f < _NOISE_BAND[0] * rate
    clear = np.where(below[:, None] & (power > _CLEAR * noise), power - noise, 0.0)
    share = np.cumsum(clear * f[:, None], axis=0)
    moving = share[-1] > 0.0
    places = (share[:, moving] < _MOTION_SHARE * share[-1, moving]).sum(axis=0)
    return [float(f[k]) for k in places]


def noise_share(pieces: Sequence[Sequence[Log]], cutoff: float) -> float:
    """How much noise of positions a cut-off [Hz] lets into accelerations, in shares of these.

    Median of the joints that move, of mean squares; zero if none does. It is by so much that
    inertias come out too small.
    """
    shares: list[float] = []
    for q, rate in _moving_positions(pieces):
        f, signal, noise = _accelerations(q, rate)
        true = signal[f <= _visible_bandwidth(f, signal, noise)].sum(axis=0)
        let_in = noise[f <= cutoff].sum(axis=0)
        shares += (let_in / np.maximum(true, np.finfo(float).tiny)).tolist()
    return float(np.median(shares)) if shares else 0.0


def _moving_positions(pieces: Sequence[Sequence[Log]]) -> Iterator[tuple[Array, float]]:
    """Of each piece that is long enough, positions (n_t, n) of joints that move, and their rate."""
    for piece in (piece for log in pieces for piece in log):
        if piece.t.size < 2:
            continue
        even, rate = resample(piece)
        names = [name for name in even.channels if name.startswith("q.")]
        moving = [name for name in names if np.ptp(even.channels[name]) > _MOVING_RANGE]
        if moving and even.t.size >= _LEAST_SAMPLES:
            yield np.stack([even.channels[name] for name in moving], axis=1), rate


def _accelerations(q: Array, rate: float) -> tuple[Array, Array, Array]:
    """Frequencies (k,) and spectra (k, n) of accelerations and of their noise, from positions.

    The noise of positions is taken to be white, at the level of the highest frequencies.
    """
    length = max(_LEAST_SAMPLES, 2 ** int(np.log2(q.shape[0] / 4)))
    # Piece by piece: motion that leaks into high frequencies would hide the noise.
    f, S = welch(  # type: ignore[call-overload]  # the stubs misspell "linear"
        q, rate, "blackmanharris", length, detrend="linear", axis=0
    )
    noise = np.median(S[_noise_lines(f, rate)], axis=0)
    to_acceleration = ((2.0 * np.pi * f) ** 4)[:, None]
    return f, np.maximum(S - noise, 0.0) * to_acceleration, noise * to_acceleration


def _visible_bandwidth(f: Array, signal: Array, noise: Array) -> float:
    """Up to where accelerations show, from their spectra (k, n); infinite without noise.

    A cut-off f lets noise of density N into the accelerations, ∫_0^f N (2πf)⁴ df, and takes away
    what of the signal lies above it; their sum, as a share of the signal and averaged over the
    joints, has a minimum.
    """
    if not (noise > 0.0).any():
        return np.inf
    lost, let_in = np.cumsum(signal[::-1], axis=0)[::-1], np.cumsum(noise, axis=0)
    cost = ((lost + let_in) / np.maximum(lost[0], np.finfo(float).tiny)).mean(axis=1)
    return float(f[max(1, cost.argmin())])


def _noise_lines(f: NDArray[np.floating], rate: float) -> NDArray[np.bool_]:
    """Lines of a spectrum in which nothing but noise is expected."""
    lines: NDArray[np.bool_] = (f > _NOISE_BAND[0] * rate) & (f < _NOISE_BAND[1] * rate)
    return lines


def white_noise(x: Array, rate: float) -> Array:
    """(n,) standard deviations of the white noise of evenly sampled signals (n_t, n).

    At the level of the highest frequencies; NaN where there are too few samples to tell.
    """
    if x.shape[0] < 2 * _LEAST_SAMPLES:
        return np.full(x.shape[1], np.nan)
    # Short pieces and their median: a jump, as of a push, is in a few of them.
    length = int(np.clip(2 ** int(np.log2(x.shape[0] / 16)), _LEAST_SAMPLES, _NOISE_SAMPLES))
    f, S = welch(  # type: ignore[call-overload]  # the stubs misspell "linear"
        x, rate, "blackmanharris", length, detrend="linear", axis=0, average="median"
    )
    density: Array = np.median(S[_noise_lines(f, rate)], axis=0)
    return np.sqrt(0.5 * rate * density)
