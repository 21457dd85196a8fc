"""`GrowingMcap`: a recording that somebody else is writing, followed as `tail -f` does.

What the file holds at the start is read as fast as it is estimated; what is added then is live.
The writer may be in the middle of a record: its rest is waited for.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from bodysense.errors import FileReadError, MissingDependencyError
from bodysense.logs.live.faults import StreamFaults
from bodysense.logs.live.queue import Arrival, DroppingQueue
from bodysense.logs.live.source import Source
from bodysense.logs.ros import READABLE

_PIECE = 2**20  # bytes read at once
_PAUSE = 5e-4  # s between looks at the end of the file, far below a period at 1 kHz
_LOOK = 0.5  # s between looks whether the file is still the same
_LARGEST = 2**26  # bytes of a record: chunks have a megabyte or so, more is damage


class _StoppedError(Exception):
    """Nothing more is to be read, or comes."""


class GrowingMcap(Source):
    """Messages of an MCAP file: of ROS 2 in CDR, or JSON as lines have it."""

    def __init__(self, path: str, faults: StreamFaults) -> None:
        super().__init__(path, faults)
        self.live = False

    def prepare(self) -> None:
        _require_mcap()
        path = Path(self.name)
        if path.exists() and not path.is_file():
            raise FileReadError(f"{path} is no file: give an MCAP file that is being written.")
        if not path.parent.is_dir():
            raise FileReadError(f"{path} cannot come: there is no folder {path.parent}.")

    def receive(self, queue: DroppingQueue[Arrival], stop: threading.Event) -> None:
        try:
            descriptor = self._open(stop)
        except _StoppedError:
            return
        try:
            self._follow(_GrowingFile(descriptor, stop, self), queue)
        except _StoppedError:
            pass
        except Exception as error:  # damage shows as McapError, struct.error, KeyError, …
            self.faults.report(
                "damaged recordings",
                f"{self.name} cannot be read on as MCAP: {type(error).__name__} {error}. What came "
                "before was used; is another program writing to it?",
            )
        finally:
            os.close(descriptor)

    def _open(self, stop: threading.Event) -> int:
        """Open the file, once it is there."""
        told = False
        while not stop.is_set():
            try:
                return os.open(self.name, os.O_RDONLY)
            except FileNotFoundError:
                if not told:
                    self.faults.say(f"{self.name} is not there yet: waiting for it")
                told = True
                stop.wait(_LOOK)
            except OSError as error:
                raise FileReadError(
                    f"cannot read {self.name}: {error.strerror}; check the path."
                ) from error
        raise _StoppedError

    def _follow(self, file: _GrowingFile, queue: DroppingQueue[Arrival]) -> None:
        from mcap.records import Channel, Footer, Message, Schema
        from mcap.stream_reader import StreamReader as Records

        schemas: dict[int, str] = {}
        channels: dict[int, tuple[str, str]] = {}
        stream: Any = file  # of the methods of a file, read alone is used
        for record in Records(stream, validate_crcs=True, record_size_limit=_LARGEST).records:
            if isinstance(record, Schema):
                schemas[record.id] = record.name
            elif isinstance(record, Channel):
                kind = schemas.get(record.schema_id, "")
                kind = "json" if record.message_encoding == "json" else kind
                channels[record.id] = (record.topic, kind)
            elif isinstance(record, Message):
                topic, kind = channels.get(record.channel_id, ("", ""))
                if kind == "json" or kind in READABLE:
                    arrival = Arrival(file.at, kind, topic, record.data, record.log_time * 1e-9)
                    queue.put(arrival, wait=not self.live)
            elif isinstance(record, Footer):
                self.faults.say(f"{self.name} is complete: nothing more comes")
                return


class _GrowingFile:
    """Bytes of a file, with those that are not there yet.

    Attributes:
        at: when those that were read last came [s].
    """

    def __init__(self, descriptor: int, stop: threading.Event, source: GrowingMcap) -> None:
        self._descriptor, self._stop, self._source = descriptor, stop, source
        self._pieces, self._from, self._size = b"", 0, 0
        self._looked = self.at = time.perf_counter()

    def read(self, n: int) -> bytes:
        """Exactly `n` bytes, as soon as they are there."""
        while len(self._pieces) - self._from < n:
            self._fetch()
        start, self._from = self._from, self._from + n
        return self._pieces[start : self._from]

    def _fetch(self) -> None:
        while not self._stop.is_set():
            piece = os.read(self._descriptor, _PIECE)
            self.at = time.perf_counter()
            if piece:
                self._pieces, self._from = self._pieces[self._from :] + piece, 0
                self._size += len(piece)
                return
            self._source.live = True  # the end of what was there
            self._require_same()
            time.sleep(_PAUSE)
        raise _StoppedError

    def _require_same(self) -> None:
        if self.at - self._looked < _LOOK:
            return
        self._looked = self.at
        status = os.fstat(self._descriptor)
        if status.st_nlink == 0 or status.st_size < self._size:
            self._source.faults.report(
                "recordings that were replaced",
                f"{self._source.name} was replaced or cut off while it was read: start again.",
            )
            raise _StoppedError


def _require_mcap() -> None:
    try:
        import mcap.stream_reader  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            'MCAP needs the package mcap: pip install "bodysense[ros]".'
        ) from error
