"""Rosbridge: ROS 2 over a websocket, `ws://HOST:9090`, without ROS on this machine.

The protocol is JSON, version 2 of rosbridge_suite: `subscribe` and `publish` messages of topics,
`advertise` those that are published, `call_service`. A connection that is lost is made again.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from socket import SHUT_RDWR
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bodysense.errors import FileReadError, MissingDependencyError, listing
from bodysense.logs.live.faults import StreamFaults
from bodysense.logs.live.queue import Arrival, DroppingQueue
from bodysense.logs.live.source import LONGEST, POLL, Source
from bodysense.logs.ros import READABLE

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

USUAL_TOPIC = "/joint_states"
"""Where robots publish their joint states."""

_PORT = 9090  # of rosbridge_server
_OPEN = 3.0  # s that a connection has to be made
_AGAIN = 1.0  # s between attempts
_TOPICS = "/rosapi/topics"  # service that lists topics with their types
_ANSWER = 2.0  # s that it has
_JOINT_STATE = "sensor_msgs/msg/JointState"


def require_address(address: str) -> str:
    """The address of a rosbridge, with its port.

    Raises:
        FileReadError: it is no such address.
        MissingDependencyError: the package websockets is missing.
    """
    try:
        parts = urlsplit(address)
        port = parts.port or _PORT
    except ValueError:
        port = 0
    if not port or not parts.hostname:
        raise FileReadError(f"{address} is no address: write ws://HOST:PORT, e.g. ws://robot:9090.")
    try:
        import websockets.sync.client  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            'rosbridge needs the package websockets: pip install "bodysense[live]".'
        ) from error
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}{parts.path}"


def full_type(kind: str) -> str:
    """The name of a type as ROS 2 writes it: ``sensor_msgs/msg/Imu`` for ``sensor_msgs/Imu``."""
    package, _, name = kind.partition("/")
    return kind if name.startswith("msg/") else f"{package}/msg/{name}"


class Rosbridge:
    """A connection, made again where it is lost.

    Attributes:
        address: of the websocket.
    """

    def __init__(self, address: str, faults: StreamFaults) -> None:
        """Take the address; nothing is connected yet. It raises what `require_address` raises."""
        self.address = require_address(address)
        self._faults = faults
        self._socket: ClientConnection | None = None
        self._tried = -math.inf

    @property
    def connected(self) -> bool:
        return self._socket is not None

    def connect(self) -> bool:
        """Try to connect, a second after the last attempt at the soonest; whether it is anew."""
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        now = time.perf_counter()
        if self._socket is not None or now - self._tried < _AGAIN:
            return False
        self._tried = now
        try:
            # Messages are small and many: compressing them would cost more than it saves.
            self._socket = connect(
                self.address,
                open_timeout=_OPEN,
                close_timeout=POLL,
                compression=None,
                proxy=None,
                max_size=LONGEST,
                max_queue=1024,
            )
        except (OSError, WebSocketException) as error:
            self._faults.report(
                "failed connections",
                f"cannot connect to {self.address} ({error}): does rosbridge_server run there? "
                "Trying again every second.",
            )
            return False
        self._faults.say(f"connected to {self.address}")
        return True

    def send(self, messages: Iterable[Mapping[str, Any]]) -> bool:
        """Send operations; whether the connection still stands."""
        from websockets.exceptions import WebSocketException

        if self._socket is None:
            return False
        try:
            for message in messages:
                self._socket.send(json.dumps(message, allow_nan=False))
        except (OSError, WebSocketException) as error:
            self._lost(error)
        return self._socket is not None

    def receive(self, timeout: float) -> bytes | None:
        """A message as it comes; `None` if none comes in time [s], or the connection is lost."""
        from websockets.exceptions import WebSocketException

        if self._socket is None:
            return None
        try:
            message = self._socket.recv(timeout)
        except TimeoutError:
            return None
        except (OSError, WebSocketException) as error:
            self._lost(error)
            return None
        return message.encode() if isinstance(message, str) else bytes(message)

    def close(self) -> None:
        """End the connection."""
        socket, self._socket = self._socket, None
        if socket is not None:
            with contextlib.suppress(Exception):
                socket.close()
            socket.socket.close()  # also where the other side did not answer in time

    def abort(self) -> None:
        """Let a `send` return that waits for the other side."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.socket.shutdown(SHUT_RDWR)

    def _lost(self, error: Exception) -> None:
        self.close()
        self._faults.report(
            "lost connections",
            f"the connection to {self.address} was lost ({error}): connecting again.",
        )


