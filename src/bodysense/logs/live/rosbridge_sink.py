"""`RosbridgeSink`: results back into ROS, external wrenches and joint torques."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from bodysense.logs.live.faults import StreamFaults
from bodysense.logs.live.rosbridge import Rosbridge
from bodysense.logs.live.sink import LiveResult, Sink

_WRENCH = "geometry_msgs/msg/WrenchStamped"
_STATE = "sensor_msgs/msg/JointState"
_TORQUES = "/bodysense/joint_torques"
_FORCE, _MOMENT = (tuple(f"{what}_{axis}" for axis in "xyz") for what in ("force", "moment"))


class RosbridgeSink(Sink):
    """Publishes each result.

    The external wrench of a link, in its frame about its origin, is a ``WrenchStamped`` on
    ``/bodysense/external_wrench/<link>``; torques are the effort of a ``JointState`` on
    ``/bodysense/joint_torques``. Standard deviations have no place in these messages.
    """

    def __init__(self, address: str, faults: StreamFaults) -> None:
        super().__init__(address, faults)
        self._bridge = Rosbridge(address, faults)
        self._wrenches: dict[str, tuple[str, list[int]]] = {}
        self._torques: dict[str, int] = {}
        self._advertised = False

    def open(self, columns: Sequence[str]) -> None:
        place = {column: 2 * k for k, column in enumerate(columns)}
        for column in columns:
            quantity, _, owner = column.partition(".")
            if quantity == "tau":
                self._torques[owner] = place[column]
            elif quantity == "fx" and owner.endswith(f".{_FORCE[0]}"):
                link = owner.removesuffix(f".{_FORCE[0]}")
                topic = f"/bodysense/external_wrench/{re.sub(r'[^A-Za-z0-9_]', '_', link)}"
                places = [place[f"fx.{link}.{part}"] for part in (*_FORCE, *_MOMENT)]
                self._wrenches[topic] = (link, places)
        self._bridge.connect()

    def write(self, results: Sequence[LiveResult]) -> int | None:
        if self._bridge.connect() or not self._advertised:
            self._advertised = self._bridge.send(self._advertisements())
        if not self._bridge.connected:
            self.faults.report(
                "results without a connection",
                f"results are dropped while {self.name} is not connected.",
                len(results),
            )
        return sum(self._bridge.send(self._messages(result)) for result in results)

    def interrupt(self) -> None:
        self._bridge.abort()

    def close(self) -> None:
        self._bridge.close()

    def _advertisements(self) -> Iterator[dict[str, Any]]:
        topics = [*((topic, _WRENCH) for topic in self._wrenches), (_TORQUES, _STATE)]
        for topic, kind in topics:
            yield {"op": "advertise", "topic": topic, "type": kind}

    def _messages(self, result: LiveResult) -> Iterator[dict[str, Any]]:
        seconds, rest = divmod(max(0, round(result.t * 1e9)), 10**9)
        stamp, values = {"sec": seconds, "nanosec": rest}, result.values
        for topic, (link, places) in self._wrenches.items():
            numbers = [values[k] for k in places]
            force, torque = (
                dict(zip("xyz", part, strict=True)) for part in (numbers[:3], numbers[3:])
            )
            yield {
                "op": "publish",
                "topic": topic,
                "msg": {
                    "header": {"stamp": stamp, "frame_id": link},
                    "wrench": {"force": force, "torque": torque},
                },
            }
        if self._torques:
            yield {
                "op": "publish",
                "topic": _TORQUES,
                "msg": {
                    "header": {"stamp": stamp, "frame_id": ""},
                    "name": list(self._torques),
                    "position": [],
                    "velocity": [],
                    "effort": [values[k] for k in self._torques.values()],
                },
            }
