"""The layout file: a YAML mapping that says where the channels of a log are.

    joints: [shoulder, elbow]           # order of the lists below
    time: {column: 1, unit: ms}         # or: time: stamp; or: rate: 1000   rows per second
    channels:                           # columns by name, or by number counted from 1
      q: {columns: [2, 3], unit: deg}
      v: {columns: {elbow: omega}}      # not of all joints
      tau: {columns: [4, 5], gain: [11.9, 10.7], offset: 0.1, file: drives.csv}
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
    topic: /joint_states                # of a recording of ROS

Every key may be left out. A value is gain · cell + offset, in the stated unit; it is then turned
into SI. Without channels, frames and other the columns of the file name the channels themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import PurePath

import numpy as np

from bodysense.errors import FileReadError, unknown_name
from bodysense.logs.channels import (
    FRAME_QUANTITIES,
    JOINT_QUANTITIES,
    find_unit,
    parse_unit,
    units_of,
)
from bodysense.logs.csv_format import SEPARATORS
from bodysense.logs.layout import ChannelColumn, LogLayout, MotorSide, RowRange
from bodysense.schema import Schema
from bodysense.spatial.arrays import Array, read_only

values = Schema(kind="a layout")

# The part of a layout file about logs of motors; see `layout_file`.


def _parse_motors(given: object, joints: tuple[str, ...], where: str) -> MotorSide:
    """Gear ratios, coupling and zero positions, one each a joint."""
    table = values.mapping(given, where, ("gear_ratio", "coupling", "zero"))
    if not joints:
        raise FileReadError(f"{where}: of which joints? List them: `joints: [name, …]`.")
    ratios = _numbers(table.get("gear_ratio", 1.0), joints, f"{where}, gear_ratio")
    if not ratios.all():
        raise FileReadError(
            f"{where}, gear_ratio: zero for {joints[int(np.argmin(np.abs(ratios)))]!r}; give motor "
            "turns a joint turn."
        )
    coupling = np.eye(len(joints))
    entries = table.get("coupling", [])
    if not isinstance(entries, list):
        raise FileReadError(f"{where}, coupling: expected a list of {{motor, joint, ratio}}.")
    for k, given_entry in enumerate(entries):
        place = f"{where}, coupling, entry {k + 1}"
        entry = values.mapping(given_entry, place, ("motor", "joint", "ratio"))
        missing = [key for key in ("motor", "joint", "ratio") if key not in entry]
        if missing:
            raise FileReadError(f"{place}: {', '.join(missing)} missing.")
        motor = _position(entry["motor"], joints, f"{place}, motor")
        joint = _position(entry["joint"], joints, f"{place}, joint")
        if coupling[motor, joint] != 0.0:
            raise FileReadError(
                f"{place}: motor {joints[motor]!r} moves {joints[joint]!r} already; list each pair "
                "once, and put the own ratio of a motor into gear_ratio."
            )
        coupling[motor, joint] = values.number(entry["ratio"], f"{place}, ratio")
    if abs(np.linalg.det(coupling)) < 1e-9:
        raise FileReadError(
            f"{where}, coupling: singular; every joint needs a motor that moves it."
        )
    zero = _numbers(table.get("zero", 0.0), joints, f"{where}, zero")
    return MotorSide(read_only(ratios[:, None] * coupling), read_only(zero))


def _numbers(value: object, joints: tuple[str, ...], where: str) -> Array:
    each = values.one_each(value, joints, where)
    return np.array(
        [values.number(x, f"{where}, {name}") for x, name in zip(each, joints, strict=True)]
    )


def _position(value: object, joints: tuple[str, ...], where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= len(joints):
        return value - 1
    if not isinstance(value, str) or value not in joints:
        raise unknown_name("joint", str(value), joints, f"({where})")
    return joints.index(value)


_KEYS = (
    "joints",
    "time",
    "rate",
    "channels",
    "frames",
    "other",
    "rows",
    "motors",
    "separator",
    "decimal",
    "header",
    "topic",
)
_SCALING = ("unit", "gain", "offset", "file")


def read_layout(path: str | PathLike[str]) -> LogLayout:
    """Read a layout file.

    Raises:
        FileReadError: the file or a value in it cannot be understood.
        UnknownNameError: an unknown key, unit or joint.
        MismatchError: not one value per joint.
    """
    return parse_layout(values.read(path), str(path))


def parse_layout(content: Mapping[str, object], where: str = "layout") -> LogLayout:
    """Check the content of a layout file; see `read_layout`."""
    table = values.mapping(content, where, _KEYS)
    joints = values.names(table["joints"], f"{where}, joints") if "joints" in table else ()
    columns = [
        *_joint_channels(table.get("channels", {}), joints, f"{where}, channels"),
        *_frame_channels(table.get("frames", {}), f"{where}, frames"),
        *_other_channels(table.get("other", {}), f"{where}, other"),
    ]
    time = _time(table["time"], f"{where}, time") if "time" in table else None
    _refuse_repeats([*columns, *([time] if time else [])], where)
    if time is not None and "rate" in table:
        raise FileReadError(f"{where}: time and rate exclude each other; keep time.")
    motors = None
    if "motors" in table:
        motors = _parse_motors(table["motors"], joints, f"{where}, motors")
    topic = table.get("topic")
    return LogLayout(
        channels=tuple(columns),
        joints=joints,
        time=time,
        rate=_rate(table["rate"], f"{where}, rate") if "rate" in table else None,
        rows=_rows(table.get("rows", {}), f"{where}, rows"),
        motors=motors,
        separator=_separator(table.get("separator"), f"{where}, separator"),
        decimal=_decimal(table.get("decimal"), f"{where}, decimal"),
        header=_header(table.get("header"), f"{where}, header"),
        topic=None if topic is None else values.text(topic, f"{where}, topic"),
        source=where,
    )


def _joint_channels(given: object, joints: tuple[str, ...], where: str) -> list[ChannelColumn]:
    result = []
    for quantity, entry in values.mapping(given, where, tuple(JOINT_QUANTITIES)).items():
        place = f"{where}, {quantity}"
        if not joints:
            raise FileReadError(f"{where}: whose? List the joints: `joints: [name, …]`.")
        table = _table(entry, ("columns", *_SCALING), place)
        of, columns = joints, table["columns"]
        if isinstance(columns, Mapping):  # not of all joints
            of = tuple(name for name in joints if name in columns)
        result += _columns(table, [f"{quantity}.{name}" for name in of], of, place)
    return result


def _frame_channels(given: object, where: str) -> list[ChannelColumn]:
    result = []
    for frame, vectors in values.mapping(given, where).items():
        place = f"{where}, {frame}"
        for key, entry in values.mapping(vectors, place, tuple(FRAME_QUANTITIES)).items():
            start, components, _ = FRAME_QUANTITIES[key]
            table = _table(entry, ("columns", *_SCALING), f"{place}, {key}")
            channels = [f"{start}.{frame}.{component}" for component in components]
            result += _columns(table, channels, components, f"{place}, {key}")
    return result


def _other_channels(given: object, where: str) -> list[ChannelColumn]:
    result = []
    for channel, entry in values.mapping(given, where).items():
        place = f"{where}, {channel}"
        if channel in ("t", "time") or units_of(channel):
            raise FileReadError(
                f"{place}: a channel that bodysense knows; put it under time, channels or frames."
            )
        table = _table(entry, ("column", *_SCALING), place, key="column")
        result += _columns({**table, "columns": [table["column"]]}, [channel], [channel], place)
    return result


def _time(given: object, where: str) -> ChannelColumn:
    table = _table(given, ("column", "unit", "gain", "offset"), where, key="column")
    columns = {**table, "columns": [table["column"]]}
    return _columns(columns, ["t"], ["time"], where, allowed=("s",))[0]


def _table(
    given: object, keys: Sequence[str], where: str, key: str = "columns"
) -> dict[str, object]:
    """An entry with its columns, which may also stand there alone."""
    if not isinstance(given, Mapping):
        return {key: given}
    table = values.mapping(given, where, keys)
    if key not in table:
        raise FileReadError(f"{where}: {key} missing; say by name or number where the values are.")
    return table


def _columns(
    table: Mapping[str, object],
    channels: Sequence[str],
    each: Sequence[str],
    where: str,
    allowed: tuple[str, ...] | None = None,
) -> list[ChannelColumn]:
    columns = table["columns"]
    if not isinstance(columns, (list, Mapping)):
        raise FileReadError(
            f"{where}: expected a list of columns for {', '.join(each)}; got {columns!r:.60}."
        )
    places = values.one_each(columns, each, f"{where}, columns")
    gains = values.one_each(table.get("gain", 1.0), each, f"{where}, gain")
    offsets = values.one_each(table.get("offset", 0.0), each, f"{where}, offset")
    units = values.one_each(table.get("unit"), each, f"{where}, unit")
    file = _file(table["file"], f"{where}, file") if "file" in table else ""
    result = []
    for k, channel in enumerate(channels):
        place = f"{where}, {each[k]}"
        unit, factor = _unit(units[k], units_of(channel) if allowed is None else allowed, place)
        gain = values.number(gains[k], f"{place}, gain")
        if gain == 0.0:
            raise FileReadError(f"{place}, gain: zero leaves nothing of the values; give another.")
        result.append(
            ChannelColumn(
                channel=channel,
                column=_column(places[k], f"{place}, column"),
                unit=unit,
                factor=factor,
                gain=gain,
                offset=values.number(offsets[k], f"{place}, offset"),
                file=file,
            )
        )
    return result


def _unit(given: object, allowed: tuple[str, ...], where: str) -> tuple[str, float]:
    """SI unit and factor; a channel that bodysense does not know keeps a unit that it does not."""
    if given is None:
        return (allowed[0] if allowed else ""), 1.0
    stated = values.text(given, f"{where}, unit")
    if allowed == ("",):
        raise FileReadError(f"{where}, unit: a quaternion has none; leave the unit out.")
    unit = parse_unit(stated, where) if allowed else find_unit(stated)
    if unit is None:
        return stated, 1.0
    if allowed and unit.si not in allowed:
        raise FileReadError(
            f"{where}: {stated!r} is no unit of it; give one that turns into "
            f"{' or '.join(allowed)}."
        )
    return unit.si, unit.factor


def _column(value: object, where: str) -> str | int:
    return values.whole(value, where) if not isinstance(value, str) else values.text(value, where)


def _file(value: object, where: str) -> str:
    name = values.text(value, where)
    if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
        raise FileReadError(f"{where}: {name!r} is not beside the log; give a name in its folder.")
    return name


def _refuse_repeats(columns: Sequence[ChannelColumn], where: str) -> None:
    channels = set[str]()
    for entry in columns:
        if entry.channel in channels:
            raise FileReadError(f"{where}: {entry.channel!r} is there twice; keep one.")
        channels.add(entry.channel)
    refuse_shared([(entry, (entry.file, entry.column)) for entry in columns], where)


def refuse_shared(
    columns: Sequence[tuple[ChannelColumn, tuple[str, str | int]]], where: str
) -> None:
    """Refuse two channels out of one column, but for a current and the torque made of it.

    Args:
        columns: each with what tells its column from others: file, and name or number.
        where: the layout, for the message.
    """
    users: dict[tuple[str, str | int], ChannelColumn] = {}
    for entry, key in columns:
        other = users.setdefault(key, entry)
        starts = {channel.partition(".")[0] for channel in (entry.channel, other.channel)}
        if other is not entry and starts not in ({"i", "tau"}, {"i_des", "tau_des"}):
            raise FileReadError(
                f"{where}: column {key[1]!r} is {other.channel!r} and {entry.channel!r} at once; "
                "correct one of them."
            )


def _rate(value: object, where: str) -> float:
    rate = values.number(value, where)
    if rate <= 0.0:
        raise FileReadError(f"{where}: {rate:g} rows per second; give a positive number.")
    return rate


def _rows(given: object, where: str) -> tuple[RowRange, ...]:
    table = values.mapping(given, where)
    if table and set(table) <= {"first", "last"}:
        return (_range("*", table, where),)
    return tuple(_range(pattern, rows, f"{where}, {pattern}") for pattern, rows in table.items())


def _range(pattern: str, given: object, where: str) -> RowRange:
    if isinstance(given, list):
        if len(given) != 2:
            raise FileReadError(f"{where}: expected [first, last], got {given!r:.60}.")
        given = {"first": given[0], "last": given[1]}
    table = values.mapping(given, where, ("first", "last"))
    first = values.whole(table.get("first", 1), f"{where}, first")
    last = None if table.get("last") is None else values.whole(table["last"], f"{where}, last")
    if last is not None and last < first:
        raise FileReadError(f"{where}: the last row, {last}, comes before the first, {first}.")
    return RowRange(pattern, first, last)


def _separator(value: object, where: str) -> str | None:
    if value is None or value == "auto":
        return None
    if isinstance(value, str) and value in SEPARATORS.values():
        return value
    if not isinstance(value, str) or value not in SEPARATORS:
        raise unknown_name("separator", str(value), ("auto", *SEPARATORS), f"({where})")
    return SEPARATORS[value]


def _decimal(value: object, where: str) -> str | None:
    if value is None or value == "auto":
        return None
    if value not in (".", ","):
        raise FileReadError(f'{where}: expected "." or ",", got {value!r:.60}.')
    return str(value)


def _header(value: object, where: str) -> bool | int | None:
    if value is None or value == "auto":
        return None
    return value if isinstance(value, bool) else values.whole(value, where)
