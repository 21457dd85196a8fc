"""`bodysense estimate --live`: streams of all kinds, and what ends them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from bodysense.cli.main import EXIT_ERROR, main

sys.path.insert(0, str(Path(__file__).parents[1] / "estimation"))
sys.path.insert(0, str(Path(__file__).parents[1] / "logs" / "live"))

from pushed_arm import ARM, PUSH, SENSORS, pushed_arm

mcap_reader = pytest.importorskip("mcap.reader")
LOG = pushed_arm(np.random.default_rng(4), rate=200.0).log

GIVEN = pytest.approx(765, abs=15)
"""Results of 801 samples: the low-pass must know their rate, and settle."""


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """Every test in a folder of its own, with a stream and its sensors."""
    monkeypatch.chdir(tmp_path)
    Path("stream.jsonl").write_text("".join(f"{line}\n" for line in lines()))
    Path("sensors.yaml").write_text(SENSORS)


def lines() -> list[str]:
    rows = zip(LOG.t.tolist(), *(x.tolist() for x in LOG.channels.values()), strict=True)
    names = ("t", *LOG.channels)
    return [json.dumps(dict(zip(names, row, strict=True))) for row in rows]


def words(*more: str) -> list[str]:
    return ["estimate", str(ARM), "--sensors", "sensors.yaml", *more]


def started(*more: str, **streams) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "bodysense", *words(*more)], **streams)


def require_push(results: list[dict]) -> None:
    """The push is there while it lasts, and nothing before."""
    t = np.array([r["t"] for r in results])
    force = np.array([r["fx.forearm.force_y"] for r in results])
    assert force[(t > PUSH[0] + 0.15) & (t < PUSH[1])].mean() == pytest.approx(-20.0, abs=0.1)
    assert abs(force[t < PUSH[0]]).max() < 1.5


def free_port() -> int:
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])


def publish(port: int, texts: list[str], pause: float = 0.0) -> threading.Thread:
    """Send lines as a robot does, once it is let in."""

    def send() -> None:
        end = time.monotonic() + 60.0
        while time.monotonic() < end:
            try:
                robot = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                time.sleep(0.02)
        with robot, contextlib.suppress(OSError):  # it may be sent away
            for text in texts:
                robot.sendall(f"{text}\n".encode())
                time.sleep(pause)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_lines_in_lines_out():
    with Path("stream.jsonl").open("rb") as stream:
        process = started("--live", "-", stdin=stream, stdout=-1, stderr=-1)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    results = [json.loads(line) for line in out.splitlines()]
    assert len(results) == GIVEN
    assert "fx.forearm.force_x.std" in results[0]
    require_push(results)
    summary = err.decode()
    assert "small-arm, standard input: 801 samples in " in summary
    assert "lag from the arrival of a sample to its result: median " in summary
    assert "dropped: 0 messages" in summary


def test_a_robot_connects_and_a_recording_comes_out(capsys):
    port = free_port()
    robot = publish(port, lines(), 1e-4)
    live = f"tcp://127.0.0.1:{port}"
    arguments = words("--live", live, "-o", "out.mcap", "--timeout", "0.6", "--json")
    assert main(arguments) == 0
    robot.join()
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert (summary["samples"], summary["results"]) == (801, GIVEN)
    assert (summary["dropped"], summary["dropped_results"]) == (0, 0)
    assert summary["ended"] == "no sample came for 0.6 s"
    assert summary["lag"]["median"] < summary["lag"]["p99"] <= summary["lag"]["largest"]
    assert f"note: listening on {live} for lines of JSON" in err
    with open("out.mcap", "rb") as file:
        messages = [json.loads(m.data) for _, _, m in mcap_reader.make_reader(file).iter_messages()]
    assert len(messages) == GIVEN
    require_push(messages)
    assert main(arguments) == EXIT_ERROR
    assert "replace it with --force" in capsys.readouterr().err


def test_there_and_back_through_rosbridge(capsys):
    pytest.importorskip("websockets")
    from rosbridge_server import RosbridgeServer

    topics = {
        "/joint_states": "sensor_msgs/msg/JointState",
        "/wrist": "geometry_msgs/msg/WrenchStamped",
    }
    joints = ("pan", "lift", "elbow")
    Path("sensors.yaml").write_text(
        SENSORS.split("  wrist")[0] + "  motion" + SENSORS.split("  motion")[1]
    )
    with RosbridgeServer(topics) as server:

        def send() -> None:
            server.wait(lambda s: "/joint_states" in s.subscribed, 60.0)
            for k, t in enumerate(LOG.t.tolist()):
                state = {"header": {"stamp": {"sec": int(t), "nanosec": int(t % 1 * 1e9)}}}
                state |= {"name": joints, "velocity": []}
                for start, key in (("q", "position"), ("tau", "effort")):
                    state[key] = [float(LOG.channels[f"{start}.{j}"][k]) for j in joints]
                server.publish("/joint_states", state)

        robot = threading.Thread(target=send)
        robot.start()
        address = server.address
        assert main(words("--live", address, "-o", address, "--timeout", "0.6")) == 0
        robot.join()
        wrenches = [m for topic, m in server.published if topic.endswith("external_wrench/forearm")]
        assert 500 < len(wrenches) < 801
        assert wrenches[0]["header"]["frame_id"] == "forearm"
        assert server.refused == []
        efforts = [m for topic, m in server.published if topic == "/bodysense/joint_torques"]
        assert efforts[0]["name"] == list(joints)
    assert "samples in" in capsys.readouterr().out


def test_ctrl_c_ends_with_a_summary_and_a_complete_file(listening_to_ctrl_c):
    port = free_port()
    process = started("--live", f"tcp://127.0.0.1:{port}", "-o", "out.mcap", stdout=-1, stderr=-1)
    robot = publish(port, lines(), 2e-3)
    end = time.monotonic() + 60.0
    while time.monotonic() < end and not (
        Path("out.mcap").exists() and Path("out.mcap").stat().st_size > 20_000
    ):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    robot.join()
    assert process.returncode == 0, err
    assert "; interrupted" in out.decode()
    assert "Traceback" not in err.decode()
    with open("out.mcap", "rb") as file:
        assert mcap_reader.make_reader(file).get_summary().statistics.message_count > 20


def test_a_reader_that_takes_nothing_harms_nobody():
    port = free_port()
    read, write = os.pipe()
    process = started(
        *("--live", f"tcp://127.0.0.1:{port}", "--timeout", "0.5", "--queue", "100", "--json"),
        *("--estimates", "*"),
        stdout=write,
        stderr=-1,
    )
    publish(port, lines(), 5e-4).join(60.0)
    _, err = process.communicate(timeout=60)
    os.close(write)
    os.close(read)
    summary = json.loads(err.decode().splitlines()[-1])
    assert (summary["samples"], summary["dropped"]) == (801, 0)
    assert summary["dropped_results"] > 500


def test_bad_input_is_named_and_survived(capsys):
    texts = lines()
    texts[10:10] = ['{"t": 0.05, "q.pan"', "NaN", '{"t": "1"}', "\x00\x01", "x" * 2_000_000]
    texts = [t.replace('"acc.x": ', '"acc.x": "') for t in texts[:5]] + texts[5:]
    texts += ['{"t": 1e-9, "q.pan": Infinity}'] + ["garbage"] * 50
    port = free_port()
    robot = publish(port, texts)
    live = ("--live", f"tcp://127.0.0.1:{port}", "-o", "o.mcap", "--timeout", "0.5", "--json")
    assert main(words(*live)) == 0
    robot.join()
    out, err = capsys.readouterr()
    faults = json.loads(out)["faults"]
    assert faults["lines that are no JSON"] == 57
    assert faults["lines that are too long"] == 1
    assert faults["NaN or infinite values"] >= 1
    assert "send one JSON object per line" in err
    assert "Traceback" not in err


def test_a_stream_of_another_robot_gives_no_result(capsys):
    port = free_port()
    robot = publish(port, ['{"t": 1.0, "q.joint1": 0.0}'])
    live = ("--live", f"tcp://127.0.0.1:{port}", "-o", "o.mcap", "--timeout", "0.3")
    assert main(words(*live)) == EXIT_ERROR
    robot.join()
    err = capsys.readouterr().err
    assert "no positions have come as q.pan, q.lift, q.elbow; what came is q.joint1" in err
    assert "no sample gave a result" in err


def test_a_growing_recording_is_followed(capsys):
    writer_module = pytest.importorskip("mcap.writer")

    def write() -> None:
        with open("robot.mcap", "wb") as file:
            writer = writer_module.Writer(file, chunk_size=3000)
            writer.start()
            channel = writer.register_channel("/robot", "json", 0)
            for k, text in enumerate(lines()):
                writer.add_message(channel, k, text.encode(), k)
                if k % 40 == 0:
                    file.flush()
                    time.sleep(0.01)
            writer.finish()

    thread = threading.Thread(target=write)
    thread.start()
    assert main(words("--live", "robot.mcap", "-o", "out.mcap", "--json")) == 0
    thread.join()
    summary = json.loads(capsys.readouterr().out)
    assert summary["samples"] == 801
    assert summary["ended"] == "the source ended"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--live", "robot.csv"), "'robot.csv' is no live source: give -"),
        (("--live", "tcp://nowhere.invalid:9000"), "Choose another port, or an address of this"),
        (("--live", "-", "-o", "folder"), "'folder' is no place for live results"),
        (("--live", "-", "--state"), "--state is for recordings"),
        (("--live", "-", "--topics", "/x"), "topics are of rosbridge"),
        (("--timeout", "3"), "--timeout is for live streams (--live SOURCE)"),
        (("--live", "-", "--config", "config.yaml"), "--config is for recordings"),
    ],
)
def test_what_cannot_be_is_refused(capsys, more, message):
    Path("config.yaml").write_text("{}")
    assert main(words(*more)) == EXIT_ERROR
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_recording_and_a_stream_exclude_each_other(capsys):
    assert (
        main(["estimate", str(ARM), "log.csv", "--live", "-", "--sensors", "s.yaml"]) == EXIT_ERROR
    )
    assert "give a recording (log.csv) or --live -, not both" in capsys.readouterr().err


def test_a_robot_and_sensors_are_needed(capsys):
    assert main(["estimate", "--live", "-"]) == EXIT_ERROR
    assert "give a robot and its sensors (--sensors FILE)" in capsys.readouterr().err
