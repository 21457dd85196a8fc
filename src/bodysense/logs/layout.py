"""`LogLayout`: where the channels are in a file that does not name them, and in which units.

The layout file is a YAML mapping:

    joints: [shoulder, elbow]           # order of the lists below
    time: {column: 1, unit: ms}         # or: time: stamp; or: rate: 1000   rows per second
    channels:                           # columns by name, or by number counted from 1
      q: {columns: [2, 3], unit: deg}
      v: {columns: {elbow: omega}}      # not of all joints
      tau: {columns: 4-5, gain: [11.9, 10.7], offset: 0.1, file: drives.csv}
      i: {file: [i1.txt, i2.txt]}       # a file per joint: its column is 1 unless it is said
    frames:                             # vectors measured in a frame
      tool0: {force: [6, 7, 8], moment: {columns: [9, 10, 11], unit: mN·m}}
      base: {gyro: [12, 13, 14], acc: {columns: [15, 16, 17], unit: g}, quat: [18, 19, 20, 21]}
    other: {temperature: {column: 22, unit: °C}}
    rows: {first: 10, last: 900}        # or by file: {"run_1*": [10, 900], "run_2*": [5, 700]}
    motors: {gear_ratio: [100, 50], coupling: [{motor: elbow, joint: shoulder, ratio: 1}],
             zero: [0, -pi/2]}          # the log is of motors, see `MotorSide`
    separator: semicolon                # comma, semicolon, tab, space; found if left out
    decimal: ","                        # found if left out
    header: 3                           # true, false, or its line; found if left out
    transposed: true                    # a row per channel: columns above are rows of the file
    topic: /joint_states                # of a recording of ROS

Every key may be left out. A value is gain · cell + offset, in the stated unit; it is then turned
into SI. Without channels, frames and other the columns of the file name the channels themselves.
Where they do, unit, gain and offset stand without columns, for all joints or by joint:

    time: {unit: ms}
    channels: {q: {unit: deg}, tau: {gain: {elbow: -1}}}
    frames: {base: {acc: {unit: g}}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import PurePath

from bodysense.errors import FileReadError, listing
from bodysense.logs.channels import (
    FRAME_QUANTITIES,
    JOINT_QUANTITIES,
    find_unit,
    parse_unit,
    units_of,
)
from bodysense.logs.csv_format import (
    column_numbers,
    stated_decimal,
    stated_header,
    stated_separator,
)
from bodysense.logs.motors import SCHEMA, MotorSide, parse_motors


@dataclass(frozen=True)
class ChannelColumn:
    """Where one channel comes from: value = factor · (gain · cell + offset).

    Attributes:
        channel: its name, e.g. "q.elbow".
        column: name, or number counted from 1; "" if the file names the channel itself.
        unit: of the result: SI, or as stated for a channel that bodysense does not know.
        factor: from the stated unit to SI.
        gain: unit of the result a unit of the cell, e.g. N·m/A.
        offset: in the stated unit.
        file: a table beside the log that holds the column; "" for the log itself.
    """

    channel: str
    column: str | int
    unit: str
    factor: float = 1.0
    gain: float = 1.0
    offset: float = 0.0
    file: str = ""

    def fits(self, channel: str) -> bool:
        """Whether it is of this channel, by name or as "q.*"."""
        return self.channel in (channel, f"{channel.partition('.')[0]}.*")


@dataclass(frozen=True, eq=False, repr=False)
class LogLayout:
    """How to read logs of one kind. `read_layout` builds one from a file.

    Attributes:
        channels: where they are; if empty, the columns name them.
        named: unit, gain and offset of columns that the file names itself, "q.*" for those of
            all joints; the first that fits counts. The unit is "" where the file states it.
        joints: names of the joints, in the order of the lists of the layout.
        time: column of the time, its channel is "t".
        rate: rows per second, if there is no column of time [Hz].
        rows: first and last row to take, counted from 1, by pattern of the files' names, e.g.
            "run_*.csv"; `None` for the last takes all that follow. The first pattern that fits
            counts.
        motors: what lies between motors and joints, if the log is of motors.
        separator: of a text table, see `SEPARATORS`; `None` finds it.
        decimal: sign of a text table, "." or ","; `None` finds it.
        header: whether a text table has one, or its line; `None` finds it.
        transposed: whether a text table has a row per channel; columns are then its rows.
        topic: of the joint states, in a recording of ROS.
        source: name of the file, for messages.
    """

    channels: tuple[ChannelColumn, ...] = ()
    named: tuple[ChannelColumn, ...] = ()
    joints: tuple[str, ...] = ()
    time: ChannelColumn | None = None
    rate: float | None = None
    rows: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    motors: MotorSide | None = None
    separator: str | None = None
    decimal: str | None = None
    header: bool | int | None = None
    transposed: bool = False
    topic: str | None = None
    source: str = "layout"

    def __repr__(self) -> str:
        return f"<LogLayout {self.source}: {len(self.channels)} channels>"

    def rows_of(self, file_name: str) -> tuple[int, int | None]:
        """First and last row to take of a file; the last is `None` for all that follow."""
        fitting = [rows for pattern, rows in self.rows.items() if fnmatchcase(file_name, pattern)]
        return fitting[0] if fitting else (1, None)

    def scaled(self, column: ChannelColumn) -> ChannelColumn:
        """A column that the file names itself, with the unit, gain and offset stated here."""
        fitting = [entry for entry in self.named if entry.fits(column.channel)]
        stated = fitting[0] if fitting else column
        return replace(stated, channel=column.channel, column=column.column)


# The layout file.

_KEYS = (
    *("joints", "time", "rate", "channels", "frames", "other", "rows", "motors"),
    *("separator", "decimal", "header", "transposed", "topic"),
)
_SCALING = ("unit", "gain", "offset", "file")


def read_layout(path: str | PathLike[str]) -> LogLayout:
    """Read a layout file.

    Raises:
        FileReadError: the file or a value in it cannot be understood.
        UnknownNameError: an unknown key, unit or joint.
        MismatchError: not one value per joint.
    """
    return parse_layout(SCHEMA.read(path), str(path))


def parse_layout(content: Mapping[str, object], where: str = "layout") -> LogLayout:
    """Check the content of a layout file; see `read_layout`."""
    table = SCHEMA.mapping(content, where, _KEYS)
    joints = SCHEMA.names(table["joints"], f"{where}, joints") if "joints" in table else ()
    time = _time(table["time"], f"{where}, time") if "time" in table else None
    entries = [
        *_joint_channels(table.get("channels", {}), joints, f"{where}, channels"),
        *_frame_channels(table.get("frames", {}), f"{where}, frames"),
        *_other_channels(table.get("other", {}), f"{where}, other"),
        *([time] if time else []),
    ]
    _refuse_repeats([entry for entry in entries if entry.column], where)
    if time is not None and "rate" in table:
        raise FileReadError(f"{where}: time and rate exclude each other; keep time.")
    motors, topic = None, table.get("topic")
    if "motors" in table:
        motors = parse_motors(table["motors"], joints, f"{where}, motors")
    text = {key: table.get(key) for key in ("separator", "decimal", "header")}
    text = {key: None if value == "auto" else value for key, value in text.items()}
    return LogLayout(
        channels=tuple(entry for entry in entries if entry.column and entry is not time),
        named=tuple(entry for entry in entries if not entry.column),
        joints=joints,
        time=time if time and time.column else None,
        rate=_rate(table["rate"], f"{where}, rate") if "rate" in table else None,
        rows=_rows(table.get("rows", {}), f"{where}, rows"),
        motors=motors,
        separator=stated_separator(text["separator"], f"{where}, separator"),
        decimal=stated_decimal(text["decimal"], f"{where}, decimal"),
        header=stated_header(text["header"], f"{where}, header"),
        transposed=_transposed(table.get("transposed", False), f"{where}, transposed"),
        topic=None if topic is None else SCHEMA.text(topic, f"{where}, topic"),
        source=where,
    )


def _joint_channels(given: object, joints: tuple[str, ...], where: str) -> list[ChannelColumn]:
    result = []
    for quantity, entry in SCHEMA.mapping(given, where, tuple(JOINT_QUANTITIES)).items():
        place = f"{where}, {quantity}"
        table = _table(entry, ("columns", *_SCALING), place)
        listed = any(isinstance(value, list) for value in table.values())
        if not joints and (listed or "columns" in table):
            raise FileReadError(f"{where}: whose? List the joints: `joints: [name, …]`.")
        if "columns" not in table:
            result += _named_columns(table, quantity, joints, place)
            continue
        of, columns = joints, table["columns"]
        if isinstance(columns, Mapping):  # not of all joints
            of = tuple(name for name in joints if name in columns)
        result += _columns(table, [f"{quantity}.{name}" for name in of], of, place)
    return result


def _named_columns(
    table: Mapping[str, object], quantity: str, joints: tuple[str, ...], where: str
) -> list[ChannelColumn]:
    """Unit, gain and offset of columns ``<quantity>.<joint>`` that the file names itself."""
    by_joint, for_all = dict[str, dict[str, object]](), dict[str, object]()
    for key, value in table.items():
        if isinstance(value, list):
            value = dict(
                zip(joints, SCHEMA.one_each(value, joints, f"{where}, {key}"), strict=True)
            )
        if isinstance(value, Mapping):
            by_joint[key] = SCHEMA.mapping(value, f"{where}, {key}")
        else:
            for_all[key] = value
    each = list(dict.fromkeys(joint for values in by_joint.values() for joint in values))
    each += ["*"] if for_all else []  # all other joints
    default = {"unit": None, "gain": 1.0, "offset": 0.0}
    for key, values in by_joint.items():
        for_all[key] = {joint: values.get(joint, default[key]) for joint in each}
    return _columns(for_all, [f"{quantity}.{joint}" for joint in each], each, where)


def _frame_channels(given: object, where: str) -> list[ChannelColumn]:
    result = []
    for frame, vectors in SCHEMA.mapping(given, where).items():
        place = f"{where}, {frame}"
        for key, entry in SCHEMA.mapping(vectors, place, tuple(FRAME_QUANTITIES)).items():
            start, components, _ = FRAME_QUANTITIES[key]
            table = _table(entry, ("columns", *_SCALING), f"{place}, {key}")
            channels = [f"{start}.{frame}.{component}" for component in components]
            result += _columns(table, channels, components, f"{place}, {key}")
    return result


def _other_channels(given: object, where: str) -> list[ChannelColumn]:
    result = []
    for channel, entry in SCHEMA.mapping(given, where).items():
        place = f"{where}, {channel}"
        if channel in ("t", "time") or units_of(channel):
            raise FileReadError(
                f"{place}: a channel that bodysense knows; put it under time, channels or frames."
            )
        table = _table(entry, ("column", *_SCALING), place, key="column")
        result += _columns(table, [channel], [channel], place)
    return result


def _time(given: object, where: str) -> ChannelColumn:
    table = _table(given, ("column", *_SCALING), where, key="column")
    return _columns(table, ["t"], ["time"], where, allowed=("s",))[0]


def _table(
    given: object, keys: Sequence[str], where: str, key: str = "columns"
) -> dict[str, object]:
    """An entry with its columns, which may also stand there alone or be named by the file."""
    table = SCHEMA.mapping(given, where, keys) if isinstance(given, Mapping) else {key: given}
    files = table.get("file")
    if key not in table and isinstance(files, (list, Mapping)):  # each holds one channel
        table[key] = dict.fromkeys(files, 1) if isinstance(files, Mapping) else [1] * len(files)
    if key == "column" and files is not None:
        table.setdefault(key, 1)
    if not table or ("file" in table and key not in table):
        raise FileReadError(f"{where}: {key} missing; say by name or number where the values are.")
    if "column" in table:
        table["columns"] = [table.pop("column")]
    return table


def _columns(
    table: Mapping[str, object],
    channels: Sequence[str],
    each: Sequence[str],
    where: str,
    allowed: tuple[str, ...] | None = None,
) -> list[ChannelColumn]:
    """Where the channels are; column "" for those that the file names itself."""
    columns, named = column_numbers(table.get("columns"), where), "columns" not in table
    if not named and not isinstance(columns, (list, Mapping)):
        raise FileReadError(
            f"{where}: expected a list of columns for {listing(each)}; got {columns!r:.60}."
        )
    places = SCHEMA.one_each(columns, each, f"{where}, columns")
    gains = SCHEMA.one_each(table.get("gain", 1.0), each, f"{where}, gain")
    offsets = SCHEMA.one_each(table.get("offset", 0.0), each, f"{where}, offset")
    units = SCHEMA.one_each(table.get("unit"), each, f"{where}, unit")
    files = SCHEMA.one_each(table.get("file", ""), each, f"{where}, file")
    result = []
    for k, channel in enumerate(channels):
        place = f"{where}, {each[k]}"
        unit, factor = _unit(units[k], units_of(channel) if allowed is None else allowed, place)
        gain = SCHEMA.number(gains[k], f"{place}, gain")
        if gain == 0.0:
            raise FileReadError(f"{place}, gain: zero leaves nothing of the values; give another.")
        result.append(
            ChannelColumn(
                channel=channel,
                column="" if named else _column(places[k], f"{place}, column"),
                unit="" if named and units[k] is None else unit,
                factor=factor,
                gain=gain,
                offset=SCHEMA.number(offsets[k], f"{place}, offset"),
                file=_file(files[k], f"{place}, file") if "file" in table else "",
            )
        )
    return result


def _unit(given: object, allowed: tuple[str, ...], where: str) -> tuple[str, float]:
    """SI unit and factor; a channel that bodysense does not know keeps a unit that it does not."""
    if given is None:
        return (allowed[0] if allowed else ""), 1.0
    stated = SCHEMA.text(given, f"{where}, unit")
    if allowed == ("",):
        raise FileReadError(f"{where}, unit: a quaternion has none; leave the unit out.")
    unit = parse_unit(stated, where) if allowed else find_unit(stated)
    if unit is not None and allowed and unit[0] not in allowed:
        raise FileReadError(
            f"{where}: {stated!r} is no unit of it; give one that turns into "
            f"{' or '.join(allowed)}."
        )
    return unit or (stated, 1.0)


def _column(value: object, where: str) -> str | int:
    return SCHEMA.whole(value, where) if not isinstance(value, str) else SCHEMA.text(value, where)


def _file(value: object, where: str) -> str:
    name = SCHEMA.text(value, where)
    if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
        raise FileReadError(f"{where}: {name!r} is not beside the log; give a name in its folder.")
    return name


def _refuse_repeats(columns: Sequence[ChannelColumn], where: str) -> None:
    channels = set[str]()
    for entry in columns:
        if entry.channel in channels:
            raise FileReadError(f"{where}: {entry.channel!r} is there twice; keep one.")
        channels.add(entry.channel)
    refuse_shared(columns, where)


def refuse_shared(columns: Sequence[ChannelColumn], where: str) -> None:
    """Refuse two channels out of one column, but for a current and the torque made of it."""
    users: dict[tuple[str, str | int], ChannelColumn] = {}
    for entry in columns:
        other = users.setdefault((entry.file, entry.column), entry)
        starts = {channel.partition(".")[0] for channel in (entry.channel, other.channel)}
        if other is not entry and starts not in ({"i", "tau"}, {"i_des", "tau_des"}):
            raise FileReadError(
                f"{where}: column {entry.column!r} is {other.channel!r} and {entry.channel!r} at "
                "once; correct one of them."
            )


def _transposed(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise FileReadError(f"{where}: {value!r:.60} is neither true nor false.")
    return value


def _rate(value: object, where: str) -> float:
    rate = SCHEMA.number(value, where)
    if rate <= 0.0:
        raise FileReadError(f"{where}: {rate:g} rows per second; give a positive number.")
    return rate


def _rows(given: object, where: str) -> dict[str, tuple[int, int | None]]:
    table = SCHEMA.mapping(given, where)
    if table and set(table) <= {"first", "last"}:
        return {"*": _range(table, where)}
    return {pattern: _range(rows, f"{where}, {pattern}") for pattern, rows in table.items()}


def _range(given: object, where: str) -> tuple[int, int | None]:
    if isinstance(given, list):
        if len(given) != 2:
            raise FileReadError(f"{where}: expected [first, last], got {given!r:.60}.")
        given = {"first": given[0], "last": given[1]}
    table = SCHEMA.mapping(given, where, ("first", "last"))
    first = SCHEMA.whole(table.get("first", 1), f"{where}, first")
    last = None if table.get("last") is None else SCHEMA.whole(table["last"], f"{where}, last")
    if last is not None and last < first:
        raise FileReadError(f"{where}: the last row, {last}, comes before the first, {first}.")
    return first, last
