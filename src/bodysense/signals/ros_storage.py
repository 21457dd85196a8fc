"""Where recordings of ROS 2 keep their messages: MCAP files, SQLite files, folders of them."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bodysense.errors import FileReadError, MissingDependencyError
from bodysense.signals.layout_values import read_mapping
from bodysense.signals.ros_messages import DECODERS

_METADATA = "metadata.yaml"


@dataclass
class Recording:
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


def read_recording(path: Path) -> Recording:
    """Read all messages of the types in `DECODERS`.

    Raises:
        FileReadError: the recording is damaged beyond its end, compressed as a file, or something
            else.
        MissingDependencyError: MCAP needs a package that is not installed.
    """
    recording = Recording()
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
    table = read_mapping(where).get("rosbag2_bagfile_information")
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


def _read_mcap(path: Path, recording: Recording) -> None:
    try:
        from mcap.records import Channel, Message, Schema
        from mcap.stream_reader import StreamReader
    except ImportError as error:
        raise MissingDependencyError(
            'MCAP needs the package mcap: pip install "bodysense[ros]".'
        ) from error
    schemas: dict[int, str] = {}
    channels: dict[int, tuple[str, str]] = {}
    found = 0
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
                    found += 1
                    topic, kind = channels[record.channel_id]
                    recording.add(topic, kind, record.log_time, record.data)
    except OSError as error:
        raise FileReadError(f"cannot read {path}: {error.strerror}; check the path.") from error
    except Exception as error:  # damage shows as McapError, struct.error, ZstdError, KeyError, …
        if not found:
            raise FileReadError(
                f"cannot read {path} as MCAP: {type(error).__name__} {error}; is it complete?"
            ) from error
        recording.notes.append(
            f"{path.name} is damaged or was cut off after {found} messages; those were read."
        )


def _read_sqlite(path: Path, recording: Recording) -> None:
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
