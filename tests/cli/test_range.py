"""Training and validation within one recording."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from bodysense.cli.main import EXIT_ERROR, main

QUICK = ["--cutoff", "15", "--friction", "own"]


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("range") / "log.csv"
    words = ["random", "--duration", "9", "--sampling-rate", "200", "--noise-torque", "0.1"]
    assert main(["simulate", "tx40", *words, "-o", str(path)]) == 0
    return path


def test_one_recording_for_training_and_validation(log, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["tx40", str(log), "--to", "6", "--validate", f"{log}@6.1:9", *QUICK]
    assert main(["identify", *words, "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "log.csv@:6: usable" in printed
    assert "valid. 1: log.csv@6.1:9" in printed
    assert "was also used for fitting" not in printed
    config = yaml.safe_load((out / "config.yaml").read_text())
    assert config["end"] == 6.0
    assert config["validate"] == [f"{log}@6.1:9"]
    provenance = json.loads((out / "identification.json").read_text())["provenance"]
    assert [entry["source"] for entry in provenance["logs"]] == ["log.csv@:6"]
    assert [entry["source"] for entry in provenance["validation"]] == ["log.csv@6.1:9"]
    scores = (out / "scores.json").read_text()
    assert main(["identify", "--config", str(out / "config.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(scores)


def test_validation_on_samples_that_were_fitted_is_said(log, capsys):
    words = ["tx40", f"{log}@0:6", "--validate", f"{log}@5:9", *QUICK]
    assert main(["identify", *words]) == 0
    assert "log.csv@5:9 was also used for fitting" in " ".join(capsys.readouterr().out.split())


def test_a_range_of_its_own_counts_before_the_options(log, capsys):
    words = ["tx40", str(log), f"{log}@1:8", "--from", "2", "--to", "5", *QUICK]
    assert main(["identify", *words]) == 0
    printed = capsys.readouterr().out
    assert "log.csv@2:5: usable" in printed
    assert "log.csv@1:8: usable" in printed


def test_the_doctor_takes_ranges(log, capsys):
    assert main(["doctor", "tx40", f"{log}@1:4", "--json"]) == 0
    (diagnosis,) = json.loads(capsys.readouterr().out)
    assert diagnosis["source"] == "log.csv@1:4"
    assert diagnosis["duration"] == pytest.approx(3.0)


def test_a_load_that_was_gripped_within_one_recording(log, capsys):
    words = ["payload", "tx40", f"{log}@0:5", "--unloaded", f"{log}@4:9", *QUICK[:2]]
    assert main(words) == EXIT_ERROR
    assert "ranges of it that do not overlap" in capsys.readouterr().err
    words = ["payload", "tx40", f"{log}@5:9", "--unloaded", f"{log}@0:4.9", *QUICK[:2], "--json"]
    assert main(words) == 1  # there was none
    payload = json.loads(capsys.readouterr().out)
    assert "No load is visible" in payload["status"]["message"]
    assert abs(payload["mass_kg"]) < 2.0 * payload["mass_sigma_kg"]


def test_an_empty_range_is_refused(log, capsys):
    assert main(["identify", "tx40", str(log), "--from", "20", *QUICK]) == EXIT_ERROR
    assert "no sample lies in @20: [s]; the recording lasts 9 s" in capsys.readouterr().err