class RosbridgeSource(Source):
    """Joint states, wrenches and IMUs that are published in ROS.

    Without topics those are subscribed to that rosapi lists with a type that is read; where it does
    not run, ``/joint_states`` alone.
    """

    def __init__(
        self,
        address: str,
        faults: StreamFaults,
        *,
        topics: Sequence[str] = (),
        joint_topic: str | None = None,
    ) -> None:
        """Take the address; `joint_topic` is the one of joint states, where there are several."""
        super().__init__(address, faults)
        self._bridge = Rosbridge(address, faults)
        self._topics = tuple(topics)
        self._joint_topic = joint_topic

    def receive(self, queue: DroppingQueue[Arrival], stop: threading.Event) -> None:
        bridge = self._bridge
        try:
            while not stop.is_set():
                if bridge.connect():
                    self._subscribe(queue)
                if not bridge.connected:
                    stop.wait(POLL)
                    continue
                data = bridge.receive(POLL)
                if data is not None:
                    queue.put(Arrival(time.perf_counter(), "json", "", data))
        finally:
            bridge.close()

    def _subscribe(self, queue: DroppingQueue[Arrival]) -> None:
        wanted = {topic: "" for topic in self._topics} or self._listed(queue)
        states = [topic for topic, kind in wanted.items() if kind == _JOINT_STATE]
        chosen = self._joint_topic or (USUAL_TOPIC if USUAL_TOPIC in states else None)
        if len(states) > 1:
            chosen = chosen or states[0]
            self.faults.say(
                f"joint states are on several topics, {listing(states)}: those of {chosen} are "
                "used. Name another with --topics."
            )
        if chosen is not None:
            wanted = {t: kind for t, kind in wanted.items() if t not in states or t == chosen}
            wanted.setdefault(chosen, _JOINT_STATE)
        self._bridge.send(
            {"op": "subscribe", "topic": topic, "compression": "none"}
            | ({"type": kind} if kind else {})
            for topic, kind in wanted.items()
        )
        self.faults.say(f"subscribed to {listing(wanted, 12)}")

    def _listed(self, queue: DroppingQueue[Arrival]) -> dict[str, str]:
        """Topics with types that are read, as rosapi lists them."""
        self._bridge.send([{"op": "call_service", "service": _TOPICS, "id": "topics"}])
        end = time.perf_counter() + _ANSWER
        while time.perf_counter() < end and self._bridge.connected:
            data = self._bridge.receive(POLL)
            answer = _answer(data)
            if answer is not None:
                topics, kinds = answer.get("topics"), answer.get("types")
                if isinstance(topics, list) and isinstance(kinds, list) and topics:
                    listed = {
                        str(t): full_type(str(k)) for t, k in zip(topics, kinds, strict=False)
                    }
                    return {t: k for t, k in listed.items() if k in READABLE and not _own(t)}
                break
        self.faults.say(
            f"rosapi does not list topics: subscribing to {USUAL_TOPIC} alone. Name others with "
            "--topics, or run rosapi beside rosbridge."
        )
        return {USUAL_TOPIC: _JOINT_STATE}


def _own(topic: str) -> bool:
    """Whether results of bodysense are published there, which are no readings."""
    return topic.startswith("/bodysense/")


def _answer(data: bytes | None) -> Mapping[str, Any] | None:
    """What rosapi answered; empty if it cannot, `None` for another message."""
    try:
        table = json.loads(data or b"null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(table, dict) or table.get("op") != "service_response":
        return None
    values = table.get("values")
    return values if isinstance(values, dict) else {}
