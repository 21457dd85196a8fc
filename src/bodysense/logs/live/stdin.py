"""`StandardInput`: lines that another program writes into ours."""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
import time

from bodysense.errors import FileReadError
from bodysense.logs.live.faults import StreamFaults
from bodysense.logs.live.queue import Arrival, DroppingQueue
from bodysense.logs.live.source import POLL, LineSplitter, Source

_PIECE = 2**16  # bytes read at once, what a pipe holds


class StandardInput(Source):
    """Lines of JSON on a file descriptor, standard input unless given.

    A file waits for its reader: of one, nothing is dropped. A pipe does not.
    """

    def __init__(self, faults: StreamFaults, descriptor: int | None = None) -> None:
        super().__init__("standard input", faults)
        self._descriptor = descriptor

    def prepare(self) -> None:
        try:
            if self._descriptor is None:
                self._descriptor = sys.stdin.fileno()
            self.live = not stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        except (AttributeError, OSError, ValueError) as error:
            raise FileReadError(
                f"there is no standard input ({error}): pipe lines of JSON into the command, or "
                "give another source."
            ) from error

    def receive(self, queue: DroppingQueue[Arrival], stop: threading.Event) -> None:
        if self._descriptor is None:
            self.prepare()
        descriptor = self._descriptor or 0
        lines = LineSplitter(self.faults)
        while not stop.is_set():
            if not select.select([descriptor], [], [], POLL)[0]:
                continue
            piece = os.read(descriptor, _PIECE)
            at = time.perf_counter()
            for line in lines.split(piece) if piece else lines.rest():
                queue.put(Arrival(at, "json", "", line), wait=not self.live)
            if not piece:
                return
