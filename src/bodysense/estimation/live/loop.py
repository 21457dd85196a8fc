"""`estimate_live`: from a source to its results, until one of them ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bodysense.errors import count
from bodysense.estimation.live.contacts import described
from bodysense.estimation.live.estimator import LiveEstimator
from bodysense.files import plain
from bodysense.logs.live import ResultWriter, StreamReader

_SILENT = 1.0  # s without a sample that are worth a note, and
_SILENT_AT_FIRST = 5.0  # s before the first one
_WAIT = 0.05  # s after which the loop looks at clocks and signals
_LISTED = 20  # contacts in a summary
_STATUS = 10.0  # s between two lines of status


@dataclass(frozen=True)
class LiveRun:
    """What came of a live stream.

    Attributes:
        robot: its name.
        source: where samples came from.
        sink: where results went.
        ended: why it ended.
        duration: from the first sample to the last, by the clock of this machine [s].
        samples: that came.
        results: that were written.
        withheld: samples that gave no result, by reason.
        dropped: messages that the estimator was too slow for, the oldest of those that waited.
        dropped_results: results that their reader was too slow for.
        lag: from the arrival of a sample to its result being written: median, p99, largest [s];
            NaN without results.
        delay: of the filter that all signals passed [s]; 0 without one.
        cutoff: of that filter [Hz], or `None`.
        clock_rate: how fast the clock of the source runs by ours; NaN if it was not observed.
        faults: how often what was wrong, by kind.
        messages: what was said of the first of each kind, with the remedy.
        counts: what the estimator counted.
        absent: by sensor, samples without a reading of it.
        health: by sensor that does not work as it should at the end, what is wrong.
        contacts: in order of time, the last thousand, with `until` [s]; see `OngoingContact`.
        contact_count: of all of them.
    """

    robot: str
    source: str
    sink: str
    ended: str
    duration: float
    samples: int
    results: int
    withheld: Mapping[str, int]
    dropped: int
    dropped_results: int
    lag: Mapping[str, float]
    delay: float
    cutoff: float | None
    clock_rate: float
    faults: Mapping[str, int]
    messages: Mapping[str, str]
    counts: Mapping[str, int]
    absent: Mapping[str, int]
    health: Mapping[str, str]
    contacts: Sequence[Mapping[str, Any]]
    contact_count: int

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; null where a number is not known."""
        table: dict[str, Any] = plain(vars(self))
        return table

    def summary(self) -> str:
        """All of it in lines."""
        lines = [
            f"{self.robot}, {self.source}: {count(self.samples, 'sample')} in "
            f"{self.duration:.4g} s, {count(self.results, 'result')} to {self.sink}; {self.ended}"
        ]
        if self.results:
            lag = {key: f"{1e3 * seconds:.3g} ms" for key, seconds in self.lag.items()}
            lines.append(
                f"lag from the arrival of a sample to its result: median {lag['median']}, p99 "
                f"{lag['p99']}, largest {lag['largest']}"
            )
        if self.cutoff is not None:
            lines.append(
                f"all signals passed a low-pass of {self.cutoff:.3g} Hz: estimates are late by "
                f"{1e3 * self.delay:.3g} ms"
            )
        lines.append(
            f"dropped: {count(self.dropped, 'message')} that the estimator was too slow for, "
            f"{count(self.dropped_results, 'result')} that their reader was too slow for"
        )
        lines += [f"without a result: {n} {reason}" for reason, n in self.withheld.items()]
        lines += [f"{key}: {n}" for key, n in (*self.faults.items(), *self.counts.items())]
        lines += [f"without a reading of {sensor}: {n}" for sensor, n in self.absent.items()]
        lines += [f"{sensor} {words}" for sensor, words in self.health.items()]
        lines.append(f"{count(self.contact_count, 'contact')}")
        lines += [described(contact) for contact in self.contacts[-_LISTED:]]
        return "\n".join(lines)


