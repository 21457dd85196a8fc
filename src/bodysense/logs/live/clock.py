"""`StreamClock`: whether the times of a stream can be right, beside those at which it arrives."""

from __future__ import annotations

import math
from typing import Literal

from bodysense.logs.live.faults import StreamFaults

_JUMP = 1.0  # s by which a clock that was set differs at once; less is delay
_BACK = 10  # samples in a row before the latest one after which the clock was set back
_GAP = 5.0  # usual steps, and
_SHORTEST_GAP = 0.02  # s, beyond which samples are missing
_FOLLOW = 0.05  # share of a new step in the usual one
_KNOWN = 20  # samples after which the usual step is known
_SLOW = 0.5  # s: no recording is worth reading with larger steps, but milliseconds look so
_COARSE = 0.09  # s: the same beside arrivals, which say more
_APART = 100.0  # by which times and arrivals differ where units do
_SEEN = 0.2  # s of arrivals, shorter than which are bursts
_WINDOW = 1.0  # s, over which the least delay is taken, and
_OBSERVED = 30.0  # s, after which that of two windows says how fast a clock runs
_DRIFT = 1e-3  # s/s, more than which no clock of a computer drifts

_UNIT = "time in another unit"

Verdict = Literal["next", "gap", "restart", "late"]


class StreamClock:
    """Holds the time of each sample against that before and against its arrival.

    Attributes:
        live: whether samples arrive when they are measured, and not as a recording is read.
        usual: the usual step between samples [s]; 0 before the second one.
        rate: how fast the clock of the source runs by that of this machine; NaN if unknown.
    """

    def __init__(self, faults: StreamFaults) -> None:
        """Start before the first sample; what is wrong is reported to `faults`."""
        self.live = True
        self.usual = 0.0
        self.rate = math.nan
        self._faults = faults
        self._t = self._arrived = math.nan
        self._steps = self._back = 0
        self._began = (math.nan, math.nan)
        self._judged = False
        self._offsets = _LeastDelay()

    @property
    def known(self) -> bool:
        """Whether enough samples have come to know the usual step."""
        return self._steps >= _KNOWN

    def judge(self, t: float, arrived: float) -> Verdict:
        """What a sample is: the next one, one after a gap or a jump of the clock, or too late."""
        step, waited = t - self._t, arrived - self._arrived
        if math.isnan(step):
            self._began = (t, arrived)
            return self._take(t, arrived, "next")
        if step <= 0.0:
            return self._backwards(t, arrived, step)
        self._back = 0
        verdict: Verdict = "next"
        if self._steps >= _KNOWN and step > max(_GAP * self.usual, _SHORTEST_GAP):
            verdict = "gap"
            self._say_gap(step, waited)
        else:
            first = self._steps == 0
            near = step if first else min(max(step, 0.5 * self.usual), 2.0 * self.usual)
            self.usual += (1.0 if first else _FOLLOW) * (near - self.usual)
            self._steps += 1
        if self._steps >= _KNOWN and self.usual > _COARSE and not self._judged:
            self._judge_unit(t, arrived)
        if self.live:
            self._observe(t, arrived)
        return self._take(t, arrived, verdict)

    def _take(self, t: float, arrived: float, verdict: Verdict) -> Verdict:
        self._t, self._arrived = t, arrived
        return verdict

    def _backwards(self, t: float, arrived: float, step: float) -> Verdict:
        self._back += step < 0.0
        if step < -_JUMP or self._back >= _BACK:
            self._faults.report(
                "clock set back",
                f"time goes back by {-step:.4g} s, to {t:.10g} s: estimation starts anew "
                "there. Is it one robot that sends, with one clock?",
            )
            self._back, self._began = 0, (t, arrived)
            self._offsets = _LeastDelay()
            return self._take(t, arrived, "restart")
        if step == 0.0:
            self._faults.report(
                "times repeated",
                f"two samples have the time {t:.10g} s. The second is left out: does the clock of "
                "the source stand, or are samples sent twice?",
            )
        else:
            self._faults.report(
                "late samples",
                f"a sample of {t:.10g} s comes after that of {self._t:.10g} s. Such samples are "
                "left out: send them in their order.",
            )
        return "late"

    def _say_gap(self, step: float, waited: float) -> None:
        if self.live and step - waited > _JUMP:
            self._offsets = _LeastDelay()
            self._faults.report(
                "clock jumped ahead",
                f"time goes on by {step:.4g} s within {max(waited, 0.0):.3g} s. Was the clock of "
                "the source set, or does another robot send?",
            )
            return
        self._faults.report(
            "gaps",
            f"{step:.3g} s between two samples, where {self.usual:.3g} s are usual: samples are "
            "missing, or the source paused.",
        )

    def _judge_unit(self, t: float, arrived: float) -> None:
        """Say that times are in milliseconds or less, if they are."""
        span, ratio, beside = arrived - self._began[1], 1e3, ""
        if self.live:
            if span < _SEEN:
                return
            ratio = (t - self._began[0]) / span
            beside = f", and they arrive every {self.usual / ratio:.2g} s"
        self._judged = True
        if ratio < _APART or (not self.live and self.usual < _SLOW):
            return
        unit = "ms" if ratio < 3e4 else "us" if ratio < 3e7 else "ns"
        self._faults.report(
            _UNIT,
            f"samples are {self.usual:.4g} s apart by their times{beside}: are these in {unit}? "
            f"Send seconds, or give a layout file with `time: {{unit: {unit}}}` (--layout).",
        )

    def _observe(self, t: float, arrived: float) -> None:
        rate = self._offsets.add(t, arrived)
        if rate is None:
            return
        self.rate = rate
        if abs(rate - 1.0) > _DRIFT and not self._faults[_UNIT]:
            self._faults.report(
                "clock drifts",
                f"the clock of the source runs {rate:.5g} times as fast as that of this machine: "
                "velocities and accelerations are wrong by as much, if it is the source's. Is a "
                "recording replayed, or the time counted in steps of a loop that is slower?",
            )


class _LeastDelay:
    """How fast a clock runs, by the samples of each window that came with the least delay."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self._best: tuple[float, float] | None = None
        self._end = math.nan

    def add(self, t: float, arrived: float) -> float | None:
        """The rate whenever a window ends, if it is known by then."""
        if self._best is None:
            self._end = arrived + _WINDOW
        if self._best is None or arrived - t < self._best[1] - self._best[0]:
            self._best = (t, arrived)
        if arrived < self._end:
            return None
        best, self._best = self._best, None
        if self._first is None:
            self._first = best
        span = best[1] - self._first[1]
        return None if span < _OBSERVED else (best[0] - self._first[0]) / span
