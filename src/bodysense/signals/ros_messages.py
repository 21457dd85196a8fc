"""Messages of ROS 2 that bodysense understands, decoded from CDR.

Their definitions are fixed and stand here; those that a recording brings along are not used, so
nothing of a file is ever compiled or run. Layouts: sensor_msgs/msg/JointState, sensor_msgs/msg/Imu,
geometry_msgs/msg/WrenchStamped. Encoding: OMG CDR as used by DDS (plain CDR, either byte order).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

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
        found = struct.unpack_from(f"{self.order}{count}{kind}", self.data, self.at)
        self.at = end
        return found

    def count(self) -> int:
        (found,) = self.take("I")
        if found > _MOST:
            raise DecodingError(f"a length of {found}")
        return int(found)

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
