"""Rosbridge, against a small server of the protocol."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("websockets")
sys.path.insert(0, str(Path(__file__).parent))

from rosbridge_server import RosbridgeServer

from bodysense.errors import MissingDependencyError
from bodysense.logs.live import LiveResult, ResultWriter, SampleDecoder, open_sink, open_source
from bodysense.logs.live.rosbridge import RosbridgeSource
from bodysense.logs.live.rosbridge_sink import RosbridgeSink

TOPICS = {
    "/joint_states": "sensor_msgs/msg/JointState",
    "/other_states": "sensor_msgs/msg/JointState",
    "/wrist": "geometry_msgs/WrenchStamped",
    "/camera": "sensor_msgs/msg/Image",
    "/bodysense/joint_torques": "sensor_msgs/msg/JointState",
}
WRENCH = tuple(f"fx.hand.{what}_{axis}" for what in ("force", "moment") for axis in "xyz")


def state(k: int) -> dict:
    header = {"stamp": {"sec": 10, "nanosec": 10**6 * k}, "frame_id": ""}
    return {"header": header, "name": ["a"], "position": [float(k)], "velocity": [], "effort": []}


def test_listed_topics_of_known_types_are_read(faults, said, reading, take):
    with RosbridgeServer(TOPICS) as server:
        reader = reading(open_source(server.address, faults))
        server.wait(lambda s: len(s.subscribed) == 2)
        assert set(server.subscribed) == {"/joint_states", "/wrist"}
        for k in range(100):
            server.publish("/joint_states", state(k))
        arrivals = take(reader, 100)
        reader.stop()
    decoder = SampleDecoder(("q.a",), (), faults)
    samples = [decoder.decode(arrival) for arrival in arrivals]
    assert [s.values[0] for s in samples] == list(range(100))
    assert [s.t for s in samples] == pytest.approx([10.0 + 1e-3 * k for k in range(100)])
    assert f"connected to {server.address}" in said
    assert "those of /joint_states are used" in " ".join(said)


@pytest.mark.parametrize(
    ("topics", "joint_topic", "expected"),
    [
        ((), None, {"/joint_states"}),
        ((), "/arm", {"/arm"}),
        (("/x", "/y"), None, {"/x", "/y"}),
    ],
)
def test_topics_without_rosapi(faults, reading, topics, joint_topic, expected):
    with RosbridgeServer({}, listed=False) as server:
        source = RosbridgeSource(server.address, faults, topics=topics, joint_topic=joint_topic)
        reader = reading(source)
        server.wait(lambda s: set(s.subscribed) == expected)
        reader.stop()


def test_a_lost_connection_is_made_again(faults, reading, take, monkeypatch):
    monkeypatch.setattr("bodysense.logs.live.rosbridge._AGAIN", 0.05)
    with RosbridgeServer(TOPICS) as server:
        reader = reading(RosbridgeSource(server.address, faults))
        server.wait(lambda s: "/joint_states" in s.subscribed)
        server.cut()
        server.wait(lambda s: "/joint_states" in s.subscribed)
        server.publish("/joint_states", state(7))
        (arrival,) = take(reader, 1)
        assert json.loads(arrival.data)["msg"]["position"] == [7.0]
        assert faults["lost connections"] == 1
        reader.stop()


def test_nobody_there_is_said_and_tried_again(faults, said, reading, monkeypatch):
    monkeypatch.setattr("bodysense.logs.live.rosbridge._AGAIN", 0.05)
    with RosbridgeServer({}) as server:
        port = server.port
    reader = reading(RosbridgeSource(f"ws://127.0.0.1:{port}", faults))
    end = time.monotonic() + 5.0
    while faults["failed connections"] < 2 and time.monotonic() < end:
        time.sleep(0.01)
    assert faults["failed connections"] >= 2
    assert "does rosbridge_server run there?" in said[0]
    reader.stop()
    assert reader.error is None


def test_results_go_back_as_wrenches_and_efforts(faults):
    with RosbridgeServer({}) as server:
        columns = (*WRENCH, "tau.shoulder", "tau.elbow")
        writer = ResultWriter(open_sink(server.address, faults), columns)
        writer.start()
        values = [float(k) for k in range(16)]
        writer.put(LiveResult(12.25, time.perf_counter(), values))
        server.wait(lambda s: len(s.published) == 2)
        writer.close()
    wrench, torques = "/bodysense/external_wrench/hand", "/bodysense/joint_torques"
    assert server.advertised == {
        wrench: "geometry_msgs/msg/WrenchStamped",
        torques: "sensor_msgs/msg/JointState",
    }
    assert server.refused == []
    published = dict(server.published)
    stamp = {"sec": 12, "nanosec": 250_000_000}
    assert published[wrench] == {
        "header": {"stamp": stamp, "frame_id": "hand"},
        "wrench": {"force": dict(x=0, y=2, z=4), "torque": dict(x=6, y=8, z=10)},
    }
    assert published[torques] == {
        "header": {"stamp": stamp, "frame_id": ""},
        "name": ["shoulder", "elbow"],
        "position": [],
        "velocity": [],
        "effort": [12, 14],
    }
    assert (writer.written, writer.dropped) == (1, 0)


def test_results_without_a_server_are_counted(faults):
    with RosbridgeServer({}) as server:
        address = server.address
    writer = ResultWriter(RosbridgeSink(address, faults), WRENCH)
    writer.start()
    for k in range(3):
        writer.put(LiveResult(float(k), time.perf_counter(), [0.0] * 12))
    writer.close()
    assert faults["results without a connection"] == 3
    assert (writer.written, writer.dropped) == (0, 3)


def test_without_websockets_the_extra_is_named(faults, monkeypatch):
    monkeypatch.setitem(sys.modules, "websockets.sync.client", None)
    for open_one in (open_source, open_sink):
        with pytest.raises(MissingDependencyError, match=r'pip install "bodysense\[live\]"'):
            open_one("ws://robot:9090", faults)
