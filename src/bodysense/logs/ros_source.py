"""Recordings of ROS 2 as a table: joint states, and forces and IMUs brought to their times.

One row a message of the joint states, counted from 1. Time is the stamp of the messages, or the
time of recording if a topic has no stamps. Other topics, and joints whose states come in messages
of their own, are interpolated linearly between the two messages around; there is no value before
the first, after the last, or in a gap of more than five usual periods.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import FileReadError, unknown_name
from bodysense.logs.channels import FRAME_QUANTITIES, units_of
from bodysense.logs.log import LogFile, LogTable, RowFault
from bodysense.logs.ros_storage import (
    JOINT_STATE,
    Bag,
    DecodingError,
    Message,
    decode,
    read_recording,
)
from bodysense.spatial.arrays import Array

_GAP = 5.0  # usual periods
_RARE = 0.01  # share of the messages below which a set of joints is an exception
_COMPONENTS = {
    start: tuple(c for key, cs, _ in FRAME_QUANTITIES.values() if key == start for c in cs)
    for start in ("wrench", "gyro", "acc", "quat")
}


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

    Raises:
        FileReadError: the recording is damaged, or has no joint states, or several topics of them.
        UnknownNameError: there is no such topic.
        MissingDependencyError: MCAP needs a package that is not installed.
    """
    recording = read_recording(path)
    chosen = _joint_topic(recording, topic, path.name)
    received: dict[str, list[_Received]] = {}
    faults: list[RowFault] = []
    for name, messages in recording.messages.items():
        kind = recording.topics[name]
        if kind == JOINT_STATE and name != chosen:
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


def _joint_topic(recording: Bag, wanted: str | None, where: str) -> str:
    topics = [name for name, kind in recording.topics.items() if kind == JOINT_STATE]
    if wanted is not None:
        if wanted not in topics:
            raise unknown_name("topic of joint states", wanted, topics, f"(in {where})")
        return wanted
    if not topics:
        result = ", ".join(f"{name} ({kind})" for name, kind in recording.topics.items())
        raise FileReadError(
            f"{where} has no topic of type {JOINT_STATE}; it has {result or 'none at all'}."
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
    quaternions = sorted({name.rpartition(".")[0] for name in values if name.startswith("quat.")})
    for frame in quaternions:
        parts = [f"{frame}.{part}" for part in _COMPONENTS["quat"]]
        stack = np.stack([values[part] for part in parts])
        # q and -q are the same orientation: without a jump between the two, or the middle is zero.
        turned = np.where(np.sum(stack[:, 1:] * stack[:, :-1], axis=0) < 0.0, -1.0, 1.0)
        stack[:, 1:] *= np.cumprod(turned)
        values.update(dict(zip(parts, stack, strict=True)))
    result = {
        name: np.where(reachable, np.interp(at, of, column), np.nan)
        for name, column in values.items()
    }
    for frame in quaternions:
        parts = [f"{frame}.{part}" for part in _COMPONENTS["quat"]]
        length = np.linalg.norm([result[part] for part in parts], axis=0)
        length[length == 0.0] = np.nan
        result.update({part: result[part] / length for part in parts})
    return result
