"""A robot at 1 kHz on loopback: what `bodysense estimate --live` loses, and how late results are.

Three processes, as in use: a robot that sends lines of JSON to a socket, `bodysense estimate`, and
a reader of its standard output. The lag is taken outside of bodysense, from before a sample is sent
until its result has been read, by the clock that all processes share.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.result import NotMeasuredError, Result
from bodysense.errors import MissingDependencyError
from bodysense.spatial import Array

RATE = 1000.0
"""Samples per second."""

SETTLING = ("before the rate of samples was known", "while the low-pass settled")
"""Why samples may give no result, once, at the beginning."""

_LONGEST = 0.2  # s of that beginning

SENSORS = """
sensors:
  motors: {kind: joint_torque, joint: all, std: 0.5}
  motion: {kind: joint_acceleration, joint: all, std: 0.5}
external_wrenches:
  wrist_3_link: {std: [50, 50, 50, 5, 5, 5]}
"""

ROBOT = """
import json, math, socket, sys, time

port, rate, seconds, joints = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
while True:
    try:
        line = socket.create_connection(("127.0.0.1", port))
        break
    except OSError:
        time.sleep(0.05)
line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
sent, start = [], time.perf_counter()
for k in range(int(seconds * rate)):
    t = k / rate
    sample = {"t": t}
    for j, joint in enumerate(joints):
        sample["q." + joint] = 0.5 * math.sin(1.3 * t + j)
        sample["tau." + joint] = 3.0 * math.cos(1.3 * t + j)
    text = json.dumps(sample).encode() + b"\\n"
    while (wait := start + t - time.perf_counter()) > 0.0:
        time.sleep(wait)
    sent.append(time.perf_counter())
    line.sendall(text)
line.close()
print(json.dumps(sent))
"""


def run(repeat: int, *, seconds: float = 60.0) -> tuple[Result, ...]:
    """Measure a robot with a reader, and one whose results nobody reads; once, as it takes long."""
    try:
        summary, lags = measured(seconds, reads=True)
        blind, _ = measured(min(seconds, 10.0), reads=False)
    except MissingDependencyError as error:
        raise NotMeasuredError(str(error)) from error
    what = f"UR5, {RATE / 1e3:g} kHz over a socket on loopback"
    n, alone = round(seconds * RATE), round(min(seconds, 10.0) * RATE)
    median, p99, largest = 1e3 * np.quantile(lags, (0.5, 0.99, 1.0))
    own = {key: f"{1e3 * value:.2g}" for key, value in summary["lag"].items()}
    return (
        Result.judged(
            "live",
            f"{what}, {seconds:g} s: p99 of the lag from sending a sample to reading its result",
            unit="ms",
            ours=float(p99),
            ours_below=5.0,
            notes=f"median {median:.2g} ms, largest {largest:.2g} ms; what bodysense says of "
            f"itself, from arrival to writing: median {own['median']}, p99 {own['p99']}, largest "
            f"{own['largest']} ms; load of other processes is in it",
        ),
        Result.judged(
            "live",
            f"{what}, {seconds:g} s: samples that were lost",
            unit="%",
            ours=100.0 * lost(summary, n),
            ours_below=1e-4,
        ),
        Result.judged(
            "live",
            f"{what}, {min(seconds, 10.0):g} s, and nobody reads results: samples that were lost",
            unit="%",
            ours=100.0 * lost(blind, alone),
            ours_below=1e-4,
            notes=f"{blind['dropped_results']} results were dropped",
        ),
    )


def lost(summary: dict[str, Any], sent: int) -> float:
    """Share of the samples that were sent and not estimated; those while the filter settles are."""
    withheld = {k: n for k, n in summary["withheld"].items() if k not in SETTLING}
    return 1.0 - (summary["samples"] - sum(withheld.values())) / sent


def measured(seconds: float, *, reads: bool) -> tuple[dict[str, Any], Array]:
    """The summary of a run, and the lags of its results (n,) [s]."""
    from bodysense import load_robot

    joints = load_robot("example:ur5").joint_names
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        sensors = Path(folder) / "sensors.yaml"
        sensors.write_text(SENSORS, encoding="utf-8")
        words = ("estimate", "example:ur5", "--live", f"tcp://127.0.0.1:{port}", "--json")
        options = ("--sensors", str(sensors), "--timeout", "3")
        read, write = os.pipe()
        with (
            subprocess.Popen(
                [sys.executable, "-m", "bodysense", *words, *options],
                stdout=write,
                stderr=subprocess.PIPE,
                text=True,
            ) as estimator,
            subprocess.Popen(
                [sys.executable, "-c", ROBOT, str(port), str(RATE), str(seconds), *joints],
                stdout=subprocess.PIPE,
                text=True,
            ) as robot,
        ):
            os.close(write)
            got = read_times(read) if reads else {}
            sent = json.loads(robot.communicate()[0])
            said = estimator.communicate()[1]
        os.close(read)
    if estimator.returncode:
        raise RuntimeError(said)
    lags = [at - sent[k] for k, at in got.items()]
    if reads and len(lags) < len(sent) - _LONGEST * RATE:
        raise RuntimeError(f"{len(lags)} results of {len(sent)} samples: {said}")
    return json.loads(said.splitlines()[-1]), np.array(lags)


def read_times(descriptor: int) -> dict[int, float]:
    """When the result of each sample was read, by its number."""
    times: dict[int, float] = {}
    with os.fdopen(os.dup(descriptor), "rb") as results:
        for line in results:
            times[round(json.loads(line)["t"] * RATE)] = time.perf_counter()
    return times


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])
