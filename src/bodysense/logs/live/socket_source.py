"""`SocketSource`: lines that a robot sends to a port, `tcp://HOST:PORT`.

bodysense listens and the robot connects, so that it can come and go; and it listens only once it
can estimate, so that a robot that is let in loses no sample. One robot counts at a time: another
one is sent away while the first sends, and takes its place when it is silent.
"""

from __future__ import annotations

import contextlib
import ipaddress
import selectors
import socket
import threading
import time
from urllib.parse import urlsplit

from bodysense.errors import FileReadError
from bodysense.logs.live.faults import StreamFaults
from bodysense.logs.live.queue import Arrival, DroppingQueue
from bodysense.logs.live.source import POLL, LineSplitter, Source

_LOOPBACK = "127.0.0.1"
_PIECE = 2**16  # bytes received at once
_SILENT = (
    1.0  # s after which another connection may take over: a robot that is cut off says nothing
)
_QUICK = getattr(socket, "TCP_QUICKACK", None)  # Linux


class SocketSource(Source):
    """Lines of JSON from whoever connects to a port.

    Attributes:
        host: it listens on, this machine's own loopback unless given.
        port: it listens on; with 0 the system chooses one, known after `prepare`.
    """

    def __init__(self, address: str, faults: StreamFaults) -> None:
        """Take ``tcp://HOST:PORT`` apart.

        Raises:
            FileReadError: it is no such address.
        """
        super().__init__(address, faults)
        try:
            parts = urlsplit(address)
            host, port = parts.hostname or _LOOPBACK, parts.port
        except ValueError:
            port = None
        if port is None or parts.path.strip("/") or parts.query:
            raise FileReadError(
                f"{address} is no address: write tcp://HOST:PORT, e.g. tcp://127.0.0.1:9000, to "
                "which the robot connects."
            )
        self.host, self.port = host, port
        self._socket: socket.socket | None = None
        self._connection: socket.socket | None = None
        self._lines = LineSplitter(faults)
        self._last = 0.0

    def prepare(self) -> None:
        try:
            places = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            family, kind, _, _, place = min(places, key=lambda each: each[0] != socket.AF_INET)
            self._socket = socket.socket(family, kind)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(place)
        except OSError as error:
            self.close()
            raise self._refused(error) from error
        host, self.port = self._socket.getsockname()[:2]
        self.name = f"tcp://{f'[{host}]' if ':' in host else host}:{self.port}"
        if not ipaddress.ip_address(host.partition("%")[0]).is_loopback:
            self.faults.say(
                f"{self.name} is open to the network: whoever reaches this machine can send to it. "
                f"tcp://{_LOOPBACK}:{self.port} is for this machine alone."
            )

    def receive(self, queue: DroppingQueue[Arrival], stop: threading.Event) -> None:
        if self._socket is None:
            self.prepare()
        listening = self._socket
        if listening is None:
            return
        try:
            try:
                listening.listen(1)
            except OSError as error:  # the port was taken meanwhile
                raise self._refused(error) from error
            self.faults.say(f"listening on {self.name} for lines of JSON")
            with selectors.DefaultSelector() as selector:
                selector.register(listening, selectors.EVENT_READ)
                while not stop.is_set():
                    for key, _ in selector.select(POLL):
                        if key.fileobj is listening:
                            self._accept(listening, selector, queue)
                        elif key.fileobj is self._connection:
                            self._read(selector, queue)
        finally:
            self.close()

    def _accept(
        self,
        listening: socket.socket,
        selector: selectors.BaseSelector,
        queue: DroppingQueue[Arrival],
    ) -> None:
        connection, peer = listening.accept()
        if self._connection is not None and time.perf_counter() - self._last < _SILENT:
            self.faults.report(
                "second connections",
                f"{peer[0]} connected to {self.name} while another robot sends, and was sent away: "
                "let one robot send, or give each its own port.",
            )
            connection.close()
            return
        if self._connection is not None:
            self._end(selector, queue)
        selector.register(connection, selectors.EVENT_READ)
        self._connection, self._last = connection, time.perf_counter()
        self._lines = LineSplitter(self.faults)

    def _read(self, selector: selectors.BaseSelector, queue: DroppingQueue[Arrival]) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            piece = connection.recv(_PIECE)
            if _QUICK is not None:  # else a sender that collects small pieces waits 40 ms for it
                connection.setsockopt(socket.IPPROTO_TCP, _QUICK, 1)
        except OSError:
            piece = b""
        self._last = time.perf_counter()
        for line in self._lines.split(piece):
            queue.put(Arrival(self._last, "json", "", line))
        if not piece:
            self._end(selector, queue)

    def _end(self, selector: selectors.BaseSelector, queue: DroppingQueue[Arrival]) -> None:
        """Close the connection; whoever comes next may connect."""
        connection, self._connection = self._connection, None
        if connection is not None:
            for line in self._lines.rest():
                queue.put(Arrival(time.perf_counter(), "json", "", line))
            selector.unregister(connection)
            connection.close()
            self.faults.report(
                "connections that ended",
                f"the connection to {self.name} was closed: waiting for the next one.",
            )

    def _refused(self, error: OSError) -> FileReadError:
        return FileReadError(
            f"cannot listen on {self.host}, port {self.port}: {error.strerror or error}. Choose "
            "another port, or an address of this machine."
        )

    def close(self) -> None:
        for each in (self._connection, self._socket):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.close()
        self._connection = self._socket = None
