"""Results reach who reads them; who does not read harms nobody."""

from __future__ import annotations

import json
import math
import os
import threading
import time

import numpy as np
import pytest

from bodysense.errors import FileWriteError
from bodysense.logs.live import LiveResult, ResultWriter, Sink, open_sink
from bodysense.logs.live.line_sink import LineSink
from bodysense.logs.live.mcap_sink import TOPIC, McapSink
from bodysense.logs.live.sink import Lags, ResultLines

mcap_reader = pytest.importorskip("mcap.reader")

COLUMNS = ("fx.hand.force_x", 'tau.odd "100%" joint')


def result(k: int) -> LiveResult:
    return LiveResult(0.001 * k, time.perf_counter(), [k / 7.0, 0.5, -1e-9, 123456789.0])


def test_lines_are_json():
    lines = ResultLines(COLUMNS)
    table = json.loads(lines.line(LiveResult(1.7e9 + 0.123456, 0.0, [1 / 3, 0.5, -1e-12, 2e12])))
    assert table == {
        "t": pytest.approx(1.7e9 + 0.123456, abs=1e-9),
        "fx.hand.force_x": 0.3333333,
        "fx.hand.force_x.std": 0.5,
        'tau.odd "100%" joint': -1e-12,
        'tau.odd "100%" joint.std': 2e12,
    }
    more = json.loads(lines.line(LiveResult(1.0, 0.0, [0.0] * 4, ("wrist",), ('a "note"',))))
    assert (more["absent"], more["notes"]) == (["wrist"], ['a "note"'])


def test_quantiles_of_lags_are_right_to_one_per_cent(rng):
    lags, seconds = Lags(), rng.lognormal(-8.0, 1.5, 20_000)
    assert math.isnan(lags.quantile(0.5))
    for each in (*seconds, 0.0, -1.0, 1e9):
        lags.add(each)
    for share in (0.01, 0.5, 0.99):
        expected = float(np.quantile(seconds, share))
        assert lags.quantile(share) == pytest.approx(expected, rel=0.02)
    assert (lags.count, lags.largest) == (20_003, 1e9)


def test_a_pipe_gets_every_line(faults):
    read, write = os.pipe()
    writer = ResultWriter(LineSink(faults, write), COLUMNS)
    writer.start()
    for k in range(300):
        writer.put(result(k))
    text, end = b"", time.monotonic() + 5.0
    while text.count(b"\n") < 300 and time.monotonic() < end:
        text += os.read(read, 10_000)
    writer.close()
    assert [json.loads(line)["t"] for line in text.splitlines()] == pytest.approx(
        [0.001 * k for k in range(300)]
    )
    assert (writer.written, writer.dropped, writer.lags.count) == (300, 0, 300)
    assert 0.0 < writer.lags.quantile(0.5) < 5.0
    os.close(read)
    os.close(write)


def test_a_reader_that_takes_nothing_harms_nobody(faults, monkeypatch):
    monkeypatch.setattr("bodysense.logs.live.sink._CLOSING", 0.3)
    read, write = os.pipe()
    writer = ResultWriter(LineSink(faults, write), COLUMNS, 100)
    writer.start()
    start = time.perf_counter()
    for k in range(5000):
        writer.put(result(k))
    assert time.perf_counter() - start < 2.0
    start = time.perf_counter()
    writer.close()
    assert time.perf_counter() - start < 2.0
    assert not writer._thread.is_alive()
    assert writer.written + writer.dropped == 5000
    assert writer.dropped > 4000
    os.close(read)
    os.close(write)


def test_a_reader_that_goes_away_ends_it(faults):
    read, write = os.pipe()
    writer = ResultWriter(LineSink(faults, write), COLUMNS)
    os.close(read)
    writer.start()
    writer.put(result(0))
    writer._thread.join(5.0)
    assert writer.finished
    writer.close()
    assert (writer.written, writer.dropped) == (0, 1)
    os.close(write)


def test_a_sink_that_fails_is_named(faults, said):
    class Full(Sink):
        def open(self, columns) -> None:
            pass

        def write(self, results) -> int:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    writer = ResultWriter(Full("disk", faults), COLUMNS)
    writer.start()
    writer.put(result(0))
    writer._thread.join(5.0)
    assert writer.finished
    assert "No space left on device" in said[0]
    writer.close()


def test_a_recording_of_results_grows_and_is_complete_at_its_end(faults, tmp_path, reading, take):
    from bodysense.logs.live.mcap_source import GrowingMcap

    path = str(tmp_path / "results.mcap")
    writer = ResultWriter(McapSink(path, faults), COLUMNS)
    writer.start()
    reader = reading(GrowingMcap(path, faults))
    for k in range(50):
        writer.put(result(k))
    arrivals = take(reader, 50)  # before it is closed
    assert [json.loads(a.data)["t"] for a in arrivals] == pytest.approx(0.001 * np.arange(50))
    assert arrivals[7].topic == TOPIC
    writer.close()
    with open(path, "rb") as file:
        messages = list(mcap_reader.make_reader(file).iter_messages())
    assert [message.log_time for _, _, message in messages] == [10**6 * k for k in range(50)]
    schema, channel, message = messages[3]
    names = json.loads(schema.data)["properties"]
    assert (schema.encoding, channel.message_encoding) == ("jsonschema", "json")
    assert json.loads(message.data).keys() <= names.keys()


def test_recordings_are_not_replaced_unless_told(faults, tmp_path):
    path = tmp_path / "x.mcap"
    path.write_bytes(b"precious")
    with pytest.raises(FileWriteError, match="replace it with --force"):
        McapSink(str(path), faults)
    assert path.read_bytes() == b"precious"
    sink = McapSink(str(path), faults, replace=True)
    sink.open(COLUMNS)
    sink.close()
    assert path.read_bytes().startswith(b"\x89MCAP")
    with pytest.raises(FileWriteError, match="check that its folder is there"):
        McapSink(str(tmp_path / "no" / "x.mcap"), faults).open(COLUMNS)
    with pytest.raises(FileWriteError, match="no place for live results"):
        open_sink("results.csv", faults)


def test_threads_end(faults):
    writer = ResultWriter(LineSink(faults, os.open(os.devnull, os.O_WRONLY)), COLUMNS)
    writer.close()  # never started
    assert not [t for t in threading.enumerate() if t.name == "results"]
    os.close(writer.sink._descriptor)
