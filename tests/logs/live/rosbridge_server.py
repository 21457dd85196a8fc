"""A small server of the rosbridge protocol, version 2, as far as joint states need it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve


class RosbridgeServer:
    """Topics with their types; what clients advertise and publish; `publish` to subscribers.

    Without `listed` rosapi does not run, which rosbridge answers with a result of false.
    """

    def __init__(self, topics: Mapping[str, str], *, listed: bool = True, port: int = 0) -> None:
        self.topics, self.listed = dict(topics), listed
        self.subscribed: dict[str, list[ServerConnection]] = {}
        self.advertised: dict[str, str] = {}
        self.published: list[tuple[str, dict]] = []
        self.refused: list[str] = []
        self.connections: list[ServerConnection] = []
        self._server = serve(self._serve, "127.0.0.1", port)
        self.port = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def __enter__(self) -> RosbridgeServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        for connection in self.connections:
            connection.close()
        self._server.shutdown()
        self._thread.join()

    def cut(self) -> None:
        """Close all connections, as a robot that starts anew."""
        self.subscribed.clear()
        for connection in self.connections:
            connection.close()
        self.connections.clear()

    def publish(self, topic: str, message: dict) -> None:
        for connection in self.subscribed.get(topic, ()):
            connection.send(json.dumps({"op": "publish", "topic": topic, "msg": message}))

    def wait(self, condition, seconds: float = 5.0) -> None:
        end = time.monotonic() + seconds
        while not condition(self):
            assert time.monotonic() < end, "the client did not do it in time"
            time.sleep(0.005)

    def _serve(self, connection: ServerConnection) -> None:
        self.connections.append(connection)
        try:
            for text in connection:
                self._operate(connection, json.loads(text))
        except ConnectionClosed:
            pass

    def _operate(self, connection: ServerConnection, call: dict) -> None:
        op = call["op"]
        if op == "subscribe":
            self.subscribed.setdefault(call["topic"], []).append(connection)
        elif op == "advertise":
            self.advertised[call["topic"]] = call["type"]
        elif op == "publish":
            if call["topic"] in self.advertised:
                self.published.append((call["topic"], call["msg"]))
            else:
                self.refused.append(call["topic"])
        elif op == "call_service":
            values = {"topics": [*self.topics], "types": [*self.topics.values()]}
            answer = {"values": values, "result": True} if self.listed else {"result": False}
            answer |= {"op": "service_response", "service": call["service"], "id": call["id"]}
            connection.send(json.dumps(answer))
