"""Recordings of ROS 2 as a table: joint states, and forces and IMUs brought to their times.

One row per message of the joint states, counted from 1. Time is the stamp of the messages, or the
time of recording if a topic has no stamps. Other topics, and joints whose states come in messages
of their own, are interpolated linearly between the two messages around; there is no value before
the first, after the last, or in a gap of more than five usual periods.

Messages are kept in MCAP files, SQLite files or folders of them, encoded in OMG CDR as used by DDS
(plain CDR, either byte order). Their definitions are fixed and stand here; those that a recording
brings along are not used, so nothing of a file is ever compiled or run.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import FileReadError, MissingDependencyError, unknown_name
from bodysense.logs.channels import FRAME_QUANTITIES, units_of
from bodysense.logs.log import LogFile, LogTable, RowFault
from bodysense.schema import Schema
from bodysense.spatial.arrays import Array

_GAP = 5.0  # usual periods
_RARE = 0.01  # share of the messages below which a set of joints is an exception
_MOST = 2**20  # entries of a sequence, bytes of a text: more is damage
_METADATA = "metadata.yaml"
_COMPONENTS = {
    start: tuple(c for key, cs, _ in FRAME_QUANTITIES.values() if key == start for c in cs)
    for start in ("wrench", "gyro", "acc", "quat")
}


class DecodingError(Exception):
    """Bytes that are not a message of the type; it becomes a `RowFault`."""


class Message(NamedTuple):
    """Time of measurement [ns] or 0, frame, joints, and numbers by the start of their channels."""

    stamp: int
    frame: str
    joints: tuple[str, ...]
    values: Mapping[str, tuple[float, ...]]


class _Cdr:
    """A cursor in the bytes of a message; alignment counts from behind its four bytes of header."""

    def __init__(self, data: bytes) -> None:
        if len(data) < 4 or data[0] != 0 or data[1] not in (0, 1):
            raise DecodingError("not encoded as plain CDR")
        self.data, self.at, self.order = data, 4, "<" if data[1] else ">"

    def take(self, kind: str, count: int = 1) -> tuple[Any, ...]:
        """Values of a kind of the module struct."""
        if not count:
            return ()
        size = struct.calcsize(kind)
        self.at += -(self.at - 4) % size
        end = self.at + size * count
        if end > len(self.data):
            raise DecodingError(f"{len(self.data)} bytes, at least {end} are needed")
        result = struct.unpack_from(f"{self.order}{count}{kind}", self.data, self.at)
        self.at = end
        return result

    def count(self) -> int:
        (result,) = self.take("I")
        if result > _MOST:
            raise DecodingError(f"a length of {result}")
        return int(result)

    def text(self) -> str:
        return b"".join(self.take("s", self.count())).rstrip(b"\0").decode("utf-8", "replace")

    def header(self) -> tuple[int, str]:
        seconds, nanoseconds = self.take("i")[0], self.take("I")[0]
        return int(seconds) * 10**9 + int(nanoseconds), self.text()


def _joint_state(cdr: _Cdr) -> Message:
    stamp, frame = cdr.header()
    joints = tuple(cdr.text() for _ in range(cdr.count()))
    values = {quantity: cdr.take("d", cdr.count()) for quantity in ("q", "v", "tau")}
    for quantity, numbers in values.items():
        if numbers and len(numbers) != len(joints):
            raise DecodingError(f"{len(numbers)} values of {quantity} for {len(joints)} joints")
    if len(set(joints)) != len(joints):
        raise DecodingError("a joint that is named twice")
    return Message(stamp, frame, joints, {key: x for key, x in values.items() if x})


def _wrench(cdr: _Cdr) -> Message:
    stamp, frame = cdr.header()
    return Message(stamp, frame, (), {"wrench": cdr.take("d", 6)})


def _imu(cdr: _Cdr) -> Message:
    stamp, frame = cdr.header()
    vectors = {}
    for name, size in (("quat", 4), ("gyro", 3), ("acc", 3)):
        vector, covariance = cdr.take("d", size), cdr.take("d", 9)
        if covariance[0] != -1.0:  # so says the message: not measured
            vectors[name] = vector
    if "quat" in vectors:  # ROS puts w last
        x, y, z, w = vectors["quat"]
        vectors["quat"] = (w, x, y, z)
    return Message(stamp, frame, (), vectors)


_JOINT_STATE = "sensor_msgs/msg/JointState"
_DECODERS: Mapping[str, Callable[[_Cdr], Message]] = {
    _JOINT_STATE: _joint_state,
    "geometry_msgs/msg/WrenchStamped": _wrench,
    "sensor_msgs/msg/Imu": _imu,
}
READABLE = frozenset(_DECODERS)
"""Types of messages that are read."""


def decode(kind: str, data: bytes) -> Message:
    """Decode a message of a type that is read; a `DecodingError` if the bytes are none."""
    return _DECODERS[kind](_Cdr(data))


@dataclass
class _Bag:
    """Messages as bytes by topic, each with its time of recording [ns], in the order of the files.

    `topics` are the types of all topics, those that are not read included; `notes` say what went
    wrong without stopping the reader.
    """

    files: list[Path] = field(default_factory=list)
    topics: dict[str, str] = field(default_factory=dict)
    messages: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, topic: str, kind: str, time: int, data: bytes) -> None:
        """Keep a message if its type can be read."""
        if kind in _DECODERS:
            self.messages.setdefault(topic, []).append((time, data))


def _read_recording(path: Path) -> _Bag:
    recording = _Bag()
    paths = [path]
    if path.is_dir():
        paths = list(_files_of_bag(path))
        recording.files.append(path / _METADATA)
    for file in paths:
        recording.files.append(file)
        read = _read_mcap if file.suffix.lower() == ".mcap" else _read_sqlite
        read(file, recording)
    return recording


def _files_of_bag(folder: Path) -> Iterator[Path]:
    where = folder / _METADATA
    table = Schema(kind="a ROS 2 bag's metadata").read(where).get("rosbag2_bagfile_information")
    names = table.get("relative_file_paths") if isinstance(table, dict) else None
    if not isinstance(names, list) or not names or not isinstance(table, dict):
        raise FileReadError(f"{where} lists no files: is it the metadata of a ROS 2 bag?")
    if table.get("compression_mode") or table.get("compression_format"):
        raise FileReadError(
            f"{folder} is compressed by ROS: turn it into a plain bag with `ros2 bag convert`."
        )
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise FileReadError(f"{where}: {name!r} is no file of the bag; list names alone.")
        yield folder / name


def _read_mcap(path: Path, recording: _Bag) -> None:
    try:
        from mcap.records import Channel, Message, Schema
        from mcap.stream_reader import StreamReader
    except ImportError as error:
        raise MissingDependencyError(
            'MCAP needs the package mcap: pip install "bodysense[ros]".'
        ) from error
    schemas: dict[int, str] = {}
    channels: dict[int, tuple[str, str]] = {}
    result = 0
    try:
        with path.open("rb") as stream:
            # In the order of the file, not by its index: a recording that was cut off has none.
            for record in StreamReader(stream, validate_crcs=True).records:
                if isinstance(record, Schema):
                    schemas[record.id] = record.name
                elif isinstance(record, Channel):
                    encoded = record.message_encoding == "cdr"
                    kind = schemas.get(record.schema_id, "") if encoded else record.message_encoding
                    channels[record.id] = (record.topic, kind)
                    recording.topics[record.topic] = kind
                elif isinstance(record, Message):
                    result += 1
                    topic, kind = channels[record.channel_id]
                    recording.add(topic, kind, record.log_time, record.data)
    except OSError as error:
        raise FileReadError(f"cannot read {path}: {error.strerror}; check the path.") from error
    except Exception as error:  # damage shows as McapError, struct.error, ZstdError, KeyError, …
        if not result:
            raise FileReadError(
                f"cannot read {path} as MCAP: {type(error).__name__} {error}; is it complete?"
            ) from error
        recording.notes.append(
            f"{path.name} is damaged or was cut off after {result} messages; those were read."
        )


def _read_sqlite(path: Path, recording: _Bag) -> None:
    if not os.path.isfile(path):  # unlike Path.is_file, also where no file can have such a name
        raise FileReadError(f"cannot read {path}: no such file; is the bag complete?")
    try:
        uri = f"{path.resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")  # the file brings its own
            columns = "id, name, type, serialization_format"
            topics = {
                int(key): (str(name), str(kind if form == "cdr" else form))
                for key, name, kind, form in database.execute(f"SELECT {columns} FROM topics")
            }
            recording.topics |= dict(topics.values())
            wanted = [key for key, (_, kind) in topics.items() if kind in _DECODERS]
            marks = ", ".join("?" * len(wanted))
            for key, time, data in database.execute(
                f"SELECT topic_id, timestamp, data FROM messages WHERE topic_id IN ({marks}) "
                "ORDER BY id",
                wanted,
            ):
                recording.add(*topics[key], int(time), bytes(data))
    except (sqlite3.Error, TypeError, ValueError, KeyError) as error:
        raise FileReadError(
            f"cannot read {path} as a ROS 2 bag: {error}; is it complete?"
        ) from error


class _Stream(NamedTuple):
    """Messages that have the same columns: their numbers in the topic, times [ns] and values."""

    rows: NDArray[np.int64]
    times: NDArray[np.int64]
    columns: Mapping[str, Array]


_Received = tuple[int, int, Message]  # number in its topic, when it was recorded [ns], message


def open_recording(path: Path, topic: str | None = None) -> tuple[LogFile, list[Path]]:
    """Read a recording, and say which files it consists of.

    Args:
        path: an MCAP file, a .db3 file, or the folder of a bag.
        topic: of the joint states; may be left out if there is one alone.
    """
    recording = _read_recording(path)
    chosen = _joint_topic(recording, topic, path.name)
    received: dict[str, list[_Received]] = {}
    faults: list[RowFault] = []
    for name, messages in recording.messages.items():
        kind = recording.topics[name]
        if kind == _JOINT_STATE and name != chosen:
            continue
        received[name] = []
        for row, (time, data) in enumerate(messages, start=1):
            try:
                received[name].append((row, time, decode(kind, data)))
            except DecodingError as error:
                if name == chosen:
                    faults.append(RowFault(row, str(error)))
    if not received.get(chosen):
        why = f": message {faults[0].row} has {faults[0].reason}" if faults else ""
        raise FileReadError(f"{path.name}: {chosen} has no message that can be read{why}.")
    received = {name: messages for name, messages in received.items() if messages}
    notes = list(recording.notes)
    silent = [name for name, entries in received.items() if not all(m.stamp for *_, m in entries)]
    if silent:
        notes.append(
            f"time is that of recording, as {', '.join(silent)} has messages without stamp"
        )
    own, *others = _joint_streams(received.pop(chosen), stamped=not silent)
    others += _frame_streams(received, stamped=not silent)
    columns = dict(own.columns)
    for stream in others:
        for name, column in _brought_to(own.times, stream).items():
            columns.setdefault(name, column)
    units = ("s", *(units_of(name)[0] for name in columns))
    values = (_seconds(own.times), *columns.values())

    def read(required: Sequence[int], optional: Sequence[int]) -> LogTable:
        return LogTable({k: values[k] for k in (*required, *optional)}, own.rows, tuple(faults))

    source = LogFile(path.name, ("t", *columns), units, read, tuple(notes))
    return source, recording.files


def _joint_topic(recording: _Bag, wanted: str | None, where: str) -> str:
    topics = [name for name, kind in recording.topics.items() if kind == _JOINT_STATE]
    if wanted is not None:
        if wanted not in topics:
            raise unknown_name("topic of joint states", wanted, topics, f"(in {where})")
        return wanted
    if not topics:
        result = ", ".join(f"{name} ({kind})" for name, kind in recording.topics.items())
        raise FileReadError(
            f"{where} has no topic of type {_JOINT_STATE}; it has {result or 'none at all'}."
        )
    if len(topics) > 1:
        raise FileReadError(
            f"{where} has joint states on several topics: {', '.join(topics)}. Choose one in a "
            "layout: `topic: …`."
        )
    return topics[0]


def _joint_streams(received: Sequence[_Received], *, stamped: bool) -> list[_Stream]:
    """One stream a set of joints that come together, the one that gives the rows first."""
    groups: dict[frozenset[str], list[_Received]] = defaultdict(list)
    for entry in received:
        groups[frozenset(entry[2].joints)].append(entry)
    usual = [key for key, entries in groups.items() if len(entries) >= _RARE * len(received)]
    main = max(usual, key=lambda key: (len(key), len(groups[key])))
    return [
        _stream(groups[key], stamped=stamped)
        for key in sorted(groups, key=lambda key: (key != main, -len(groups[key]), sorted(key)))
    ]


def _frame_streams(received: Mapping[str, list[_Received]], *, stamped: bool) -> list[_Stream]:
    """Streams of vectors, named by their frame, or by their topic where two share a frame."""
    first = {name: entries[0][2] for name, entries in received.items()}
    uses = Counter((m.frame.strip("/"), start) for m in first.values() for start in m.values)
    streams = []
    for name, entries in received.items():
        frame = first[name].frame.strip("/")
        if not frame or any(uses[frame, start] > 1 for start in first[name].values):
            frame = name.strip("/").replace("/", "_")
        streams.append(_stream(entries, frame, stamped=stamped))
    return streams


def _stream(received: Sequence[_Received], frame: str = "", *, stamped: bool) -> _Stream:
    columns: dict[str, Array] = {}
    for k, (_, _, message) in enumerate(received):
        for key, numbers in message.values.items():
            if message.joints:
                targets = [f"{key}.{joint}" for joint in message.joints]
            else:
                targets = [f"{key}.{frame}.{part}" for part in _COMPONENTS[key]]
            for target, number in zip(targets, numbers, strict=True):
                if target not in columns:
                    columns[target] = np.full(len(received), np.nan)
                columns[target][k] = number
    rows = np.array([row for row, _, _ in received], dtype=np.int64)
    times = [message.stamp if stamped else recorded for _, recorded, message in received]
    return _Stream(rows, np.array(times, dtype=np.int64), columns)


def _seconds(times: NDArray[np.int64]) -> Array:
    """Times [s] from those [ns], which are too large for a float to hold all their digits."""
    return np.asarray(times // 10**9 + (times % 10**9) / 1e9, dtype=np.float64)


def _brought_to(times: NDArray[np.int64], stream: _Stream) -> dict[str, Array]:
    """Columns of a stream at other times [ns], interpolated; NaN where nothing is near."""
    known, order = np.unique(stream.times, return_index=True)
    start = int(known[0])
    at, of = (times - start) * 1e-9, (known - start) * 1e-9
    after = np.clip(np.searchsorted(of, at), 1, max(of.size - 1, 1))
    reachable = (at >= of[0]) & (at <= of[-1])
    if of.size > 1:
        steps = np.diff(of)
        reachable &= (steps[after - 1] <= _GAP * np.median(steps)) | np.isin(at, of)
    values = {name: column[order] for name, column in stream.columns.items()}
    frames = {name.rpartition(".")[0] for name in values if name.startswith("quat.")}
    quaternions = [[f"{frame}.{part}" for part in _COMPONENTS["quat"]] for frame in sorted(frames)]
    for parts in quaternions:
        stack = np.stack([values[part] for part in parts])
        # q and -q are the same orientation: without a jump between the two, or the middle is zero.
        turned = np.where(np.sum(stack[:, 1:] * stack[:, :-1], axis=0) < 0.0, -1.0, 1.0)
        stack[:, 1:] *= np.cumprod(turned)
        values |= dict(zip(parts, stack, strict=True))
    result = {
        name: np.where(reachable, np.interp(at, of, column), np.nan)
        for name, column in values.items()
    }
    for parts in quaternions:
        length = np.linalg.norm([result[part] for part in parts], axis=0)
        length[length == 0.0] = np.nan
        result |= {part: result[part] / length for part in parts}
    return result
