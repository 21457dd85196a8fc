"""From the columns of files to the channels of a `Log`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import FileReadError, MismatchError, unknown_name
from bodysense.logs.channels import find_unit, units_of
from bodysense.logs.layout import CONVERTED, ChannelColumn, LogLayout, MotorSide
from bodysense.logs.layout_file import refuse_shared
from bodysense.logs.log import Log, LogFile, LogTable, RowFault
from bodysense.spatial.arrays import Array

_TIME_NAMES = ("t", "time")


def assemble(
    source: LogFile, layout: LogLayout, open_beside: Callable[[str], LogFile], digest: str
) -> Log:
    """Read the channels of a log.

    Args:
        source: the log.
        layout: where its channels are.
        open_beside: opens another table of the same recording by its name.
        digest: of all files.
    """
    wanted = _wanted_columns(source, layout)
    entries = [*wanted.columns, *([wanted.time] if wanted.time else [])]
    others = sorted({entry.file for entry in entries} - {""})
    sources = {"": source} | {file: open_beside(file) for file in others}
    places = {id(entry): _position(entry.column, sources[entry.file]) for entry in entries}
    refuse_shared([(e, (e.file, places[id(e)] + 1)) for e in entries], layout.source)
    tables = _read_tables(entries, wanted.optional, sources, places)
    time, columns = wanted.time, wanted.columns
    joined = _Joined(tables, sources, layout)
    t = joined.order / (layout.rate or 1.0) if time is None else joined.values(time, places)
    t = joined.drop_without_time(t)
    channels = {
        entry.channel: joined.values(entry, places)
        for entry in columns
        if places[id(entry)] in tables[entry.file].columns
    }
    if layout.motors is not None:
        _to_joints(channels, layout.joints, layout.motors)
    return _frozen(
        Log(
            t=t,
            channels=MappingProxyType(channels),
            units=MappingProxyType({e.channel: e.unit for e in columns if e.channel in channels}),
            rows=joined.rows,
            faults=tuple(sorted(joined.faults, key=lambda fault: fault.row)),
            source=source.name,
            digest=digest,
            notes=source.notes,
        )
    )


class _Wanted(NamedTuple):
    """Columns to read: channels, time (or the layout's rate), and which of them may hold text."""

    columns: list[ChannelColumn]
    time: ChannelColumn | None
    optional: set[str]


def _wanted_columns(source: LogFile, layout: LogLayout) -> _Wanted:
    """Those of the layout; without any, those that the header names."""
    time, columns, optional = layout.time, list(layout.channels), set[str]()
    if not columns:
        columns, optional = _named_columns(source)
        time = time or (None if layout.rate else _pick_time(columns))
        taken = None if time is None else _position(time.column, source) + 1
        columns = [entry for entry in columns if entry.column != taken]
    elif time is None and layout.rate is None:
        time = _pick_time(_named_columns(source)[0] if source.names else [])
    if time is None and layout.rate is None:
        raise unknown_name(
            "column",
            "t",
            source.names or (),
            f"({source.name} has no column of time: name it `t`, or write a layout with "
            "`time: {column: …}` or `rate: …`.)",
        )
    return _Wanted(columns, time, optional)


def _read_tables(
    entries: Sequence[ChannelColumn],
    optional: set[str],
    sources: Mapping[str, LogFile],
    places: Mapping[int, int],
) -> dict[str, LogTable]:
    """The wanted columns of every file; optional ones may hold text."""
    tables = {}
    for file, source in sources.items():
        here = [entry for entry in entries if entry.file == file]
        loose = {places[id(entry)] for entry in here if entry.channel in optional}
        strict = {places[id(entry)] for entry in here if entry.channel not in optional}
        tables[file] = source.read(sorted(strict), sorted(loose))
    return tables


class _Joined:
    """Rows that all tables of a recording have."""

    def __init__(
        self, tables: Mapping[str, LogTable], sources: Mapping[str, LogFile], layout: LogLayout
    ) -> None:
        self.tables = tables
        own = tables[""]
        self.orders = {file: _order(table) for file, table in tables.items()}
        everything = _all_rows(own)
        faults = list(own.faults)
        usable = np.zeros(everything.size, dtype=bool)
        usable[self.orders[""]] = True
        for file, table in tables.items():
            rows = _all_rows(table)
            if rows.size != everything.size:
                raise MismatchError(
                    f"{sources[''].name} has {everything.size} rows and {sources[file].name} has "
                    f"{rows.size}: tables of one recording must have the same."
                )
            if file:
                here = np.zeros(rows.size, dtype=bool)
                here[self.orders[file]] = True
                places = (
                    dict(zip(rows.tolist(), range(rows.size), strict=True)) if table.faults else {}
                )
                faults += [
                    RowFault(int(everything[places[f.row]]), f"{file}, row {f.row}: {f.reason}")
                    for f in table.faults
                ]
                usable &= here
        first, last = layout.rows_of(sources[""].name)
        final = np.iinfo(np.int64).max if last is None else last
        usable &= (everything >= first) & (everything <= final)
        self.order: NDArray[np.int64] = np.flatnonzero(usable)
        self.rows: NDArray[np.int64] = everything[self.order]
        self.faults = [fault for fault in faults if first <= fault.row <= final]
        if not self.order.size:
            raise FileReadError(
                f"{sources[''].name} has no usable row from {first} to {last or 'its end'}; it has "
                f"rows {everything[0]} to {everything[-1]}. Correct `rows` of {layout.source}."
            )

    def drop_without_time(self, t: Array) -> Array:
        """Leave out rows whose time (n_t,) is NaN, as faults; the times of the others."""
        timeless = np.isnan(t)
        self.faults += [RowFault(int(row), "no time") for row in self.rows[timeless]]
        self.order, self.rows = self.order[~timeless], self.rows[~timeless]
        return t[~timeless]

    def values(self, entry: ChannelColumn, places: Mapping[int, int]) -> Array:
        """(n_t,) values of a channel, in its unit."""
        column = self.tables[entry.file].columns[places[id(entry)]]
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


def _order(table: LogTable) -> NDArray[np.int64]:
    """(n,) which of all rows, broken ones counted, each row of the table is."""
    return np.searchsorted(_all_rows(table), table.rows).astype(np.int64)


def _named_columns(source: LogFile) -> tuple[list[ChannelColumn], set[str]]:
    """Channels that the columns name themselves, and those of them that bodysense does not know."""
    if source.names is None:
        raise FileReadError(
            f"{source.name} does not name its columns: give a layout that says which is which, "
            "or give the file a header: t, q.<joint>, tau.<joint>, …"
        )
    result, optional = [], set[str]()
    time = next((name for name in _TIME_NAMES if name in source.names), None)
    for k, (name, stated) in enumerate(zip(source.names, source.units, strict=True)):
        if not name:
            continue
        known = ("s",) if name == time else units_of(name)
        if known and source.names.count(name) > 1:
            raise FileReadError(f"{source.name}: column {name!r} is there twice; rename one.")
        if not known and source.names.count(name) == 1:
            optional.add(name)
        if known or name in optional:
            unit, factor = _unit(name, stated, known, source.name)
            result.append(ChannelColumn(name, k + 1, unit, factor))
    return result, optional


def _unit(name: str, stated: str, known: tuple[str, ...], file: str) -> tuple[str, float]:
    if not stated and known:
        return known[0], 1.0
    if not known or known == ("A",):  # what drives a motor can be in anything
        unit = find_unit(stated)
        return (unit.si, unit.factor) if known and unit and unit.si == "A" else (stated, 1.0)
    unit = find_unit(stated)
    if unit is None or unit.si not in known:
        raise FileReadError(
            f"{file}: column {name!r} is in {stated!r}, which is no unit of it; it must turn into "
            f"{' or '.join(known)}. A layout can state another unit and a gain."
        )
    return unit.si, unit.factor


def _pick_time(columns: list[ChannelColumn]) -> ChannelColumn | None:
    """The column of time: `t`, else `time`."""
    for name in _TIME_NAMES:
        for entry in columns:
            if entry.channel == name:
                return ChannelColumn("t", entry.column, entry.unit, entry.factor)
    return None


def _position(column: str | int, source: LogFile) -> int:
    """Number of a column, from 0."""
    if isinstance(column, int):
        if column > source.n_columns:
            valid = [str(k + 1) for k in range(source.n_columns)]
            raise unknown_name("column", str(column), valid, f"(of {source.name})")
        return column - 1
    if source.names is None:
        raise FileReadError(
            f"{source.name} has no header, so it has no column {column!r}: give the numbers of its "
            "columns, or say in which line its header is: `header: …`."
        )
    places = [k for k, name in enumerate(source.names) if name == column]
    if len(places) > 1:
        raise FileReadError(
            f"{source.name}: columns {', '.join(str(k + 1) for k in places)} are all named "
            f"{column!r}; give the number of the one that is meant."
        )
    if not places:
        raise unknown_name("column", column, source.names, f"(of {source.name})")
    return places[0]


def _to_joints(channels: dict[str, Array], joints: Sequence[str], motors: MotorSide) -> None:
    """Turn the quantities of motors into those of joints, in place."""
    for quantity in CONVERTED:
        names = [f"{quantity}.{joint}" for joint in joints]
        missing = [name for name in names if name not in channels]
        if len(missing) == len(names):
            continue
        if missing:
            raise MismatchError(
                f"{', '.join(missing)} missing: joints follow from motors only if all are there."
            )
        of_motors = np.stack([channels[name] for name in names], axis=1)
        for name, column in zip(names, motors.to_joints(quantity, of_motors).T, strict=True):
            channels[name] = np.ascontiguousarray(column)


def _frozen(log: Log) -> Log:
    """The same log, whose arrays nobody can write to; not copied, as they may be large."""
    for array in (log.t, log.rows, *log.channels.values()):
        array.flags.writeable = False
    return log
