"""`ResultWriter`: results go to their readers in a thread of its own, which nobody waits for.

Where readers are too slow, the oldest results are dropped and counted. The lag of a result is the
time from the arrival of its sample to the return of the call that wrote it.
"""

from __future__ import annotations

import json
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bodysense.errors import BodysenseError
from bodysense.logs.live.faults import StreamFaults
from bodysense.logs.live.queue import DroppingQueue
from bodysense.logs.live.source import POLL

QUEUE = 1000
"""Results that wait for their readers, a second at 1 kHz."""

_CLOSING = 2.0
"""s for which the last results wait for a reader that does not take them."""

_DIGITS = 7  # of a number: a tenth of a millionth, far below any uncertainty
_FINEST, _COARSEST, _WIDTH = 1e-6, 1e3, 1.01  # s, s and ratio of bins of lags


class LiveResult(NamedTuple):
    """Estimates at a sample.

    Attributes:
        t: time of the sample [s].
        arrived: when it came, by `time.perf_counter` [s].
        values: (2 k,) mean and standard deviation of each column, alternating.
        absent: sensors without a reading.
        notes: what the estimator said of this sample.
        contacts: that the robot is in, ready for JSON.
    """

    t: float
    arrived: float
    values: Sequence[float]
    absent: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    contacts: tuple[Mapping[str, Any], ...] = ()


class Sink(ABC):
    """Takes results.

    Attributes:
        name: what the user calls it.
        faults: that count what goes wrong.
    """

    def __init__(self, name: str, faults: StreamFaults) -> None:
        self.name, self.faults = name, faults

    @abstractmethod
    def open(self, columns: Sequence[str]) -> None:
        """Get ready for results with values of these columns, as estimates.parquet names them.

        Raises:
            BodysenseError: it cannot take any.
        """

    @abstractmethod
    def write(self, results: Sequence[LiveResult]) -> int | None:
        """Write results, in their order; how many were, `None` if nobody will ever read more.

        It may take its time, but returns soon once `interrupt` was called.
        """

    def interrupt(self) -> None:  # noqa: B027
        """Let a `write` that waits for its reader return."""

    @abstractmethod
    def close(self) -> None:
        """Complete what was written."""


class ResultLines:
    """Results as lines of JSON: t, then each column and its standard deviation, `<column>.std`."""

    def __init__(self, columns: Sequence[str]) -> None:
        names = [name for column in columns for name in (column, f"{column}.std")]
        fields = (json.dumps(name).replace("%", "%%") + f": %.{_DIGITS}g" for name in names)
        self._form = ", ".join(('{"t": %.9f', *fields))

    def line(self, result: LiveResult) -> str:
        """One line, without its end."""
        text = self._form % (result.t, *result.values)
        if result.absent:
            text += f', "absent": {json.dumps(result.absent)}'
        if result.notes:
            text += f', "notes": {json.dumps(result.notes)}'
        if result.contacts:
            text += f', "contacts": {json.dumps(result.contacts)}'
        return text + "}"


class Lags:
    """Counts of lags in bins of one per cent, from which quantiles come in bounded memory."""

    def __init__(self) -> None:
        size = 2 + math.ceil(math.log(_COARSEST / _FINEST) / math.log(_WIDTH))
        self._counts = np.zeros(size, dtype=np.int64)
        self.largest = 0.0

    def add(self, seconds: float) -> None:
        """Count a lag."""
        self.largest = max(self.largest, seconds)
        place = math.log(max(seconds, _FINEST) / _FINEST) / math.log(_WIDTH)
        self._counts[min(int(place), self._counts.size - 1)] += 1

    @property
    def count(self) -> int:
        return int(self._counts.sum())

    def quantile(self, share: float) -> float:
        """Lag that this share of all does not exceed, to one per cent [s]; NaN without any."""
        if not self.count:
            return math.nan
        place = int(np.searchsorted(np.cumsum(self._counts), share * self.count))
        return float(min(_FINEST * _WIDTH ** (place + 1), self.largest))


class ResultWriter:
    """Writes results in a thread.

    Attributes:
        sink: where they go.
        written: how many were.
        lags: of these.
        finished: whether nobody will ever read more.
    """

    def __init__(self, sink: Sink, columns: Sequence[str], size: int = QUEUE) -> None:
        """Open the sink; `size` results wait at most."""
        sink.open(columns)
        self.sink = sink
        self.written = 0
        self.lags = Lags()
        self.finished = False
        self._queue: DroppingQueue[LiveResult] = DroppingQueue(size)
        self._thread = threading.Thread(target=self._write, name="results", daemon=True)

    @property
    def dropped(self) -> int:
        """Results that nobody took in time."""
        return self._queue.dropped

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(self, result: LiveResult) -> None:
        """Hand over a result; the oldest one is dropped if too many wait."""
        self._queue.put(result)

    def close(self) -> None:
        """Write what waits and complete the sink; who takes nothing is not waited for."""
        self._queue.close()
        if self._thread.ident is not None:
            self._thread.join(_CLOSING)
        if self._thread.is_alive():
            self.sink.interrupt()
            self._thread.join(_CLOSING)
        self._queue.dropped += len(self._queue)
        self.sink.close()

    def _write(self) -> None:
        queue = self._queue
        try:
            while not self.finished:
                results = queue.take_all(POLL)
                if not results and queue.closed:
                    return
                if not results:
                    continue
                written = self.sink.write(results)
                now = time.perf_counter()
                self.finished = written is None
                self.written += written or 0
                queue.dropped += len(results) - (written or 0)
                for result in results[: written or 0]:
                    self.lags.add(now - result.arrived)
        except (BodysenseError, OSError) as error:
            self.finished = True
            self.sink.faults.report("results that were not written", f"{self.sink.name}: {error}")
