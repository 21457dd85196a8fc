"""`Source`: where samples come from; `StreamReader` reads one in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from bodysense.errors import BodysenseError
from bodysense.logs.live.faults import StreamFaults, excerpt
from bodysense.logs.live.queue import Arrival, DroppingQueue

QUEUE = 1000
"""Messages that wait for the estimator, a second at 1 kHz: longer pauses cost the oldest ones."""

LONGEST = 2**20
"""Bytes of a line or message: more is no sample, and would fill the memory."""

POLL = 0.1
"""s after which threads look whether they are to stop."""

_JOIN = 1.0  # s that a thread has to end


class Source(ABC):
    """A stream of messages.

    Attributes:
        name: what the user calls it.
        faults: that count what is wrong with it.
        live: whether messages come as they are measured; a file's beginning does not.
    """

    def __init__(self, name: str, faults: StreamFaults) -> None:
        self.name, self.faults = name, faults
        self.live = True

    def prepare(self) -> None:  # noqa: B027
        """Find out what can go wrong before anything is read.

        Raises:
            BodysenseError: there can be no such source.
        """

    @abstractmethod
    def receive(self, queue: DroppingQueue[Arrival], stop: threading.Event) -> None:
        """Put messages into the queue until the stream ends, or is to stop."""

    def close(self) -> None:  # noqa: B027
        """Give back what `prepare` took."""


class StreamReader:
    """Reads a source in a thread, which the source never waits for.

    Attributes:
        source: that is read.
        queue: what arrived; closed when the stream has ended.
        error: why it ended, if it should not have.
    """

    def __init__(self, source: Source, size: int = QUEUE) -> None:
        """Prepare the source; `size` messages wait at most."""
        source.prepare()
        self.source = source
        self.queue: DroppingQueue[Arrival] = DroppingQueue(size)
        self.error: BodysenseError | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="source", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End reading; what waits in the queue stays there."""
        self._stop.set()
        self.queue.close()
        if self._thread.ident is not None:
            self._thread.join(_JOIN)
        self.source.close()

    def _read(self) -> None:
        try:
            self.source.receive(self.queue, self._stop)
        except BodysenseError as error:
            self.error = error
        except Exception as error:  # whatever arrives must not end the loop with a traceback
            self.source.faults.report(
                "sources that failed",
                f"reading {self.source.name} failed: {type(error).__name__} {error}; start again.",
            )
        finally:
            self.queue.close()


class LineSplitter:
    """Lines out of pieces of bytes; what is longer than a line may be is left out."""

    def __init__(self, faults: StreamFaults, longest: int = LONGEST) -> None:
        """Start at the beginning of a line."""
        self._faults, self._longest = faults, longest
        self._rest, self._skips = b"", False

    def split(self, piece: bytes) -> list[bytes]:
        """Lines that end in this piece, without their ends and without empty ones."""
        if self._skips:
            _, end, piece = piece.partition(b"\n")
            self._skips = not end
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > self._longest:
            self._refuse(self._rest)
            self._rest, self._skips = b"", True
        for k in [k for k, line in enumerate(lines) if len(line) > self._longest][::-1]:
            self._refuse(lines.pop(k))
        return [line for line in lines if line and not line.isspace()]

    def rest(self) -> list[bytes]:
        """What is left where the stream ends within a line."""
        rest, self._rest = self._rest, b""
        return [rest] if rest.strip() else []

    def _refuse(self, line: bytes) -> None:
        self._faults.report(
            "lines that are too long",
            f"a line is longer than {self._longest} bytes: {excerpt(line)!r}. Such lines are left "
            "out: end every sample with a line break.",
        )
