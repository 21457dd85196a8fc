"""`LearnedInflation`: how large chi² of windows is where nothing touches, learned as a stream goes.

Noise is seldom exactly what is stated, errors of a model last. While nothing touches, the mean of
chi² / freedom over N samples of a window over w of them is an estimate of the inflation that is
itself random: with nu degrees of freedom, overlapping windows counted for what they tell,

    s² = mean(chi² / k),      chi² / (k s²) ~ F(k, nu),      nu = 1.5 k N / w.

An alarm is a chi² beyond what F exceeds with the probability that the rate of false alarms allows:
so it holds however short the time of learning was, at the price of a larger force. N stays finite,
so that what is older than the memory is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, chdtri

from bodysense.estimation.contact.detector import WINDOWS
from bodysense.spatial.arrays import Array

_OVERLAP = 1.5  # independent windows in N of them that overlap, over N / w: 1 / Σ ρ² of their means
_WHOLE = 2.0  # windows one behind the other after which one of this length may alarm
_FRESH = 1.2  # growth of the number of samples after which limits are computed anew
_AXES = 6
_EXACT = 1e7  # degrees of freedom from which F is chi²
_MOST = 1e6


class LearnedInflation:
    """Of all windows of some links.

    Attributes:
        inflation: (W, L) at least 1.
        limit: (W, 7) chi² over inflation of an alarm, by degrees of freedom.
        release: (W, 7) that below which a contact is over.
        ready: (W,) windows of which enough is known.
    """

    def __init__(
        self,
        links: tuple[str, ...],
        surprises: tuple[float, float],
        memory: float,
        known: Mapping[str, float] | Mapping[tuple[str, int], float] | None,
    ) -> None:
        """Start.

        Args:
            links: their names.
            surprises: of an alarm, and below which a contact is over.
            memory: samples after which what was learned is forgotten.
            known: inflation by link, or by link and window; `None`: it is to be learned.
        """
        self._surprises, self._memory = surprises, memory
        shape = len(WINDOWS), len(links)
        self._mean, self._count = np.ones(shape), np.zeros(len(WINDOWS))
        if known is not None:
            table = dict(known)
            for w, window in enumerate(WINDOWS):
                for k, link in enumerate(links):
                    self._mean[w, k] = table.get((link, window), table.get(link, 1.0))  # type: ignore[call-overload]
            self._count[:] = 2.0 * memory
        self._renew()

    def forget(self) -> None:
        """Learn anew."""
        self._mean[:], self._count[:] = 1.0, 0.0
        self._renew()

    def take(self, square: Array, freedom: NDArray[np.int64], whole: NDArray[np.bool_]) -> None:
        """Learn from chi² (W, L) where nothing touches, of windows that are whole (W,)."""
        if not whole.any():
            return
        self._count[whole] = np.minimum(self._count[whole] + 1.0, 2.0 * self._memory)
        share = 1.0 / np.minimum(np.maximum(self._count, 1.0), self._memory)
        says = (freedom > 0) & whole[:, None]
        change = square / np.maximum(freedom, 1) - self._mean
        self._mean += np.where(says, share[:, None] * change, 0.0)
        np.clip(self._mean, 1.0, _MOST, out=self.inflation)
        if (self._count > _FRESH * self._told).any():
            self._renew()

    def _renew(self) -> None:
        self._told = self._count.copy()
        self.inflation = np.clip(self._mean, 1.0, _MOST)
        windows = np.array(WINDOWS, dtype=np.float64)
        self.ready = self._count >= _WHOLE * windows
        k = np.arange(1.0, _AXES + 1.0)
        nu = np.maximum(_OVERLAP * k * (self._count / windows)[:, None], 1.0)
        self.limit, self.release = (
            np.concatenate([np.full((windows.size, 1), np.inf), _exceeded(s, k, nu)], axis=1)
            for s in self._surprises
        )


def _exceeded(surprise: float, k: Array, nu: Array) -> Array:
    """Give k times what F(k, nu) exceeds with the probability exp(-surprise)."""
    p = np.exp(-surprise)
    share = betaincinv(0.5 * nu, 0.5 * k, p)
    with np.errstate(divide="ignore"):
        square = nu * (1.0 - share) / share
    return np.where(nu < _EXACT, square, chdtri(k, p))
