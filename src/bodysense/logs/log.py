"""`Log`: what was recorded, as time-stamped channels with names and units.

NaN stands for no reading, as an empty cell of a table does, whoever built the log: identification
leaves such samples out, estimators take the reading for absent, and the doctor counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from types import MappingProxyType, NoneType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import FileReadError, MismatchError, ShapeError, listing, require_type
from bodysense.spatial.arrays import Array, as_array, read_only

UNITS = MappingProxyType({"q": "rad", "v": "rad/s", "a": "rad/s²", "tau": "N·m", "i": "A"})
"""Quantities of a joint and their units: channel ``q.elbow`` is the position of joint elbow."""


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
class Log:
    """A recording. `read_log` gives it as it was recorded, `Log.of` builds a checked one.

    Values are NaN where there is no reading. As recorded, they may also be infinite, and time may
    run backward or repeat. The doctor (`bodysense.doctor`) cuts such a log into clean ones.

    Attributes:
        t: (n_t,) times [s], read-only.
        channels: (n_t,) values by name, read-only.
        units: of the channels, by name.
        rows: (n_t,) row of the source behind each sample, counted from 1.
        faults: rows that are not among the samples, and why.
        source: name of the file, for messages.
        digest: SHA-256 of the files behind it, hexadecimal; empty if there are none.
        notes: what the reader decided on its own, e.g. which of two clocks it took.
        zero: time from which ranges of it count [s], that of the recording's first sample; `None`
            where the log is no part of another.
    """

    t: Array
    channels: Mapping[str, Array]
    units: Mapping[str, str]
    rows: NDArray[np.int64]
    faults: tuple[RowFault, ...] = ()
    source: str = "log"
    digest: str = ""
    notes: tuple[str, ...] = ()
    zero: float | None = None

    @classmethod
    def of(
        cls, t: ArrayLike, channels: Mapping[str, ArrayLike], units: Mapping[str, str] | None = None
    ) -> Log:
        """Check and keep a recording: numbers or NaN, ascending times.

        Args:
            t: (n_t,) times [s].
            channels: (n_t,) values by name, NaN where there is no reading; of joints:
                ``q.<joint>``, ``v.<joint>``, ….
            units: by channel, where they differ from `UNITS` or the name is none of a joint's.
        """
        times = as_array(t, (None,), "t")
        backward = np.flatnonzero(~(np.diff(times) > 0.0))
        if backward.size:
            k = int(backward[0])
            raise ShapeError(
                f"time does not ascend: t[{k}] = {times[k]:g} is followed by {times[k + 1]:g}; "
                "sort the samples and drop repeated ones."
            )
        kept = {name: _values(x, times.size, name) for name, x in channels.items()}
        known = {name: UNITS.get(name.partition(".")[0], "") for name in kept}
        for name, unit in (units or {}).items():
            if name not in kept:
                raise MismatchError(f"unit of {name!r}: there is no such channel in the log.")
            known[name] = unit
        rows = np.arange(1, times.size + 1)
        rows.flags.writeable = False
        return cls(read_only(times), MappingProxyType(kept), MappingProxyType(known), rows)

    def __repr__(self) -> str:
        return f"<Log {self.summary()}>"

    def summary(self) -> str:
        """The recording in a line."""
        span = self.t[-1] - self.t[0] if self.t.size else 0.0
        n = len(self.faults)
        bad = f", {n} row{'s' if n > 1 else ''} unreadable" if n else ""
        return (
            f"{self.source}: {len(self.channels)} channels, {self.t.size} samples over {span:g} s"
            f"{bad}"
        )

    def between(self, start: float | None, end: float | None) -> Log:
        """The samples from `start` to `end` [s], both counted from the first one; `None` for none.

        Raises:
            FileReadError: no sample lies between them.
        """
        for time in (start, end):
            require_type(time, (Real, NoneType), "seconds or None", "log.between(10.0, None), say")
        finite = self.t[np.isfinite(self.t)]
        zero = float(finite[0]) if finite.size else 0.0
        t = self.t - zero
        first, last = -np.inf if start is None else start, np.inf if end is None else end
        inside = (t >= first) & (t <= last)
        label = ":".join("" if x is None else f"{x:g}" for x in (start, end))
        if not inside.any():
            span = float(finite[-1] - finite[0]) if finite.size else 0.0
            raise FileReadError(
                f"{self.source}: no sample lies in @{label} [s]; the recording lasts {span:.4g} s, "
                "and times count from its beginning. Correct the range."
            )
        rows = self.rows[inside]
        rows.flags.writeable = False
        return replace(
            self,
            t=read_only(self.t[inside]),
            channels=MappingProxyType({n: read_only(x[inside]) for n, x in self.channels.items()}),
            rows=rows,
            faults=tuple(fault for fault in self.faults if rows[0] <= fault.row <= rows[-1]),
            source=f"{self.source}@{label}",
            zero=zero if self.zero is None else self.zero,
        )

    @property
    def zero_time(self) -> float:
        """Time [s] from which ranges of the recording count."""
        if self.zero is not None:
            return self.zero
        finite = self.t[np.isfinite(self.t)]
        return float(finite[0]) if finite.size else 0.0

    def joints(self, quantity: str, joint_names: Sequence[str]) -> Array:
        """(n_t, n) values of a quantity for the given joints, in their order.

        Raises:
            MismatchError: joints are missing, as in the log of another robot.
        """
        prefix = f"{quantity}."
        missing = [name for name in joint_names if prefix + name not in self.channels]
        if missing:
            result = [
                name.removeprefix(prefix) for name in self.channels if name.startswith(prefix)
            ]
            raise MismatchError(
                f"the log has no {quantity!r} of joints {listing(missing)}; it has it of "
                f"{listing(result) or 'none'}. Is it the log of another robot? Otherwise rename "
                f"its channels to {prefix}<joint>."
            )
        columns = [self.channels[prefix + name] for name in joint_names]
        return np.stack(columns, axis=1) if columns else np.zeros((self.t.size, 0))


def _values(x: ArrayLike, n_t: int, name: str) -> Array:
    """(n_t,) values of a channel, NaN where there is no reading, read-only."""
    try:
        given = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ShapeError(f"{name} must be an array of numbers: {error}") from error
    missing = np.isnan(given)
    values = as_array(np.where(missing, 0.0, given), (n_t,), name)
    values[missing] = np.nan
    return read_only(values)


def require_log(log: object) -> None:
    """Raise `ShapeError` if a file is given where a `Log` is expected."""
    require_type(log, Log, "a Log", "read it first, read_log(…)")


# What every file format looks like to the rest: columns by number, rows, rows that are broken.


@dataclass(frozen=True, eq=False)
class LogTable:
    """Columns of a file.

    Attributes:
        columns: (n,) values by number of the column, from 0; NaN where there is none.
        rows: (n,) rows of the file behind the values, counted from 1, ascending.
        faults: rows that hold something else.
    """

    columns: Mapping[int, Array]
    rows: NDArray[np.int64]
    faults: tuple[RowFault, ...] = ()


@dataclass(frozen=True, eq=False)
class LogFile:
    """A file whose columns are known and whose values have not been read yet.

    Attributes:
        name: of the file, for messages.
        names: of the columns without their units; `None` if the file has none.
        units: of all columns as the file states them, "" where it does not.
        read: reads columns, by their numbers from 0. Required ones must hold numbers or nothing; a
            row with anything else in one of them is broken. In optional ones anything else counts
            as nothing, and one that never holds a number is left out.
        notes: what the reader decided on its own.
        series: what a channel is there: a column, or a row of a transposed table.
    """

    name: str
    names: tuple[str, ...] | None
    units: tuple[str, ...]
    read: Callable[[Sequence[int], Sequence[int]], LogTable]
    notes: tuple[str, ...] = ()
    series: str = "column"
