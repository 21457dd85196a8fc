"""`SensorHealth`: which sensors of a stream were good and stopped being so.

| status       | what was seen                                                          |
|--------------|------------------------------------------------------------------------|
| ok           | nothing unusual                                                        |
| silent       | no reading so far                                                      |
| dead         | none for half a second, and for 20 samples                             |
| stuck        | the very same reading for half a second, while most others change      |
| dropping out | one reading in ten is missing of late                               |
| spiking      | one reading in twenty is an outlier of late                            |
| drifted      | residuals are more than three times as large as its noise of late      |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bodysense.estimation.map_dynamics.gating import Gate

_LONG = 0.5  # s after which a sensor is dead or stuck
_LEAST = 20  # samples of that, at least
_ABSENT = 0.1  # share of readings that are missing
_OFTEN = 0.05  # share of readings that are outliers
_LARGE = 3.0  # times the standard deviation of its noise: root mean square of residuals of late
_BACK = 0.7  # of these limits, below which a sensor is well again
_OTHERS = 0.5  # share of the other sensors that must change for one to be stuck

STATUSES = ("ok", "silent", "dead", "stuck", "dropping out", "spiking", "drifted")


@dataclass(frozen=True)
class SensorHealth:
    """Of one sensor.

    Attributes:
        name: of the sensor.
        status: one of `STATUSES`.
        words: what was seen, for people.
        absent: share of readings that are missing of late.
        outliers: of all its readings so far.
        ratio: root mean square of its residuals of late, over the standard deviation of its noise.
    """

    name: str
    status: str
    words: str
    absent: float
    outliers: int
    ratio: float


class HealthWatch:
    """Follows the sensors of one stream through the eyes of its gate."""

    def __init__(self, names: tuple[str, ...], gate: Gate) -> None:
        self._names, self._gate = names, gate
        self._status = np.ones(len(names), dtype=np.int64)
        self._judged = gate.channels.constant == 0
        self._status[~self._judged] = 0
        self._period = 0.0

    def follow(self, period: float) -> tuple[str, ...]:
        """Look at all sensors now and then; notes about those that fail or work again.

        `period` [s] is that of the samples.
        """
        self._period = period
        status = self._now()
        changed = np.flatnonzero(status != self._status)
        if not changed.size:
            return ()
        before, self._status = self._status, status
        return tuple(
            f"{self._names[k]}: {self.of(int(k)).words}"
            for k in changed
            if status[k] > 1 or before[k] > 1
        )

    def all(self) -> dict[str, SensorHealth]:
        """By name of the sensor."""
        return {name: self.of(k) for k, name in enumerate(self._names)}

    def of(self, k: int) -> SensorHealth:
        """Health of the k-th sensor."""
        w, status = self._gate.watch, STATUSES[self._status[k]]
        seconds = self._period * max(w.missing_run[k], w.same_run[k])
        words = {
            "ok": "works",
            "silent": "has given no reading so far",
            "dead": f"has given no reading for {seconds:.1f} s",
            "stuck": f"has read exactly the same for {seconds:.1f} s while others change",
            "dropping out": f"{w.absent[k]:.0%} of its readings are missing",
            "spiking": f"{w.outlying[k]:.0%} of its readings are outliers",
            "drifted": f"its residuals are {np.sqrt(w.ratio[k]):.1f} times its noise: calibrate "
            "it, or give it a bias or more noise",
        }[status]
        return SensorHealth(
            self._names[k],
            status,
            words,
            float(w.absent[k]),
            int(w.outliers[k]),
            float(np.sqrt(w.ratio[k])),
        )

    def _now(self) -> NDArray[np.int64]:
        w, before = self._gate.watch, self._status
        long = max(_LEAST, _LONG / self._period) if self._period else np.inf
        ease = np.where(before > 1, _BACK, 1.0)
        warm = w.steps >= _LEAST
        status = np.zeros_like(before)
        status[warm & (w.ratio > (ease * _LARGE) ** 2)] = 6
        status[warm & (w.outlying > ease * _OFTEN)] = 5
        status[warm & (w.absent > ease * _ABSENT)] = 4
        still = w.same_run > long
        if still.any():
            judged = max(1, int(np.count_nonzero(self._judged)) - 1)
            moving = np.count_nonzero((w.same_run == 0) & (w.missing == 0) & self._judged)
            if moving >= _OTHERS * judged and moving > 0:
                status[still] = 3
        status[w.missing_run > long] = 2
        status[w.steps == 0] = 1
        status[~self._judged] = 0
        return status
