"""Messages of ROS as JSON, as rosbridge sends them, brought to the form of recordings.

A message says its type by its fields: joint states have names, wrenches a wrench, IMUs an angular
velocity. Numbers that are missing are null, as rosbridge writes NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from bodysense.logs.ros import Message

_STATE = {"q": "position", "v": "velocity", "tau": "effort"}
_IMU = {
    "quat": ("orientation", "wxyz"),
    "gyro": ("angular_velocity", "xyz"),
    "acc": ("linear_acceleration", "xyz"),
}
_SECONDS = (("sec", "nanosec"), ("secs", "nsecs"))  # of ROS 2 and of ROS 1


class MessageError(ValueError):
    """A message that has not the fields of its type; its text says which and what to send."""


def is_message(table: Mapping[str, object]) -> bool:
    """Whether a JSON object is a message of a type that is read, rather than channels by name."""
    return "name" in table or "wrench" in table or "angular_velocity" in table


def parse_message(table: Mapping[str, object]) -> Message:
    """Read joint states, a wrench or an IMU; stamp 0 where there is none.

    Raises:
        MessageError: the fields are not those of the type.
    """
    header = table.get("header")
    where = header if isinstance(header, Mapping) else table
    stamp, frame = _stamp(where.get("stamp")), where.get("frame_id", "")
    if not isinstance(frame, str):
        raise MessageError("frame_id is no text")
    if "name" in table:
        return _joint_state(table, stamp)
    if "wrench" in table:
        wrench = _object(table, "wrench")
        force, torque = _object(wrench, "force"), _object(wrench, "torque")
        values = (*_vector(force, "xyz", "force"), *_vector(torque, "xyz", "torque"))
        return Message(stamp, frame, (), {"wrench": values})
    vectors = {}
    for start, (key, components) in _IMU.items():
        covariance = table.get(f"{key}_covariance")
        measured = not (isinstance(covariance, list) and covariance and covariance[0] == -1)
        if key in table and measured:  # -1 is how the message says: not measured
            vectors[start] = _vector(_object(table, key), components, key)
    return Message(stamp, frame, (), vectors)


def number(value: object, what: str) -> float:
    """A number of JSON, NaN for null; a `MessageError` for all else."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MessageError(f"{what} is {value!r:.40}, which is no number: send it without quotes")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _joint_state(table: Mapping[str, object], stamp: int) -> Message:
    names = table["name"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise MessageError("name is no list of joints")
    if len(set(names)) != len(names):
        raise MessageError("name has a joint twice")
    values = {}
    for quantity, key in _STATE.items():
        given = table.get(key)
        if given is None or given == []:
            continue
        if not isinstance(given, list) or len(given) != len(names):
            size = len(given) if isinstance(given, list) else "no list"
            raise MessageError(f"{key} has {size} values for {len(names)} joints")
        values[quantity] = tuple(
            number(value, f"{key} of {names[k]}") for k, value in enumerate(given)
        )
    return Message(stamp, "", tuple(names), values)


def _stamp(value: object) -> int:
    """Nanoseconds from seconds, or from seconds and nanoseconds; 0 where there is no stamp."""
    if value is None:
        return 0
    if isinstance(value, Mapping):
        for seconds, rest in _SECONDS:
            if seconds in value:
                parts = number(value[seconds], seconds), number(value.get(rest, 0), rest)
                if all(map(math.isfinite, parts)):
                    return int(parts[0]) * 10**9 + int(parts[1])
        raise MessageError("stamp has no sec and nanosec")
    seconds_alone = number(value, "stamp")
    if not math.isfinite(seconds_alone):
        raise MessageError("stamp is not finite")
    return round(seconds_alone * 1e9)


def _object(table: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = table.get(key)
    if not isinstance(value, Mapping):
        raise MessageError(f"{key} is missing, or no object")
    return value


def _vector(table: Mapping[str, object], components: str, what: str) -> tuple[float, ...]:
    return tuple(number(table.get(part), f"{part} of {what}") for part in components)
