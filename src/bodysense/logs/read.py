"""Reading logs of all formats: from the columns of files to the channels of a `Log`."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from os.path import exists
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import (
    FileReadError,
    MismatchError,
    UnknownNameError,
    count,
    listing,
    require_type,
    unknown_name,
)
from bodysense.logs.channels import find_unit, units_of
from bodysense.logs.csv_format import layout_example
from bodysense.logs.layout import ChannelColumn, LogLayout, read_layout, refuse_shared
from bodysense.logs.log import Log, LogFile, LogTable, RowFault
from bodysense.logs.tables import open_csv, open_parquet, open_transposed
from bodysense.spatial.arrays import Array

_TIME_NAMES = ("t", "time")
_SUFFIXES = {
    ".csv": "text",
    ".tsv": "text",
    ".txt": "text",
    ".dat": "text",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".mcap": "mcap",
    ".db3": "bag",
}
_RANGE = re.compile(r"(?P<file>.+)@(?P<start>[^@:/]*):(?P<end>[^@:/]*)", re.DOTALL)
_SIGNATURES = {b"PAR1": "parquet", b"\x89MCAP0\r\n": "mcap", b"SQLite format 3\0": "bag"}


def read_log(
    path: str | PathLike[str], layout: LogLayout | str | PathLike[str] | None = None
) -> Log:
    """Read a recording as it is, with all its faults.

    Args:
        path: CSV or other text table (.csv, .tsv, .txt, .dat), Parquet (.parquet, .pq), MCAP
            (.mcap), or a ROS 2 bag (its folder, or .db3); other suffixes are told by their content.
            With a range as in ``run.csv@10:40`` only these seconds of it, see `split_range`.
        layout: where the channels are, or the path of a layout file that says so. Without one the
            columns name the channels: ``t``, ``q.<joint>``, ``tau.<joint>``, …, and may end with a
            unit, ``q.elbow [deg]``.

    Raises:
        FileReadError: the file cannot be read, or holds nothing that can be used.
        UnknownNameError: a column that is not there.
        MissingDependencyError: the format needs a package that is not installed.
    """
    require_type(path, (str, PathLike), "the path of a recording", "read_log('run.csv'), say")
    path, span = split_range(path)
    if layout is None:
        layout = LogLayout(source="no layout")
    elif not isinstance(layout, LogLayout):
        layout = read_layout(layout)
    if _kind(path) in ("mcap", "bag"):
        from bodysense.logs.ros import open_recording

        own, files = open_recording(path, layout.topic)
    else:
        own, files = _open_table(path, layout), [path]
    entries = [*layout.channels, *([layout.time] if layout.time else [])]
    beside = sorted({entry.file for entry in entries} - {""})
    digest = _digest([*files, *(path.parent / name for name in beside)])
    sources = {"": own, **{name: _open_table(path.parent / name, layout) for name in beside}}
    log = _assemble(sources, layout, digest)
    return log if span is None else log.between(*span)


def split_range(
    path: str | PathLike[str],
) -> tuple[Path, tuple[float | None, float | None] | None]:
    """The file of a recording, and the range of it that is to be used, if one is given.

    ``run.csv@10:40`` are the samples from 10 to 40 s after the first one; ``@10:`` and ``@:40`` are
    open on one side. A file that has such a name itself is taken as it is.

    Raises:
        FileReadError: a range that holds nothing.
    """
    found = _RANGE.fullmatch(fspath(path))
    if found is None or exists(path):
        return Path(path), None
    try:
        start, end = (float(found[key]) if found[key] else None for key in ("start", "end"))
    except ValueError:
        raise FileReadError(
            f"{path}: a range is written FILE@FROM:TO in seconds, e.g. {found['file']}@10:40."
        ) from None
    if start is not None and end is not None and not start < end:
        raise FileReadError(
            f"{path}: the range must end after it starts, e.g. {found['file']}@10:40."
        )
    return Path(found["file"]), (start, end)


def _open_table(path: Path, layout: LogLayout) -> LogFile:
    kind = _kind(path)
    if kind == "parquet":
        return open_parquet(path)
    if kind != "text":
        raise FileReadError(f"{path} is no table: tables beside a log are text or Parquet.")
    if layout.transposed:
        return open_transposed(path, separator=layout.separator, decimal=layout.decimal)
    return open_csv(path, separator=layout.separator, decimal=layout.decimal, header=layout.header)


def _kind(path: Path) -> str:
    try:
        if path.is_dir():
            if (path / "metadata.yaml").is_file():
                return "bag"
            raise FileReadError(
                f"{path} is a folder and no ROS 2 bag, as it has no metadata.yaml: give the path "
                "of a file in it."
            )
        if path.suffix.lower() == ".bag":
            raise FileReadError(
                f"{path} is a bag of ROS 1: turn it into one of ROS 2 with `rosbags-convert`."
            )
        with path.open("rb") as stream:
            start = stream.read(16)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileReadError(f"cannot read {path}: {reason}; check the path.") from error
    stated = _SUFFIXES.get(path.suffix.lower())
    if stated is not None:
        return stated
    return next((kind for sign, kind in _SIGNATURES.items() if start.startswith(sign)), "text")


def _digest(files: Sequence[Path]) -> str:
    """SHA-256 of a file; of several, the SHA-256 of their digests, one per line."""
    digests = []
    for path in files:
        try:
            with path.open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
        except OSError as error:
            raise FileReadError(
                f"cannot read {path}: {error.strerror}; check the path, and `file:` of the layout."
            ) from error
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(f"{digest}\n" for digest in digests).encode()).hexdigest()


def _assemble(sources: Mapping[str, LogFile], layout: LogLayout, digest: str) -> Log:
    """Read the channels of a log from its own table, "", and those beside it."""
    own = sources[""]
    columns, time, optional = _wanted_columns(sources, layout)
    columns = [_numbered(entry, sources) for entry in columns]
    entries = [*columns, *([time] if time else [])]
    refuse_shared(entries, layout.source)
    tables = _read_tables(entries, optional, sources)
    joined = _Joined(tables, sources, layout)
    t = joined.order / (layout.rate or 1.0) if time is None else joined.values(time)
    t = joined.drop_without_time(t)
    channels = {
        entry.channel: joined.values(entry)
        for entry in columns
        if int(entry.column) - 1 in tables[entry.file].columns
    }
    if layout.motors is not None:
        layout.motors.replace_channels(channels, layout.joints)
    for array in (t, joined.rows, *channels.values()):
        array.flags.writeable = False  # not copied, as they may be large
    return Log(
        t=t,
        channels=MappingProxyType(channels),
        units=MappingProxyType({e.channel: e.unit for e in columns if e.channel in channels}),
        rows=joined.rows,
        faults=tuple(sorted(joined.faults, key=lambda fault: fault.row)),
        source=own.name,
        digest=digest,
        notes=own.notes,
    )


def _wanted_columns(
    sources: Mapping[str, LogFile], layout: LogLayout
) -> tuple[list[ChannelColumn], ChannelColumn | None, set[str]]:
    """Columns of the layout, or those that the header names; time; which of them may hold text."""
    source, time = sources[""], layout.time
    columns, optional = list(layout.channels), set[str]()
    named: list[ChannelColumn] = []
    needs_time = time is None and layout.rate is None
    if not columns or layout.named or (needs_time and source.names):
        named, unknown = _named_columns(source, layout)
        columns, optional = (columns, optional) if columns else (named, unknown)
        stated = _stated_columns(named, layout, source)
        columns += stated if layout.channels else []
    if needs_time:
        time = _pick_time(named)
        if time is None:
            raise unknown_name(
                "column",
                "t",
                source.names or (),
                f"({source.name} has no column of time: name it `t`, or write a layout with "
                "`time: {column: …}` or `rate: …`.)",
            )
    time = None if time is None else _numbered(time, sources)
    if time is not None and not layout.channels:
        columns = [entry for entry in columns if time.file or entry.column != time.column]
    return columns, time, optional


def _read_tables(
    entries: Sequence[ChannelColumn], optional: set[str], sources: Mapping[str, LogFile]
) -> dict[str, LogTable]:
    """The wanted columns of every file; optional ones may hold text."""
    tables = {}
    for file, source in sources.items():
        here = [entry for entry in entries if entry.file == file]
        loose = {int(entry.column) - 1 for entry in here if entry.channel in optional}
        strict = {int(entry.column) - 1 for entry in here if entry.channel not in optional}
        tables[file] = source.read(sorted(strict), sorted(loose))
    return tables


class _Joined:
    """Rows that all tables of a recording have."""

    def __init__(
        self, tables: Mapping[str, LogTable], sources: Mapping[str, LogFile], layout: LogLayout
    ) -> None:
        self.tables = tables
        self.orders: dict[str, NDArray[np.int64]] = {}
        own, everything = sources[""].name, _all_rows(tables[""])
        usable, faults = np.ones(everything.size, dtype=bool), list[RowFault]()
        for file, table in tables.items():
            rows = _all_rows(table)
            if rows.size != everything.size:
                raise MismatchError(
                    f"{own} has {everything.size} rows and {sources[file].name} has {rows.size}: "
                    "tables of one recording must have the same."
                )
            broken = np.searchsorted(rows, [fault.row for fault in table.faults])
            self.orders[file] = np.delete(np.arange(rows.size), broken)
            usable[broken] = False
            faults += [
                RowFault(int(row), f"{file}, row {f.row}: {f.reason}" if file else f.reason)
                for row, f in zip(everything[broken], table.faults, strict=True)
            ]
        first, last = layout.rows_of(own)
        final = np.iinfo(np.int64).max if last is None else last
        usable &= (everything >= first) & (everything <= final)
        self.order: NDArray[np.int64] = np.flatnonzero(usable)
        self.rows: NDArray[np.int64] = everything[self.order]
        self.faults = [fault for fault in faults if first <= fault.row <= final]
        if not self.order.size:
            raise FileReadError(
                f"{own} has no usable row from {first} to {last or 'its end'}; it has rows "
                f"{everything[0]} to {everything[-1]}. Correct `rows` of {layout.source}."
            )

    def drop_without_time(self, t: Array) -> Array:
        """Leave out rows whose time (n_t,) is NaN, as faults; the times of the others."""
        timeless = np.isnan(t)
        self.faults += [RowFault(int(row), "no time") for row in self.rows[timeless]]
        self.order, self.rows = self.order[~timeless], self.rows[~timeless]
        return t[~timeless]

    def values(self, entry: ChannelColumn) -> Array:
        """(n_t,) values of a channel, in its unit."""
        column = self.tables[entry.file].columns[int(entry.column) - 1]
        order = self.orders[entry.file]
        if order.size != self.order.size:
            column = column[np.searchsorted(order, self.order)]
        if entry.gain != 1.0:
            column = column * entry.gain
        if entry.offset != 0.0:
            column = column + entry.offset
        return column if entry.factor == 1.0 else column * entry.factor


def _all_rows(table: LogTable) -> NDArray[np.int64]:
    """Rows that hold data, whole or broken."""
    if not table.faults:
        return table.rows
    broken = np.array([fault.row for fault in table.faults], dtype=np.int64)
    return np.sort(np.concatenate([table.rows, broken]))


def _named_columns(source: LogFile, layout: LogLayout) -> tuple[list[ChannelColumn], set[str]]:
    """Channels that the columns name themselves, and those of them that bodysense does not know."""
    if source.names is None:
        raise FileReadError(
            f"{source.name} does not name its columns: say which is which in a layout file "
            f"(--layout FILE, `layout=` in Python), {layout_example(len(source.units))}; or give "
            "the file a header: t, q.<joint>, tau.<joint>, …"
        )
    result, optional = [], set[str]()
    time = next((name for name in _TIME_NAMES if name in source.names), None)
    often = Counter(source.names)
    for k, (name, stated) in enumerate(zip(source.names, source.units, strict=True)):
        if not name:
            continue
        known = ("s",) if name == time else units_of(name)
        if known and often[name] > 1:
            raise FileReadError(f"{source.name}: column {name!r} is there twice; rename one.")
        if not known and often[name] == 1:
            optional.add(name)
        if known or name in optional:
            column = layout.scaled(ChannelColumn("t" if name == time else name, k + 1, ""))
            if not column.unit:
                unit, factor = _unit(name, stated, known, source.name)
                column = replace(column, unit=unit, factor=factor)
            result.append(replace(column, channel=name))
    return result, optional


def _stated_columns(
    columns: Sequence[ChannelColumn], layout: LogLayout, source: LogFile
) -> list[ChannelColumn]:
    """Those of the columns that the layout states a unit, gain or offset of."""
    result = list[ChannelColumn]()
    for entry in layout.named:
        fitting = [column for column in columns if entry.fits(column.channel)]
        if not fitting and entry.channel != "t":
            raise unknown_name(
                "column",
                entry.channel.replace("*", "<joint>"),
                source.names or (),
                f"({source.name} does not name it so: say where it is, `columns: …`, in "
                f"{layout.source}.)",
            )
        result += [column for column in fitting if column not in result]
    return result


def _unit(name: str, stated: str, known: tuple[str, ...], file: str) -> tuple[str, float]:
    if not stated and known:
        return known[0], 1.0
    unit = find_unit(stated)
    if unit is not None and unit[0] in known:
        return unit
    if not known or known == ("A",):  # what drives a motor can be in anything
        return stated, 1.0
    raise FileReadError(
        f"{file}: column {name!r} is in {stated!r}, which is no unit of it; it must turn into "
        f"{' or '.join(known)}. A layout can state another unit and a gain."
    )


def _pick_time(columns: list[ChannelColumn]) -> ChannelColumn | None:
    """The column of time: `t`, else `time`."""
    for name in _TIME_NAMES:
        for entry in columns:
            if entry.channel == name:
                return replace(entry, channel="t")
    return None


def _numbered(entry: ChannelColumn, sources: Mapping[str, LogFile]) -> ChannelColumn:
    """The entry with the number of its column, counted from 1."""
    column, source = entry.column, sources[entry.file]
    series = source.series  # column or row
    if isinstance(column, int):
        if column > len(source.units):
            raise UnknownNameError(
                f"{entry.channel} in {series} {column}: the file {source.name} has "
                f"{count(len(source.units), series)}; correct the layout, or its `separator:`."
            )
        return entry
    if source.names is None:
        header = ", or say in which line its header is: `header: …`" if series == "column" else ""
        raise FileReadError(
            f"{source.name} has no header, so it has no {series} {column!r}: give the numbers of "
            f"its {series}s{header}."
        )
    numbers = [k for k, name in enumerate(source.names, start=1) if name == column]
    if len(numbers) > 1:
        raise FileReadError(
            f"{source.name}: {series}s {listing(numbers)} are all named {column!r}; give "
            "the number of the one that is meant."
        )
    if not numbers:
        raise unknown_name(series, column, source.names, f"(of {source.name})")
    return replace(entry, column=numbers[0])
