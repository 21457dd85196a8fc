"""`LineSink`: results as lines of JSON on standard output."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Sequence

from bodysense.errors import FileWriteError
from bodysense.logs.live.faults import StreamFaults
from bodysense.logs.live.sink import LiveResult, ResultLines, Sink
from bodysense.logs.live.source import POLL


class LineSink(Sink):
    """Lines on a file descriptor, standard output unless given.

    Its reader may be slow, or go away.
    """

    def __init__(self, faults: StreamFaults, descriptor: int | None = None) -> None:
        super().__init__("standard output", faults)
        self._descriptor = descriptor
        self._interrupted = False
        self._rest = b""

    def open(self, columns: Sequence[str]) -> None:
        self._lines = ResultLines(columns)
        if self._descriptor is None:
            try:
                sys.stdout.flush()
                self._descriptor = sys.stdout.fileno()
            except (AttributeError, OSError, ValueError) as error:
                raise FileWriteError(
                    f"there is no standard output ({error}): write results with -o."
                ) from error

    def write(self, results: Sequence[LiveResult]) -> int | None:
        text = "".join(f"{self._lines.line(result)}\n" for result in results)
        self._rest = text.encode()
        try:
            while self._rest and not self._interrupted:
                self._write_some()
        except BrokenPipeError:
            self._rest = b""
            return None
        return None if self._interrupted else len(results)

    def _write_some(self) -> None:
        descriptor = self._descriptor
        if descriptor is None:
            return
        # A pipe that can take something takes PIPE_BUF bytes at least without waiting.
        if select.select([], [descriptor], [], POLL)[1]:
            written = os.write(descriptor, self._rest[: select.PIPE_BUF])
            self._rest = self._rest[written:]

    def interrupt(self) -> None:
        self._interrupted = True

    def close(self) -> None:
        """Nothing is left to do: a line that its reader did not take stays cut."""
