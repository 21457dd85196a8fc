"""Lines, sockets and growing recordings: all that comes is read, and nobody waits."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.errors import FileReadError
from bodysense.logs.live import StreamFaults, StreamReader, open_source
from bodysense.logs.live.mcap_source import GrowingMcap
from bodysense.logs.live.socket_source import SocketSource
from bodysense.logs.live.source import LineSplitter
from bodysense.logs.live.stdin import StandardInput

mcap_writer = pytest.importorskip("mcap.writer")


@given(st.lists(st.binary(max_size=30)), st.integers(1, 12))
def test_lines_are_the_same_however_they_are_cut(pieces, longest):
    whole = b"".join(pieces)
    expected = [line for line in whole.split(b"\n") if line.strip() and len(line) <= longest]
    for cuts in (pieces, [whole], [whole[k : k + 1] for k in range(len(whole))]):
        splitter = LineSplitter(StreamFaults(), longest)
        lines = [line for piece in cuts for line in splitter.split(piece)]
        assert [*lines, *splitter.rest()] == expected


def test_a_line_without_end_is_bounded(faults, said):
    splitter = LineSplitter(faults, 1000)
    for _ in range(500):
        assert splitter.split(b"x" * 100) == []
        assert len(splitter._rest) <= 1100
    assert splitter.split(b"x\nshort\n") == [b"short"]
    assert faults["lines that are too long"] == 1
    assert "longer than 1000 bytes" in said[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("log.csv", "is no live source"),
        ("tcp://127.0.0.1", "write tcp://HOST:PORT"),
        ("tcp://127.0.0.1:99999", "write tcp://HOST:PORT"),
        ("tcp://127.0.0.1:90/x", "write tcp://HOST:PORT"),
        ("ws://:9090", "write ws://HOST:PORT"),
    ],
)
def test_sources_that_are_none_are_refused(faults, text, message):
    with pytest.raises(FileReadError, match=message):
        open_source(text, faults)


def test_topics_are_of_rosbridge(faults):
    with pytest.raises(FileReadError, match="topics are of rosbridge"):
        open_source("-", faults, topics=["/joint_states"])


# Standard input.


def test_a_pipe_is_read_as_it_comes(faults, reading, take):
    read, write = os.pipe()
    reader = reading(StandardInput(faults, read))
    os.write(write, b'{"t": 1}\n{"t": 2}\n{"t"')
    assert [a.data for a in take(reader, 2)] == [b'{"t": 1}', b'{"t": 2}']
    sent = time.perf_counter()
    os.write(write, b": 3}")
    os.close(write)
    (last,) = take(reader, 2, 2.0)
    assert last.data == b'{"t": 3}'
    assert 0.0 <= last.at - sent < 1.0
    assert reader.queue.closed
    os.close(read)


def test_a_pipe_never_waits_and_a_file_does(faults, reading, take, tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"%d\n" % k for k in range(5000)))
    read, write = os.pipe()
    piped = StreamReader(StandardInput(faults, read), 100)
    piped.start()
    os.write(write, path.read_bytes())
    os.close(write)
    piped._thread.join(5.0)
    assert piped.queue.dropped == 4900
    assert [a.data for a in take(piped, 200)] == [b"%d" % k for k in range(4900, 5000)]
    os.close(read)
    with path.open("rb") as file:
        reader = reading(StandardInput(faults, file.fileno()), 100)
        assert [a.data for a in take(reader, 5001, 1.0)] == [b"%d" % k for k in range(5000)]
        assert not reader.source.live
        assert reader.queue.dropped == 0


# A socket.


def connect(source: SocketSource) -> socket.socket:
    for _ in range(200):
        try:
            return socket.create_connection((source.host, source.port))
        except OSError:
            time.sleep(0.01)
    raise AssertionError("nobody listens")


def test_a_robot_connects_and_comes_again(faults, said, reading, take):
    source = SocketSource("tcp://127.0.0.1:0", faults)
    reader = reading(source)
    for k in range(3):
        with connect(source) as robot:
            robot.sendall(b"a%d\nb%d" % (k, k))
        assert [a.data for a in take(reader, 2)] == [b"a%d" % k, b"b%d" % k]
    assert said[0] == f"listening on tcp://127.0.0.1:{source.port} for lines of JSON"
    assert faults["connections that ended"] >= 2


def test_nobody_is_let_in_before_it_reads(faults, reading):
    source = SocketSource("tcp://127.0.0.1:0", faults)
    reader = StreamReader(source)  # prepared: the port is taken
    with pytest.raises(OSError):  # noqa: PT011
        socket.create_connection((source.host, source.port), timeout=0.2)
    reader.start()
    connect(source).close()
    with pytest.raises(FileReadError, match="Choose another port"):
        SocketSource(f"tcp://127.0.0.1:{source.port}", faults).prepare()
    reader.stop()


def test_a_second_robot_is_sent_away_and_takes_over_from_a_silent_one(
    faults, reading, take, monkeypatch
):
    source = SocketSource("tcp://127.0.0.1:0", faults)
    reader = reading(source)
    first = connect(source)
    first.sendall(b"1\n")
    assert take(reader, 1)[0].data == b"1"
    with connect(source) as second:
        assert second.recv(1) == b""  # closed by the other side
    assert faults["second connections"] == 1
    first.sendall(b"2\n")
    assert take(reader, 1)[0].data == b"2"
    monkeypatch.setattr("bodysense.logs.live.socket_source._SILENT", 0.0)
    with connect(source) as third:
        third.sendall(b"3\n")
        assert take(reader, 1)[0].data == b"3"
    first.close()


def test_only_this_machine_unless_told_otherwise(faults, said):
    source = SocketSource("tcp://:0", faults)
    assert source.host == "127.0.0.1"
    source.prepare()
    source.close()
    assert said == []
    source = SocketSource("tcp://0.0.0.0:0", faults)
    source.prepare()
    source.close()
    assert "open to the network" in said[0]


def test_a_flood_harms_neither_side(faults, reading):
    source = SocketSource("tcp://127.0.0.1:0", faults)
    reader = reading(source, 50)
    with connect(source) as robot:
        robot.settimeout(5.0)
        for _ in range(20):  # nobody takes anything
            robot.sendall(b'{"t": 1}\n' * 1000)
    end = time.monotonic() + 5.0
    while reader.queue.dropped < 19_950 and time.monotonic() < end:
        time.sleep(0.01)
    assert reader.queue.dropped == 19_950
    assert len(reader.queue) == 50


# A growing recording.


def recording(path: Path, n: int = 200, **settings) -> bytes:
    """A recording of JSON lines; its bytes."""
    with path.open("wb") as file:
        writer = mcap_writer.Writer(file, **settings)
        writer.start()
        schema = writer.register_schema("x", "jsonschema", b"{}")
        channel = writer.register_channel("/joint_states", "json", schema)
        other = writer.register_channel("/camera", "protobuf", schema)
        for k in range(n):
            writer.add_message(channel, k * 10**6, json.dumps({"t": k}).encode(), 0)
            writer.add_message(other, k * 10**6, b"\0" * 50, 0)
        writer.finish()
    return path.read_bytes()


@pytest.mark.parametrize(
    "settings", [{"use_chunking": False}, {"chunk_size": 500}, {"chunk_size": 500, "zstd": True}]
)
def test_a_recording_is_followed_while_it_is_written_byte_by_byte(
    faults, said, reading, take, tmp_path, settings
):
    compressed = settings.pop("zstd", False)
    kind = mcap_writer.CompressionType.ZSTD if compressed else mcap_writer.CompressionType.NONE
    data = recording(tmp_path / "whole.mcap", compression=kind, **settings)
    path = tmp_path / "growing.mcap"

    def write() -> None:
        with path.open("wb", buffering=0) as file:
            for k in range(0, len(data), 97):  # anywhere within a record
                file.write(data[k : k + 97])
                if k % 9 == 0:
                    time.sleep(1e-4)

    thread = threading.Thread(target=write)
    reader = reading(GrowingMcap(str(path), faults))
    time.sleep(0.05)
    thread.start()
    assert [json.loads(a.data)["t"] for a in take(reader, 201)] == list(range(200))
    thread.join()
    assert reader.queue.closed
    assert said == [
        f"{path} is not there yet: waiting for it",
        f"{path} is complete: nothing more comes",
    ]
    assert faults.counts == {}


def test_what_was_there_waits_and_what_comes_then_is_live(faults, reading, take, tmp_path):
    path = tmp_path / "growing.mcap"
    data = recording(path, use_chunking=False)
    end = data.rindex(b'{"t": 150}') + 10
    path.write_bytes(data[:end])
    reader = reading(GrowingMcap(str(path), faults), 20)
    time.sleep(0.2)
    assert len(reader.queue) == 20
    assert not reader.source.live
    assert len(take(reader, 151)) == 151
    end_of_time = time.monotonic() + 5.0
    while not reader.source.live and time.monotonic() < end_of_time:
        time.sleep(0.01)
    with path.open("ab") as file:
        file.write(data[end:])
    time.sleep(0.3)
    assert reader.queue.dropped == 49 - 20
    assert json.loads(take(reader, 1)[0].data)["t"] == 180


def test_damage_and_replacement_end_with_a_reason(
    faults, said, reading, take, tmp_path, monkeypatch
):
    path = tmp_path / "x.mcap"
    plain = mcap_writer.CompressionType.NONE
    data = bytearray(recording(path, chunk_size=500, compression=plain))
    data[data.index(b'{"t": 100}') + 6] ^= 1
    path.write_bytes(data)
    reader = reading(GrowingMcap(str(path), faults))
    assert 0 < len(take(reader, 300)) < 200
    assert faults["damaged recordings"] == 1
    path.write_bytes(bytes(data[:2000]))
    monkeypatch.setattr("bodysense.logs.live.mcap_source._LOOK", 0.01)
    reader = reading(GrowingMcap(str(path), faults))
    take(reader, 300, 0.3)
    path.write_bytes(b"")
    reader._thread.join(5.0)
    assert faults["recordings that were replaced"] == 1
    assert "start again" in said[-1]


def test_a_recording_that_cannot_come_is_refused(faults, tmp_path):
    with pytest.raises(FileReadError, match="no folder"):
        StreamReader(GrowingMcap(str(tmp_path / "no" / "x.mcap"), faults))
    with pytest.raises(FileReadError, match="is no file"):
        StreamReader(GrowingMcap(str(tmp_path), faults))
