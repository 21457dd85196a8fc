"""`--cutoff none`: every sample counts as it was recorded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from bodysense.cli.main import EXIT_ERROR, main
from bodysense.errors import ShapeError
from bodysense.identification.identification import Identification
from bodysense.identification.preprocessing import Plan, Preprocessing, motions
from bodysense.logs.filtering import differentiate, lowpass, usable_cutoff
from bodysense.logs.read import read_log
from bodysense.robot import load_robot


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("none") / "log.csv"
    words = ["random", "--duration", "5", "--sampling-rate", "250", "--control-rate", "5000"]
    assert main(["simulate", "tx40", *words, "-o", str(path)]) == 0
    return path


def test_positions_and_torques_stay_as_they_are(log):
    robot, recorded = load_robot("tx40"), read_log(log)
    settings = Preprocessing(cutoff=np.inf).settled(robot, np.inf)
    (motion,) = motions(robot, [[recorded]], settings)
    q = recorded.joints("q", robot.joint_names)
    np.testing.assert_array_equal(motion.q, q)
    np.testing.assert_array_equal(motion.tau, recorded.joints("tau", robot.joint_names))
    np.testing.assert_allclose(motion.v, differentiate(q, 250.0), atol=1e-9)
    plan = Plan.of(motion, settings)
    assert (plan.stride, plan.step, plan.taps.size, plan.n_out) == (1, 1, 1, recorded.t.size)
    banded = Preprocessing(cutoff=np.inf, band=10.0).settled(robot, np.inf)
    assert Plan.of(motion, banded).n_out < recorded.t.size


def test_an_infinite_cutoff_is_no_filter(rng):
    x = rng.normal(size=(30, 2))
    np.testing.assert_array_equal(lowpass(x, 100.0, usable_cutoff(np.inf, 100.0)), x)
    for bad in (0.0, -np.inf, np.nan):
        with pytest.raises(ShapeError, match="positive frequency"):
            Preprocessing(cutoff=bad)


def test_identify_without_a_filter(log, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["tx40", str(log), "--cutoff", "none", "--friction", "own"]
    assert main(["identify", *words, "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "cut-off none (given)" in printed
    assert "GOOD" in printed
    assert "low-pass none" in (out / "report.html").read_text()
    assert yaml.safe_load((out / "config.yaml").read_text())["cutoff"] == "none"
    scores = json.loads((out / "scores.json").read_text())
    assert scores["cutoff_hz"] is None
    again = Identification.load(out, load_robot("tx40"))
    assert again.provenance["preprocessing"]["cutoff"] == np.inf
    for path in out.glob("*.json"):
        json.loads(path.read_text(), parse_constant=pytest.fail)  # of Infinity and NaN
    assert main(["identify", "--config", str(out / "config.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == scores


@pytest.mark.parametrize("method", ["ml", "iv"])
def test_methods_that_know_of_the_filter(method, log, capsys):
    words = ["tx40", f"{log}@:3", "--cutoff", "none", "--friction", "own"]
    assert main(["identify", *words, "--method", method, "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["data"][0]["identified"]["all"]["d_tau"] < 0.1


def test_payload_without_a_filter(log, tmp_path, capsys):
    loaded = tmp_path / "loaded.csv"
    words = ["random", "--duration", "5", "--sampling-rate", "250", "--seed", "1"]
    assert main(["simulate", "tx40", *words, "--payload", "2", "-o", str(loaded)]) == 0
    capsys.readouterr()
    words = ["payload", "tx40", str(loaded), "--unloaded", str(log), "--cutoff", "none"]
    assert main([*words, "-o", str(tmp_path / "out")]) == 0
    assert "cut-off none" in capsys.readouterr().out
    payload = json.loads((tmp_path / "out" / "payload.json").read_text())
    assert payload["mass_kg"] == pytest.approx(2.0, abs=0.02)


def test_other_words_are_refused(log, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["identify", "tx40", str(log), "--cutoff", "off"])
    assert exit_.value.code == EXIT_ERROR
    assert "number, or none" in capsys.readouterr().err
