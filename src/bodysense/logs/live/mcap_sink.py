"""`McapSink`: results in an MCAP file that others may follow while it grows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from bodysense.errors import FileWriteError, MissingDependencyError
from bodysense.logs.live.faults import StreamFaults
from bodysense.logs.live.sink import LiveResult, ResultLines, Sink

TOPIC = "/bodysense/estimates"
"""Of the messages: JSON objects as lines have them, with their schema."""


class McapSink(Sink):
    """A message per result, in the file as soon as it is written, without chunks."""

    def __init__(self, path: str, faults: StreamFaults, *, replace: bool = False) -> None:
        super().__init__(path, faults)
        self._replace = replace
        self._file: IO[bytes] | None = None
        self._writer: Any = None
        self._channel = 0
        if Path(path).exists() and not replace:
            raise FileWriteError(f"{path} exists: choose another name, or replace it with --force.")

    def open(self, columns: Sequence[str]) -> None:
        try:
            from mcap.writer import Writer
        except ImportError as error:
            raise MissingDependencyError(
                'MCAP needs the package mcap: pip install "bodysense[ros]".'
            ) from error
        try:
            self._file = open(self.name, "wb" if self._replace else "xb")  # noqa: SIM115
        except OSError as error:
            raise FileWriteError(
                f"cannot write {self.name}: {error.strerror}; check that its folder is there and "
                "may be written to."
            ) from error
        self._lines = ResultLines(columns)
        self._writer = Writer(self._file, use_chunking=False)
        self._writer.start(library="bodysense")
        names = [name for column in columns for name in (column, f"{column}.std")]
        kinds: dict[str, object] = {name: {"type": "number"} for name in ("t", *names)}
        texts = {"type": "array", "items": {"type": "string"}}
        contacts = {"type": "array", "items": {"type": "object"}}
        kinds |= {"absent": texts, "notes": texts, "contacts": contacts}
        schema = json.dumps({"type": "object", "properties": kinds}).encode()
        which = self._writer.register_schema("bodysense.Estimates", "jsonschema", schema)
        self._channel = self._writer.register_channel(TOPIC, "json", which)

    def write(self, results: Sequence[LiveResult]) -> int | None:
        if self._file is None:
            return None
        for result in results:
            stamp = max(0, round(result.t * 1e9))
            data = self._lines.line(result).encode()
            self._writer.add_message(self._channel, stamp, data, stamp)
        self._file.flush()
        return len(results)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # as where the disk is full
                self._writer.finish()
                file.close()
