"""Where recordings of ROS 2 keep their messages: MCAP files, SQLite files, folders of them."""

from __future__ import annotations

import contextlib
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from bodysense.errors import FileReadError, MissingDependencyError
from bodysense.schema import Schema

# Messages of ROS 2 that bodysense understands, decoded from CDR.
#
# Their definitions are fixed and stand here; those that a recording brings along are not used, so
# nothing of a file is ever compiled or run. Layouts: sensor_msgs/msg/JointState,
# sensor_msgs/msg/Imu, geometry_msgs/msg/WrenchStamped. Encoding: OMG CDR as used by DDS (plain CDR,
# either byte order).

_MOST = 2**20  # entries of a sequence, bytes of a text: more is damage


class DecodingError(Exception):
    """Bytes that are not a message of the type; the readers turn it into a `RowFault`."""


@dataclass(frozen=True)
class Message:
    """What one message says.

    Attributes:
        stamp: time of measurement [ns], 0 if it has none.
        frame: in which it was measured.
        joints: names of the joints.
        values: numbers by what comes before the joint's name, or by component.
    """

    stamp: int
    frame: str
    joints: tuple[str, ...] = ()
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


class _Cdr:
    """A cursor in the bytes of a message; alignment counts from behind its four bytes of header."""

    def __init__(self, data: bytes) -> None:
        if len(data) < 4 or data[0] != 0 or data[1] not in (0, 1):
            raise DecodingError("not encoded as plain CDR")
        self.data, self.at, self.order = data, 4, "<" if data[1] else ">"

    def take(self, kind: str, count: int = 1) -> tuple[float, ...]:
        """Numbers of a kind of the module struct."""
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
        size = self.count()
        end = self.at + size
        if end > len(self.data):
            raise DecodingError(f"{len(self.data)} bytes, at least {end} are needed")
        raw, self.at = self.data[self.at : end], end
        return raw.rstrip(b"\0").decode("utf-8", "replace")

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
    return Message(stamp, frame, values={"wrench": cdr.take("d", 6)})


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
    return Message(stamp, frame, values=vectors)


JOINT_STATE = "sensor_msgs/msg/JointState"
DECODERS: Mapping[str, Callable[[_Cdr], Message]] = MappingProxyType(
    {
        JOINT_STATE: _joint_state,
        "geometry_msgs/msg/WrenchStamped": _wrench,
        "sensor_msgs/msg/Imu": _imu,
    }
)
"""Types of messages that are read."""


def decode(kind: str, data: bytes) -> Message:
    """Decode a message of a type out of `DECODERS`.

    Raises:
        DecodingError: the bytes are none.
    """
    return DECODERS[kind](_Cdr(data))


_METADATA = "metadata.yaml"


@dataclass
class Bag:
    """Messages as bytes, in the order of the files.

    Attributes:
        files: that were read.
        topics: their types, those that are not read included.
        messages: by topic: time of recording [ns] and bytes.
        notes: what went wrong without stopping the reader.
    """

    files: list[Path] = field(default_factory=list)
    topics: dict[str, str] = field(default_factory=dict)
    messages: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, topic: str, kind: str, time: int, data: bytes) -> None:
        """Keep a message if its type can be read."""
        if kind in DECODERS:
            self.messages.setdefault(topic, []).append((time, data))


def read_recording(path: Path) -> Bag:
    """Read all messages of the types in `DECODERS`.

    Raises:
        FileReadError: the recording is damaged beyond its end, compressed as a file, or something
            else.
        MissingDependencyError: MCAP needs a package that is not installed.
    """
    recording = Bag()
    paths = [path]
    if path.is_dir():
        paths = list(_files_of_bag(path))
        recording.files.append(path / _METADATA)
    for file in paths:
        recording.files.append(file)
        if file.suffix.lower() == ".mcap":
            _read_mcap(file, recording)
        else:
            _read_sqlite(file, recording)
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


def _read_mcap(path: Path, recording: Bag) -> None:
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


def _read_sqlite(path: Path, recording: Bag) -> None:
    if not path.is_file():
        raise FileReadError(f"cannot read {path}: no such file; is the bag complete?")
    try:
        uri = f"{path.resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")  # the file brings its own
            topics = {
                int(key): (str(name), str(kind), str(form))
                for key, name, kind, form in database.execute(
                    "SELECT id, name, type, serialization_format FROM topics"
                )
            }
            recording.topics.update(
                {name: kind if form == "cdr" else form for name, kind, form in topics.values()}
            )
            wanted = [
                key for key, (_, kind, form) in topics.items() if kind in DECODERS and form == "cdr"
            ]
            marks = ", ".join("?" * len(wanted))
            for key, time, data in database.execute(
                f"SELECT topic_id, timestamp, data FROM messages WHERE topic_id IN ({marks}) "
                "ORDER BY id",
                wanted,
            ):
                topic, kind, _ = topics[key]
                recording.add(topic, kind, int(time), bytes(data))
    except (sqlite3.Error, TypeError, ValueError, KeyError) as error:
        raise FileReadError(
            f"cannot read {path} as a ROS 2 bag: {error}; is it complete?"
        ) from error
