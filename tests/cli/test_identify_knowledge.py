"""`bodysense identify` with what is known of the links, and relaxation towards the prior."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from bodysense.cli.main import EXIT_ERROR, main
from bodysense.excitation import FourierTrajectory
from bodysense.logs.log import Log
from bodysense.logs.write import write_log
from bodysense.robot import load_robot, write_urdf
from bodysense.simulation import rollout

QUICK = ["--cutoff", "15"]


@pytest.fixture(scope="module")
def log() -> Log:
    robot, rng = load_robot("rv2sq"), np.random.default_rng(0)
    motion = FourierTrajectory.for_robot(robot, duration=6.0, rng=rng)
    return rollout(robot, motion, sampling_rate=140.0, torque_noise=0.1, rng=rng).log()


@pytest.fixture
def here(log, tmp_path, monkeypatch) -> Path:
    write_log(tmp_path / "one.csv", log)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def identified(*words: str) -> int:
    return main(["identify", "rv2sq", "one.csv", *QUICK, *words])


def error_of(capsys, *words: str) -> str:
    assert identified(*words) == EXIT_ERROR
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    return err


def masses(folder: str) -> np.ndarray:
    robot = load_robot(f"{folder}/identified.urdf")
    return np.array([robot.pi(k)[0] for k in range(robot.layout.n_links)])


def test_a_total_mass_is_kept_to(here):
    assert identified("--total-mass", "23.5", "-o", "out") == 0
    assert masses("out").sum() == pytest.approx(23.5, rel=1e-6)


def test_masses_and_ranges_as_options(here, capsys):
    words = ["--mass", "link2=5.5", "--mass", "link3=0.5,0.7"]
    assert identified(*words, "-o", "out") == 0
    found = masses("out")
    assert found[1] == pytest.approx(5.5, rel=1e-6)
    assert 0.5 - 1e-6 <= found[2] <= 0.7 + 1e-6
    printed = " ".join(capsys.readouterr().out.split())
    assert "known for certain: link2 has 5.5 kg; link3 has 0.5 to 0.7 kg" in printed
    config = yaml.safe_load(Path("out/config.yaml").read_text())
    assert config["mass"] == ["link2=5.5", "link3=0.5,0.7"]


def test_a_file_and_options_together(here):
    Path("known.yaml").write_text("masses: {link2: 5.5}\ntotal_mass: 20\n")
    words = ["--knowledge", "known.yaml", "--total-mass", "22", "--com-inside", "boxes"]
    assert identified(*words, "-o", "out") == 0
    found = masses("out")
    assert found[1] == pytest.approx(5.5, rel=1e-6)
    assert found.sum() == pytest.approx(22.0, rel=1e-6)
    config = yaml.safe_load(Path("out/config.yaml").read_text())
    assert config["knowledge"] == str(here / "known.yaml")
    assert (config["total_mass"], config["com_inside"]) == (22.0, "boxes")
    assert str(here / "known.yaml") in config["sha256"]
    assert main(["identify", "--config", "out/config.yaml", "-o", "again"]) == 0
    np.testing.assert_allclose(masses("again"), found, rtol=1e-9)


def test_a_knowledge_file_that_changed_is_refused(here, capsys):
    Path("known.yaml").write_text("total_mass: 22\n")
    assert identified("--knowledge", "known.yaml", "-o", "out") == 0
    Path("known.yaml").write_text("total_mass: 23\n")
    capsys.readouterr()
    assert main(["identify", "--config", "out/config.yaml", "-o", "again"]) == EXIT_ERROR
    assert "known.yaml is not the file that the configuration" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "relaxation", "weight"),
    [
        (["--relax", "pullback"], "pullback", None),
        (["--relax", "entropic", "--relax-weight", "10"], "entropic", 10.0),
        (["--relax-weight", "0.5"], "auto", 0.5),
    ],
)
def test_relaxation_reaches_the_method(here, words, relaxation, weight):
    assert identified(*words, "-o", "out") == 0
    origin = json.loads(Path("out/identification.json").read_text())["provenance"]["method"]
    assert (origin["relaxation"], origin["relaxation_weight"]) == (relaxation, weight)
    config = yaml.safe_load(Path("out/config.yaml").read_text())
    assert config.get("relax", "auto") == relaxation


def test_a_weight_from_the_data(here, capsys):
    assert identified("--relax", "pullback", "--relax-weight", "auto", "-o", "out") == 0
    assert "chosen by the data" in " ".join(capsys.readouterr().out.split())
    assert yaml.safe_load(Path("out/config.yaml").read_text())["relax_weight"] == "auto"


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--relax", "soft"], "unknown relaxation 'soft'"),
        (["--relax-weight", "-1"], "the weight of the relaxation is -1"),
        (["--relax", "pullback", "--method", "ols"], "relaxation is not a setting of ols"),
        (["--total-mass", "-3"], "the known mass of all links is -3 kg"),
        (["--total-mass", "3", "--method", "wls"], "wls cannot use what is known"),
        (["--mass", "2.5"], "write LINK=KG, or LINK=LOWEST,HIGHEST"),
        (["--mass", "link2=heavy"], "--mass link2: invalid value 'heavy'"),
        (["--mass", "link9=2"], "unknown link 'link9'"),
        (["--mass", "link2=4,3"], "known to lie between 4 and 3 kg"),
        (["--com-inside", "skin"], "unknown shapes 'skin'"),
        (["--com-inside", "collision"], "boxes"),
        (["--knowledge", "nowhere.yaml"], "cannot read nowhere.yaml"),
    ],
)
def test_what_cannot_be_meant(here, capsys, words, part):
    assert part in error_of(capsys, *words)


def test_an_unknown_link(here, capsys):
    Path("known.yaml").write_text("masses: {hand: 3}\n")
    message = error_of(capsys, "--knowledge", "known.yaml")
    assert "unknown link 'hand'" in message
    assert "known.yaml, masses" in message


def test_knowledge_that_contradicts_itself(here, capsys):
    every = ", ".join(f"link{k}: 1.0" for k in range(1, 7))
    Path("known.yaml").write_text(f"masses: {{{every}}}\ntotal_mass: 9\n")
    message = error_of(capsys, "--knowledge", "known.yaml")
    assert "what is known contradicts itself" in message
    assert "Leave one of them out" in message


@pytest.mark.parametrize("kind", ["pullback", "entropic"])
def test_a_prior_that_cannot_exist_has_no_such_distance(here, capsys, kind):
    write_urdf(load_robot("rv2sq"), "plain.urdf")
    text = Path("plain.urdf").read_text(encoding="utf-8")
    Path("bad.urdf").write_text(re.sub(r'izz="[^"]*"', 'izz="9.0"', text), encoding="utf-8")
    words = ["identify", "bad.urdf", "one.csv", *QUICK, "--relax", kind]
    assert main(words) == EXIT_ERROR
    message = capsys.readouterr().err
    assert f"the {kind} relaxation needs a prior with physically consistent links" in message
    assert "or use the euclidean relaxation" in message
