from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bodysense.cli.main import EXIT_ERROR, main
from bodysense.excitation import FourierTrajectory
from bodysense.logs.log import Log
from bodysense.logs.write import write_log
from bodysense.robot import load_robot
from bodysense.simulation import rollout


@pytest.fixture(scope="module")
def log() -> Log:
    robot = load_robot("tx40")
    motion = FourierTrajectory.for_robot(robot, rng=np.random.default_rng(1), duration=4.0)
    return rollout(robot, motion, sampling_rate=200.0).log()


@pytest.fixture
def good(log, tmp_path) -> Path:
    path = tmp_path / "good.csv"
    write_log(path, log)
    return path


@pytest.fixture
def bad(log, tmp_path) -> Path:
    channels = {
        name: values * (-1.0 if name[0] == "t" else 1.0) for name, values in log.channels.items()
    }
    path = tmp_path / "bad [red].csv"
    write_log(path, Log.of(log.t, channels))
    return path


def test_a_good_log_is_usable(good, capsys):
    assert main(["doctor", "tx40", str(good)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines()[-1].startswith("good.csv: usable (nothing found): 801 of 801 samples")
    assert "joint6" in out
    assert "--layout" not in out


def test_a_bad_log_is_not(bad, capsys):
    assert main(["doctor", "tx40", str(bad)]) == 1
    out = capsys.readouterr().out
    assert "Errors: cannot be used as it is" in out
    assert "torque-sign" in out
    assert "what to do" in out
    assert "what is done" not in out
    assert "--layout FILE" in out
    assert out.splitlines()[-1] == "bad [red].csv: NOT usable (1 error)"


def test_one_bad_log_among_several_decides(good, bad, capsys):
    assert main(["doctor", "tx40", str(good), str(bad), str(good)]) == 1
    out = capsys.readouterr().out
    assert out.count("good.csv: usable") == 2
    assert out.count("NOT usable") == 1


def test_json_is_json(good, bad, capsys):
    assert main(["doctor", "tx40", str(good), str(bad), "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert first["usable"]
    assert first["n_kept"] == first["n_samples"] == 801
    assert first["rate"] == pytest.approx(200.0)
    assert len(first["digest"]) == 64
    assert [finding["kind"] for finding in second["findings"]] == ["torque-sign"]
    assert set(second["findings"][0]) == {"kind", "severity", "where", "message", "action"}


def test_a_layout_names_the_columns(log, tmp_path, capsys):
    table = np.column_stack(
        [log.t, *(log.channels[f"{k}.joint{j}"] for k in ("q", "tau") for j in range(1, 7))]
    )
    np.savetxt(tmp_path / "plain.txt", table)
    (tmp_path / "layout.yaml").write_text(
        "joints: [joint1, joint2, joint3, joint4, joint5, joint6]\n"
        "time: {column: 1}\n"
        "channels:\n"
        "  q: {columns: [2, 3, 4, 5, 6, 7]}\n"
        "  tau: {columns: [8, 9, 10, 11, 12, 13]}\n"
    )
    words = ["doctor", "tx40", str(tmp_path / "plain.txt"), "--layout"]
    assert main([*words, str(tmp_path / "layout.yaml")]) == 0
    assert "usable (nothing found)" in capsys.readouterr().out


def test_currents_use_the_gains_of_the_actuator_file(log, tmp_path, capsys):
    channels = {name.replace("tau.", "i."): values for name, values in log.channels.items()}
    write_log(tmp_path / "currents.csv", Log.of(log.t, channels))
    (tmp_path / "drives.yaml").write_text("drive_gain: [1, 1, 1, 1, 1, 2]\n")
    words = ["doctor", "tx40", str(tmp_path / "currents.csv"), "--friction", "stribeck"]
    assert main([*words, "--actuators", str(tmp_path / "drives.yaml")]) == 0
    assert "1, 1, 1, 1, 1, 2 N·m/A" in " ".join(capsys.readouterr().out.split())


def test_piped_output_fits_in_100_columns_without_colours(bad, capsys):
    main(["doctor", "tx40", str(bad)])
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 100 for line in lines[:-1])
    assert not any("\x1b" in line or line != line.rstrip() for line in lines)


def test_a_terminal_gets_colours(good, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    main(["doctor", "tx40", str(good)])
    assert "\x1b[" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["tx41", "LOG"], ["tx40", "nowhere.csv"]])
def test_what_cannot_be_read_is_an_error(words, good, capsys):
    assert main(["doctor", *(str(good) if word == "LOG" else word for word in words)]) == EXIT_ERROR
    assert "bodysense: error:" in capsys.readouterr().err


def test_a_missing_layout_is_an_error(good, capsys):
    assert main(["doctor", "tx40", str(good), "--layout", "nowhere.yaml"]) == EXIT_ERROR
    assert "nowhere.yaml" in capsys.readouterr().err