def estimate_live(
    estimator: LiveEstimator,
    reader: StreamReader,
    writer: ResultWriter,
    *,
    timeout: float | None = None,
    stop: threading.Event | None = None,
    status: Callable[[str], None] | None = None,
) -> LiveRun:
    """Estimate until the source ends, nobody reads results any more, or it is to stop.

    Args:
        estimator: it compiled what it needs, so that the first samples need not wait.
        reader: of the source, not started yet.
        writer: of results, not started yet.
        timeout: s without a sample after which to end; `None` waits for ever.
        stop: set by others to end.
        status: takes a line about lag and drops every ten seconds.

    Raises:
        BodysenseError: the source cannot be read, e.g. as its address is not of this machine.
    """
    loop = _Loop(estimator, reader, writer, timeout, stop or threading.Event(), status)
    writer.start()
    reader.start()
    try:
        ended = loop.run()
    finally:
        reader.stop()
        writer.close()
    if reader.error is not None:
        raise reader.error
    return loop.result(ended)


class _Loop:
    def __init__(
        self,
        estimator: LiveEstimator,
        reader: StreamReader,
        writer: ResultWriter,
        timeout: float | None,
        stop: threading.Event,
        status: Callable[[str], None] | None,
    ) -> None:
        self.estimator, self.reader, self.writer = estimator, reader, writer
        self._timeout, self._stop, self._status = timeout, stop, status
        self._began = self._last = self._told = time.perf_counter()
        self._first: float | None = None
        self._silent = False

    def run(self) -> str:
        """Take messages until it ends; returns why."""
        queue, estimator, put = self.reader.queue, self.estimator, self.writer.put
        source, samples = self.reader.source, 0
        while not self._stop.is_set():
            arrival = queue.take(_WAIT)
            if arrival is None and queue.closed:
                return "the source ended"
            if arrival is not None:
                estimator.clock.live = source.live
                result = estimator.step(arrival)
                if result is not None:
                    put(result)
                if estimator.samples > samples:
                    samples = estimator.samples
                    self._heard()
            if self.writer.finished:
                return "nobody reads results any more"
            if self._quiet():
                return f"no sample came for {self._timeout:g} s"
            self._report()
        return "interrupted"

    def _heard(self) -> None:
        self._last = time.perf_counter()
        self._first = self._first or self._last
        if self._silent:
            self.estimator.faults.say("samples come again")
            self._silent = False

    def _quiet(self) -> bool:
        """Whether no sample has come for as long as the timeout; longer silence is said."""
        waited = time.perf_counter() - self._last
        if not self._silent and waited > (_SILENT_AT_FIRST if self._first is None else _SILENT):
            self._silent = True
            faults, name = self.estimator.faults, self.reader.source.name
            text = f"no sample from {name} for {waited:.2g} s: waiting for more" + (
                "; end with Ctrl-C, or give --timeout" if self._timeout is None else ""
            )
            if self._first is None:
                faults.say(text)
            else:
                faults.report("pauses of the stream", text)
        return self._timeout is not None and waited > self._timeout

    def _report(self) -> None:
        now = time.perf_counter()
        if self._status is None or now - self._told < _STATUS:
            return
        self._told = now
        lags = self.writer.lags
        self._status(
            f"{self.estimator.samples} samples, {self.writer.written} results; lag: median "
            f"{1e3 * lags.quantile(0.5):.3g} ms, p99 {1e3 * lags.quantile(0.99):.3g} ms; dropped: "
            f"{self.reader.queue.dropped} messages, {self.writer.dropped} results"
        )

    def result(self, ended: str) -> LiveRun:
        """The run so far."""
        estimator, lags = self.estimator, self.writer.lags
        estimator.attend()
        return LiveRun(
            robot=estimator.problem.robot.name,
            source=self.reader.source.name,
            sink=self.writer.sink.name,
            ended=ended,
            duration=0.0 if self._first is None else self._last - self._first,
            samples=estimator.samples,
            results=self.writer.written,
            withheld=estimator.withheld,
            dropped=self.reader.queue.dropped,
            dropped_results=self.writer.dropped,
            lag={
                "median": lags.quantile(0.5),
                "p99": lags.quantile(0.99),
                "largest": lags.largest if lags.count else float("nan"),
            },
            delay=estimator.delay,
            cutoff=estimator.cutoff,
            clock_rate=estimator.clock.rate,
            faults=estimator.faults.counts,
            messages=estimator.faults.messages,
            counts=estimator.counts,
            absent=estimator.absent,
            health=estimator.health,
            contacts=estimator.contacts.all(),
            contact_count=len(estimator.contacts),
        )
