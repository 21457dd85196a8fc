"""`bodysense estimate` where the log lacks positions of a joint."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from bodysense.cli.estimate import EstimateOptions, add_arguments
from bodysense.cli.main import EXIT_ERROR, EXIT_INTERRUPTED, main
from bodysense.estimation import EstimationSetup, StateSetup, StateTracker
from bodysense.logs import write_log

sys.path.insert(0, str(Path(__file__).parents[1] / "estimation"))

from hidden_joint import SENSORS, hidden_joint
from pushed_arm import ARM


@pytest.fixture(autouse=True)
def hidden(tmp_path, monkeypatch):
    """Every test in a folder of its own, with a recording without q.elbow."""
    monkeypatch.chdir(tmp_path)
    made = hidden_joint(np.random.default_rng(4))
    write_log("run.csv", made.log)
    Path("sensors.yaml").write_text(SENSORS)
    return made


def words(*more: str) -> list[str]:
    return ["estimate", str(ARM), "run.csv", "--sensors", "sensors.yaml", *more]


def test_positions_and_biases_come_out(hidden, capsys):
    assert main(words("-o", "out")) == 0
    out, err = capsys.readouterr()
    assert "note: positions are estimated, of elbow, from readings up to each sample" in err
    assert "Positions: estimated, with 95 % bands" in out
    assert "gyro.x" in out
    table = pq.read_table("out/estimates.parquet")
    q, std = (np.asarray(table[name]) for name in ("q.elbow", "q.elbow.std"))
    off = np.abs(q - hidden.q[:, 2])
    assert off[20:].max() < 0.1
    assert np.mean(off < 1.96 * std) > 0.85
    assert (np.asarray(table["dq.pan.std"]) > 0.0).all()
    assert table.schema.field("bias.gyro.z").metadata == {b"unit": b"rad/s"}
    summary = json.loads(Path("out/summary.json").read_text())
    assert summary["state"]["unmeasured"] == ["elbow"]
    assert [bias["name"] for bias in summary["state"]["biases"]] == ["gyro.x", "gyro.y", "gyro.z"]
    assert summary["samples"] == 401
    page = Path("out/report.html").read_text()
    assert '<section id="positions"' in page
    assert "elbow, without an encoder" in page


def test_smoothing_can_be_asked_for_and_done_again(hidden):
    assert main(words("--state", "smooth", "-o", "out")) == 0
    assert yaml.safe_load(Path("out/config.yaml").read_text())["state"] == "smooth"
    assert main(["estimate", "--config", "out/config.yaml", "-o", "again"]) == 0
    first, second = (pq.read_table(f"{name}/estimates.parquet") for name in ("out", "again"))
    assert first.equals(second)
    assert np.abs(np.asarray(first["q.elbow"]) - hidden.q[:, 2]).max() < 0.02
    Path("config.yaml").write_text(
        Path("out/config.yaml").read_text().replace("state: smooth", "state: guess")
    )
    assert main(["estimate", "--config", "config.yaml"]) == EXIT_ERROR


@pytest.mark.parametrize(
    ("option", "told", "method"),
    [
        (["--state"], "smooth", "smooth"),
        (["--state"], None, "track"),
        (["--state", "track"], "smooth", "track"),
        ([], "smooth", "smooth"),
    ],
)
def test_the_file_says_how_unless_the_option_does(option, told, method):
    args = argparse.ArgumentParser()
    add_arguments(args)
    options = EstimateOptions.from_arguments(args.parse_args(words(*option)[1:]))
    setup = EstimationSetup(state=None if told is None else StateSetup(told, window=77))
    state = options.state_setup(setup)
    assert state.method == method
    assert state.window == (200 if told is None else 77)


def test_an_interruption_keeps_what_is_done(monkeypatch, capsys):
    step, end = StateTracker.step, [2.5]

    def interrupted(self, time, *args, **options):
        if time > end[0]:
            raise KeyboardInterrupt
        return step(self, time, *args, **options)

    monkeypatch.setattr(StateTracker, "step", interrupted)
    assert main(words("-o", "out")) == EXIT_INTERRUPTED
    assert "interrupted: these are the first 200 of 401 samples" in capsys.readouterr().err
    assert pq.read_table("out/estimates.parquet").num_rows == 200
    assert json.loads(Path("out/summary.json").read_text())["samples"] == 200
    end[0] = 1.5  # before the first chunk is done
    assert main(words("-o", "nothing")) == EXIT_INTERRUPTED
    assert not Path("nothing").exists()


def test_sensors_that_see_nothing_are_refused(capsys):
    Path("sensors.yaml").write_text(
        "sensors: {a: {kind: gyroscope, link: shoulder, std: 1,"
        " channels: [gyro.x, gyro.y, gyro.z]}}"
    )
    assert main(words("-o", "out")) == EXIT_ERROR
    told = " ".join(capsys.readouterr().err.split())
    assert "no positions of elbow" in told
    assert "on forearm" in told
    assert not Path("out").exists()
