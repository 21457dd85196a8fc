"""`RawLog`: a recording as it was found, before anybody has judged it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bodysense.signals.log import Log
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class RowFault:
    """A row of the source that could not be read, or not in full.

    Attributes:
        row: number of the row (the line of a text file), counted from 1.
        reason: what is wrong with it, e.g. "19 of 31 values".
    """

    row: int
    reason: str


@dataclass(frozen=True, eq=False, repr=False)
class RawLog:
    """A recording with all its faults: values may be NaN, and time may run backward or repeat.

    The doctor (`bodysense.identification.doctor`) turns it into clean `Log` pieces.

    Attributes:
        t: (n_t,) times as recorded [s].
        channels: (n_t,) values by name, as in `Log`.
        units: of the channels, by name.
        rows: (n_t,) row of the source behind each sample, counted from 1.
        faults: rows that are not among the samples, and why.
        source: name of the file, for messages.
        digest: SHA-256 of the files behind it, hexadecimal; empty if there are none.
        notes: what the reader decided on its own, e.g. which of two clocks it took.
    """

    t: Array
    channels: Mapping[str, Array]
    units: Mapping[str, str]
    rows: NDArray[np.int64]
    faults: tuple[RowFault, ...] = ()
    source: str = "log"
    digest: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, log: Log, source: str = "log") -> RawLog:
        """A clean log as a raw one."""
        rows = np.arange(1, log.t.size + 1, dtype=np.int64)
        return cls(log.t, log.channels, log.units, rows, source=source)

    def __repr__(self) -> str:
        return f"<RawLog {self.summary()}>"

    def summary(self) -> str:
        """The recording in a line."""
        n = len(self.faults)
        bad = f", {n} row{'s' if n > 1 else ''} unreadable" if n else ""
        return f"{self.source}: {len(self.channels)} channels, {self.t.size} samples{bad}"
