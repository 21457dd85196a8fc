"""`SampleDecoder`: from messages to samples of the channels that are wanted.

A line of JSON is a sample: time and channels by name, `{"t": 0.1, "q.elbow": 0.3, "tau.elbow": 4}`,
with the names that logs have (`bodysense.logs.channels`), or a message of ROS. Messages of joint
states are samples; forces, IMUs and joints that come in messages of their own stay valid until the
next one, but no longer than five of their periods.

Nothing that arrives is trusted: what cannot be read is counted, named with the remedy, and absent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.logs.channels import FRAME_QUANTITIES
from bodysense.logs.layout import LogLayout
from bodysense.logs.live.channel_names import ChannelNames
from bodysense.logs.live.faults import StreamFaults, excerpt
from bodysense.logs.live.queue import Arrival
from bodysense.logs.live.ros_json import MessageError, is_message, number, parse_message
from bodysense.logs.ros import DecodingError, Message, decode
from bodysense.spatial.arrays import Array

_HELD = 5.0  # usual periods for which a message of its own counts, as in recordings of ROS
_FIRST = 1.0  # s, the same for a topic whose period is not known yet
_KEPT = 64  # sets of joints or frames that are remembered; more come from no robot
_UNKNOWN = 50  # names that are remembered for messages

_COMPONENTS = {
    start: tuple(c for key, cs, _ in FRAME_QUANTITIES.values() if key == start for c in cs)
    for start in ("wrench", "gyro", "acc", "quat")
}
_SEND = 'send one JSON object per line, as {"t": 0.1, "q.elbow": 0.3}'


class LiveSample(NamedTuple):
    """One sample of a stream.

    Attributes:
        t: time, by the clock of the source [s].
        arrived: when its message was there, by `time.perf_counter` [s].
        values: (n,) of the wanted channels, SI units; NaN where nothing came.
    """

    t: float
    arrived: float
    values: Array


class _Held(NamedTuple):
    """What came in a message of its own: places of its channels, values, until when they count."""

    places: NDArray[np.int64]
    values: Array
    t: float
    until: float


class SampleDecoder:
    """Reads messages into samples.

    Attributes:
        channels: names of the values of a sample, positions first.
        seen: (n,) which of them have come so far.
        unknown: names that came and are not wanted.
    """

    def __init__(
        self,
        positions: Sequence[str],
        others: Sequence[str],
        faults: StreamFaults,
        *,
        layout: LogLayout | None = None,
        clock: Callable[[float], float] = lambda arrived: arrived,
    ) -> None:
        """Lay out the channels.

        Args:
            positions: channels of which any one makes a message a sample.
            others: further channels that are wanted.
            faults: that count what cannot be read.
            layout: names, units, gains and offsets of the source, and its topic of joint states.
            clock: time of a sample without time, from when it arrived [s].

        Raises:
            MismatchError: a layout that a stream cannot have.
        """
        self.channels = tuple(dict.fromkeys((*positions, *others)))
        self.seen = np.zeros(len(self.channels), dtype=np.bool_)
        self.unknown: dict[str, None] = {}
        self._n_positions = len(dict.fromkeys(positions))
        self._faults, self._clock = faults, clock
        self._names = ChannelNames(self.channels, layout)
        self._topic = None if layout is None else layout.topic
        self._held: dict[Hashable, _Held] = {}
        self._places: dict[tuple[str, tuple[str, ...]], NDArray[np.int64]] = {}
        self._joints: dict[Hashable, int] = {}
        self._stampless = False
        self._json = json.JSONDecoder(parse_constant=self._constant).decode

    def decode(self, arrival: Arrival) -> LiveSample | None:
        """The sample that a message completes; `None` if it is none, or part of a later one."""
        try:
            if arrival.kind != "json":
                return self._message(decode(arrival.kind, arrival.data), arrival)
            return self._line(arrival)
        except (MessageError, DecodingError) as error:
            self._faults.report(
                "unreadable messages",
                f"a message{_of(arrival.topic)} cannot be read: {error}. Such messages are "
                "left out.",
            )
        return None

    def forget(self) -> None:
        """Forget messages that are still valid, as after a clock was set back."""
        self._held.clear()

    def _line(self, arrival: Arrival) -> LiveSample | None:
        try:
            table = self._json(arrival.data.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            self._faults.report(
                "lines that are no JSON",
                f"a line is no JSON ({_reason(error)}): {excerpt(arrival.data)!r}. Such lines are "
                f"left out: {_SEND}.",
            )
            return None
        if not isinstance(table, dict):
            self._faults.report(
                "lines that are no objects",
                f"a line is no JSON object: {excerpt(arrival.data)!r}; {_SEND}.",
            )
            return None
        if "op" in table:
            return self._rosbridge(table, arrival)
        if is_message(table):
            return self._message(parse_message(table), arrival)
        return self._channels(table, arrival)

    def _rosbridge(self, table: Mapping[str, Any], arrival: Arrival) -> LiveSample | None:
        message, topic = table.get("msg"), table.get("topic", "")
        if table["op"] == "status" and table.get("level") in ("error", "warning"):
            self._faults.report("errors of rosbridge", f"rosbridge says: {message!r:.200}")
        if table["op"] != "publish" or not isinstance(message, dict) or not is_message(message):
            return None
        return self._message(parse_message(message), arrival._replace(topic=str(topic)))

    def _channels(self, table: Mapping[str, Any], arrival: Arrival) -> LiveSample | None:
        names = self._names
        row, stamp = [math.nan] * len(self.channels), None
        for key, value in table.items():
            place = names.places.get(key)
            if place is None:
                if key in names.time:
                    stamp = value
                elif len(self.unknown) < _UNKNOWN:
                    self.unknown[key] = None
            elif type(value) is float:
                row[place] = value
            else:
                row[place] = self._number(key, value)
        t = self._time(stamp, arrival)
        return None if t is None else self._sample(t, arrival, np.array(row))

    def _number(self, key: str, value: object) -> float:
        try:
            return number(value, key)
        except MessageError as error:
            self._faults.report("values that are no numbers", f"{error}. They count as absent.")
            return math.nan

    def _time(self, stamp: object, arrival: Arrival) -> float | None:
        """Time of a sample; that of its arrival if it has none, `None` if it cannot be read."""
        if stamp is None:
            self._timeless()
            return self._arrival_time(arrival)
        value = self._number("t", stamp)
        if not math.isfinite(value):
            self._faults.report(
                "samples without a time",
                "a sample has no finite time. Such samples are left out: send t in seconds.",
            )
            return None
        return self._names.seconds(value)

    def _timeless(self) -> None:
        self._faults.report(
            "samples timed by arrival",
            "samples come without time: that of their arrival is taken, which varies more than the "
            "time of measurement. Send it as t in seconds, or name it in the layout file (time:).",
        )

    def _arrival_time(self, arrival: Arrival) -> float:
        return self._clock(arrival.at) if math.isnan(arrival.recorded) else arrival.recorded

    def _message(self, message: Message, arrival: Arrival) -> LiveSample | None:
        if message.joints and self._topic and arrival.topic and arrival.topic != self._topic:
            return None
        if message.stamp:
            self._stampless = False
            seconds, rest = divmod(message.stamp, 10**9)
            t = self._names.seconds(seconds + rest / 1e9)
        elif not self._stampless:  # zero: a simulation that begins, or stamps that nobody sets
            self._stampless = True
            return None
        else:
            self._timeless()
            t = self._arrival_time(arrival)
        row = np.full(len(self.channels), np.nan)
        for start, numbers in message.values.items():
            for parts in _parts(message, start, arrival.topic):
                places = self._places_of(start, parts)
                wanted = places >= 0
                row[places[wanted]] = np.array(numbers)[wanted]
        whose = message.joints or (arrival.topic, message.frame, *message.values)
        return self._sample(t, arrival, row, whose)

    def _places_of(self, start: str, parts: tuple[str, ...]) -> NDArray[np.int64]:
        """Where channels go, -1 for those that are not wanted."""
        places = self._places.get((start, parts))
        if places is None:
            if len(self._places) >= _KEPT:
                self._places.clear()
            names = [f"{start}.{part}" for part in parts]
            places = np.array([self._names.places.get(name, -1) for name in names], dtype=np.int64)
            self._places[start, parts] = places
            for name, place in zip(names, places, strict=True):
                if place < 0 and len(self.unknown) < _UNKNOWN:
                    self.unknown[name] = None
        return places

    def _sample(
        self, t: float, arrival: Arrival, row: Array, whose: Hashable = None
    ) -> LiveSample | None:
        """The sample of a message; `None` if it is held for later ones.

        `whose` are joints or a frame that come in messages of their own; `None` for a line.
        """
        self._names.convert(row)
        finite = np.isfinite(row)
        if np.isinf(row).any():
            self._infinite()
            row[~finite] = np.nan
        self.seen |= finite
        if not self._completes(int(np.count_nonzero(finite[: self._n_positions])), whose):
            self._hold((whose, finite.tobytes()), t, row, np.flatnonzero(finite))
            return None
        for held in self._held.values():
            if held.t - _FIRST <= t <= held.until:
                row[held.places] = np.where(finite[held.places], row[held.places], held.values)
        return LiveSample(t, arrival.at, row)

    def _completes(self, positions: int, whose: Hashable) -> bool:
        """Whether a message with so many positions is a sample.

        Of joints that come in several messages, those with the most of them make the samples.
        """
        if whose is not None and positions and (whose in self._joints or len(self._joints) < _KEPT):
            self._joints[whose] = max(positions, self._joints.get(whose, 0))
        most = 1 if whose is None else max(self._joints.values(), default=1)
        return positions > 0 and (positions >= most or self._joints.get(whose) == most)

    def _hold(self, group: Hashable, t: float, row: Array, places: NDArray[np.int64]) -> None:
        if not places.size:
            return
        before = self._held.get(group)
        period = _FIRST / _HELD if before is None or not t > before.t else t - before.t
        if before is None and len(self._held) >= _KEPT:
            self._held.clear()
        self._held[group] = _Held(places, row[places], t, t + _HELD * period)

    def _constant(self, token: str) -> float:
        self._infinite(token)
        return math.nan

    def _infinite(self, token: str = "an infinite number") -> None:
        self._faults.report(
            "NaN or infinite values",
            f"values are not finite ({token}). They count as absent: send null, or leave them out.",
        )


def _parts(message: Message, start: str, topic: str) -> list[tuple[str, ...]]:
    """Names of the numbers of a message: of its joints, its frame, and its topic instead."""
    if message.joints:
        return [message.joints]
    owners = (message.frame.strip("/"), topic.strip("/").replace("/", "_"))
    return [tuple(f"{o}.{c}" for c in _COMPONENTS[start]) for o in dict.fromkeys(owners) if o]


def _of(topic: str) -> str:
    return f" of {topic}" if topic else ""


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not in UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:80]
