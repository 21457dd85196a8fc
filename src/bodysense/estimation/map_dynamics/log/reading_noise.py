"""`ReadingNoise`: noise of filtered readings, for means over any number of samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bodysense.logs.filtering import (
    differentiate,
    lowpass,
)
from bodysense.spatial.arrays import Array

_LONG = 4.0  # periods of the cut-off after which the filter has forgotten an impulse


@dataclass(frozen=True, eq=False)
class ReadingNoise:
    """Noise of the readings that an estimate of a log has, by sensor, in its stated deviations.

    Attributes:
        rate: samples per second [Hz].
        cutoff: of the filter [Hz].
        white: by sensor, standard deviation before the filter of what the filter makes less.
        lasting: by sensor, (T,) that of what stays as it is.
        sigma_q: (n,) white noise of positions [rad or m].
        standing: (T, n) where joints stand, whose friction may be anything up to the static one.
        second: sensors whose readings are second derivatives of positions; their `white` is that
            of the positions [rad or m], in stated deviations of the accelerations.
        plain: sensors whose readings are not filtered.
    """

    rate: float
    cutoff: float
    white: Mapping[str, float]
    lasting: Mapping[str, Array]
    sigma_q: Array
    standing: NDArray[np.bool_] | Array
    second: frozenset[str] = frozenset()
    plain: frozenset[str] = frozenset()
    _gains: dict[tuple[int, int, int], float] = field(default_factory=dict, repr=False)

    def scale(self, window: int = 1, step: int = 1) -> dict[str, Array]:
        """By sensor, (T,) noise of means over so many samples, over its stated deviation.

        The samples of a mean are `step` apart.
        """
        result = {}
        for name, lasting in self.lasting.items():
            order = 2 if name in self.second else 0
            gain = 1.0 if name in self.plain else self.gain(order, window, step)
            if name in self.plain and window > 1:
                gain = 1.0 / np.sqrt(window)
            result[name] = np.sqrt((gain * self.white[name]) ** 2 + lasting**2)
        return result

    def gain(self, derivatives: int, window: int = 1, step: int = 1) -> float:
        """|h| of the filter with so many derivatives and a mean over samples, per white noise."""
        key = derivatives, window, step
        if key not in self._gains:
            self._gains[key] = filter_gain(self.rate, self.cutoff, derivatives, window, step)
        return self._gains[key]

    def with_lasting(self, more: Mapping[str, Array]) -> ReadingNoise:
        """Noise of which more lasts: (T,) by sensor, in stated deviations."""
        lasting = {name: np.hypot(x, more.get(name, 0.0)) for name, x in self.lasting.items()}
        return replace(self, lasting=lasting)

    def part(self, which: slice | NDArray[np.int64]) -> ReadingNoise:
        """Of some samples."""
        lasting = {name: x[which] for name, x in self.lasting.items()}
        return replace(self, lasting=lasting, standing=self.standing[which])


def filter_gain(
    rate: float, cutoff: float, derivatives: int, window: int = 1, step: int = 1
) -> float:
    """|h| of the filter, of this derivative of it, of means over `window` samples `step` apart."""
    x = impulse_response(rate, cutoff)[:, None]
    for _ in range(derivatives):
        x = differentiate(x, rate)
    mean = np.zeros((window - 1) * step + 1)
    mean[::step] = 1.0 / window
    return float(np.linalg.norm(np.convolve(x[:, 0], mean)))


def impulse_response(rate: float, cutoff: float) -> Array:
    """Impulse response of the filter, with its peak in the middle."""
    half = int(np.ceil(_LONG * rate / cutoff))
    x = np.zeros((2 * half + 1, 1))
    x[half] = 1.0
    return lowpass(x, rate, cutoff)[:, 0]
