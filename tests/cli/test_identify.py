"""`bodysense identify`, as a user would."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np
import pytest
import yaml

import bodysense.identification.run
import bodysense.report.identification_page
from bodysense.cli.main import EXIT_ERROR, EXIT_INTERRUPTED, main
from bodysense.errors import InconsistentInertiaError
from bodysense.excitation import FourierTrajectory
from bodysense.identification import output
from bodysense.identification.consistent import projection
from bodysense.logs.log import Log
from bodysense.logs.write import write_log
from bodysense.robot import inverse_dynamics, load_robot, write_urdf
from bodysense.simulation import rollout

FILES = {
    "config.yaml",
    "identification.json",
    "identification.npz",
    "identified.actuators.yaml",
    "identified.joints.yaml",
    "identified.urdf",
    "identified.xml",
    "parameters.csv",
    "report.html",
    "scores.json",
}
QUICK = ["--cutoff", "15"]


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


@pytest.fixture(scope="module")
def logs() -> list[Log]:
    robot = load_robot("rv2sq")
    out = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        motion = FourierTrajectory.for_robot(robot, duration=6.0, rng=rng)
        run = rollout(robot, motion, sampling_rate=140.0, torque_noise=0.1, rng=rng)
        out.append(run.log())
    return out


@pytest.fixture
def here(logs, tmp_path, monkeypatch) -> Path:
    """A working folder with two recordings."""
    write_log(tmp_path / "one.csv", logs[0])
    write_log(tmp_path / "two.parquet", logs[1])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def identified(*words: str) -> int:
    return main(["identify", *words])


def error_of(capsys, *words: str) -> str:
    """The message of a command that must fail."""
    assert identified(*words) == EXIT_ERROR
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("bodysense: error: ")
    assert len(err.splitlines()) == 1
    return err


# -- results ----------------------------------------------------------------------------------


def test_a_run_as_usual(here, capsys):
    assert identified("rv2sq", "one.csv", "--validate", "two.parquet", "-o", "out") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "GOOD: on validation recordings" in out
    assert "one.csv: usable" in out
    assert "valid. 1: two.parquet" in out
    assert re.search(r"prior, valid\. 1 +noise \(raw\)", out)  # errors are of filtered torque
    assert "cut-off" in out
    assert "(chosen)" in out
    assert "joint6" in out
    assert set(os.listdir(here / "out")) == FILES
    assert out.splitlines()[-1] == f"written to out: {', '.join(sorted(FILES))}"
    scores = json.loads((here / "out" / "scores.json").read_text(), parse_constant=refuse_constant)
    assert [data["kind"] for data in scores["data"]] == ["training", "held-out", "validation"]
    assert (here / "out" / "report.html").read_text().startswith("<!")
    # The robot that comes out is closer to the truth than a mass 10 % off.
    back = load_robot("out/identified.urdf", actuators="out/identified.actuators.yaml")
    truth = load_robot("rv2sq")
    q, v, a = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 50, 6))
    tau = inverse_dynamics(truth, q, v, a)
    error = np.linalg.norm(inverse_dynamics(back, q, v, a) - tau, axis=0)
    assert (error < 0.1 * np.linalg.norm(tau, axis=0)).all()


def test_piped_output_fits_in_100_columns_without_colours(here, capsys):
    identified("rv2sq", "one.csv", *QUICK)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert not any("\x1b" in line or line != line.rstrip() for line in lines)


def test_without_an_output_nothing_is_written(here, capsys):
    before = sorted(os.listdir(here))
    assert identified("rv2sq", "one.csv", *QUICK) == 0
    assert "written" not in capsys.readouterr().out
    assert sorted(os.listdir(here)) == before


def test_json_is_json(here, capsys):
    assert identified("rv2sq", "one.csv", "two.parquet", "--json", *QUICK, "-o", "out") == 0
    out, err = capsys.readouterr()
    assert err == ""
    table = json.loads(out, parse_constant=refuse_constant)
    assert table["verdict"]["grade"] == "good"
    assert table["cutoff_hz"] == 15.0
    assert table["data"][0]["source"] == "one.csv, two.parquet"
    assert table == json.loads((here / "out" / "scores.json").read_text())


def test_as_a_process(here):
    done = subprocess.run(
        [sys.executable, "-m", "bodysense", "identify", "rv2sq", "one.csv", *QUICK, "-o", "out"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "GOOD" in done.stdout
    assert done.stderr == ""
    assert set(os.listdir(here / "out")) == FILES


def test_options_reach_the_run(here, capsys):
    words = ["--method", "irls", "--weighting", "window", "--order", "2", "--band", "9"]
    words += ["--border", "0.3", "--still-speed", "0.05", "--seed", "5"]
    words += ["--friction", "stribeck:width=0.05,vs=0.2"]
    assert identified("rv2sq", "one.csv", *QUICK, *words, "-o", "out") == 0
    origin = json.loads((here / "out" / "identification.json").read_text())["provenance"]
    assert origin["method"]["name"] == "irls"
    assert origin["method"]["weighting"] == "window"
    assert origin["seed"] == 5
    assert origin["friction"] == {
        "model": "stribeck",
        "shape": origin["friction"]["shape"] | {"width": [0.05] * 6, "vs": [0.2] * 6},
    }
    chosen = origin["preprocessing"]
    assert (chosen["cutoff"], chosen["order"], chosen["band"]) == (15.0, 2, 9.0)
    assert (chosen["border"], chosen["still_speed"], chosen["decimate"]) == (0.3, 0.05, True)
    printed = capsys.readouterr().out
    assert "friction law 'stribeck' with width 0.05, vs 0.2, delta 2 (given)" in printed


def test_a_law_that_is_named_is_smooth(here):
    assert identified("rv2sq", "one.csv", *QUICK, "--friction", "stribeck", "-o", "out") == 0
    origin = json.loads((here / "out" / "identification.json").read_text())["provenance"]
    assert origin["friction"]["shape"]["width"] == [0.02] * 6
    assert origin["friction"]["shape"]["vs"] == [0.1] * 6


def test_a_shape_can_be_fitted(here, capsys):
    words = ["--friction", "stribeck:vs=0.2,fit", "-o", "out"]
    assert identified("rv2sq", "one.csv", *QUICK, *words) == 0
    origin = json.loads((here / "out" / "identification.json").read_text())["provenance"]
    assert origin["friction"]["model"] == "stribeck"
    vs = origin["friction"]["shape"]["vs"]
    assert len(set(vs)) > 1
    printed = capsys.readouterr().out
    assert "friction law 'stribeck' with width 0.02, delta 2 (fitted)" in printed
    assert "stribeck, fitted" in printed
    # The identified robot carries them, and the run can be done again.
    written = load_robot(
        here / "out" / "identified.urdf", actuators=here / "out" / "identified.actuators.yaml"
    )
    np.testing.assert_allclose(written.friction.shape[:, 1], vs, rtol=1e-12)
    assert identified("--config", "out/config.yaml", "-o", "again") == 0
    again = json.loads((here / "again" / "identification.json").read_text())["provenance"]
    assert again["friction"] == origin["friction"]


def test_laws_that_were_compared_are_shown(here, capsys):
    assert identified("rv2sq", "one.csv", *QUICK, "--friction", "choose", "--method", "wls") == 0
    printed = capsys.readouterr().out
    for law in ("viscous", "coulomb", "offset", "stribeck", "stribeck-offset", r"[a-z-]+-load"):
        row = rf"^ *{law} +\d+\.\d{{3}} +-?\d+\.\d ± \d+\.\d +\d+"
        assert re.search(row, printed, re.MULTILINE), law


def test_forgetting_reaches_the_method(here):
    words = ["--method", "rls", "--forgetting", "0.999", "--spread", "0.5", "-o", "out"]
    assert identified("rv2sq", "one.csv", *QUICK, *words) == 0
    origin = json.loads((here / "out" / "identification.json").read_text())["provenance"]
    assert origin["method"] == {"name": "rls", "forgetting": 0.999, "spread": 0.5}


def test_every_sample_can_count(here, capsys):
    rows = []
    for words in ([], ["--no-decimation"]):
        assert identified("rv2sq", "one.csv", *QUICK, *words) == 0
        line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("cut-off"))
        rows.append(int(line.split()[-2]))
    assert rows[1] > 2 * rows[0]


def test_what_is_not_physical_is_noted(here, logs, capsys):
    """A second of data: least squares finds links that cannot exist."""
    n = 160
    few = Log.of(logs[0].t[:n], {name: x[:n] for name, x in logs[0].channels.items()})
    write_log("few.csv", few)
    assert identified("rv2sq", "few.csv", *QUICK, "--method", "ols", "-o", "out") == 0
    out, err = capsys.readouterr()
    assert "Not physically consistent" in " ".join(out.split())
    assert err.startswith("note: identified.urdf is not written: ")
    assert "pc-wls" in err
    assert "identified.urdf" not in os.listdir(here / "out")
    assert "identified.urdf" not in out.splitlines()[-1]


def test_a_failure_of_the_numerics_is_exit_status_1(here, capsys, monkeypatch):
    monkeypatch.setattr(projection, "_solve_conic", lambda *problem: (None, "on purpose"))
    monkeypatch.setattr(projection, "MARGIN", 0.5)  # so that the solver is needed
    assert identified("rv2sq", "one.csv", *QUICK) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "FAILED: There is no consistent solution (on purpose)" in out


# -- the folder -------------------------------------------------------------------------------


def busy(*args, **kwargs):
    raise AssertionError("work was begun")


def test_a_folder_that_is_not_empty_is_refused_before_any_work(here, capsys, monkeypatch):
    (here / "out").mkdir()
    (here / "out" / "mine.txt").write_text("kept")
    monkeypatch.setattr("bodysense.logs.read.read_log", busy)
    monkeypatch.setattr("bodysense.robot.load_robot", busy)
    message = error_of(capsys, "rv2sq", "one.csv", "-o", "out")
    assert "the folder out exists and is not empty" in message
    assert "--force" in message
    assert os.listdir(here / "out") == ["mine.txt"]


def test_a_file_is_no_folder(here, capsys):
    assert "name a folder" in error_of(capsys, "rv2sq", "one.csv", "-o", "one.csv", "--force")
    assert (here / "one.csv").stat().st_size > 1000


def test_force_replaces_files_of_the_same_names_and_no_others(here, capsys):
    (here / "out").mkdir()
    (here / "out" / "mine.txt").write_text("kept")
    (here / "out" / "scores.json").write_text("old")
    assert identified("rv2sq", "one.csv", *QUICK, "-o", "out", "--force") == 0
    assert set(os.listdir(here / "out")) == {*FILES, "mine.txt"}
    assert (here / "out" / "mine.txt").read_text() == "kept"
    assert json.loads((here / "out" / "scores.json").read_text())["method"].startswith("pc-")
    assert "mine.txt" not in capsys.readouterr().out


def test_force_leaves_no_file_of_an_earlier_result(here, monkeypatch):
    """A result that cannot be written as URDF must not stand beside the URDF of another one."""
    assert identified("rv2sq", "one.csv", *QUICK, "-o", "out") == 0
    assert (here / "out" / "identified.urdf").exists()

    def refuse(robot, path):
        raise InconsistentInertiaError("a link cannot exist.")

    monkeypatch.setattr(output, "write_urdf", refuse)
    assert identified("rv2sq", "one.csv", *QUICK, "-o", "out", "--force") == 0
    assert set(os.listdir(here / "out")) == {*FILES} - {"identified.urdf"}


@pytest.mark.parametrize("choice", ["auto", "own", "choose"])
def test_a_shape_needs_a_law(here, capsys, choice):
    message = error_of(capsys, "rv2sq", "one.csv", "--friction", f"{choice}:width=0.05")
    assert f"{choice} takes no shape; name a law for it, e.g. coulomb:width=0.05" in message


@pytest.mark.parametrize("choice", ["auto", "choose"])
def test_what_is_chosen_is_fitted_unasked(here, capsys, choice):
    message = error_of(capsys, "rv2sq", "one.csv", "--friction", f"{choice}:fit")
    assert f"{choice} takes no shape; name a law for it, e.g. stribeck:fit" in message


def interrupted(*args, **kwargs):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (bodysense.identification.run, "identify"),
        (bodysense.report.identification_page, "write_identification_page"),
    ],
)
@pytest.mark.parametrize("there", [False, True])
def test_an_interruption_leaves_everything_as_it_was(
    here, capsys, monkeypatch, module, name, there
):
    if there:
        (here / "out").mkdir()
        (here / "out" / "scores.json").write_text("old")
    before = sorted(os.listdir(here))
    monkeypatch.setattr(module, name, interrupted)
    assert identified("rv2sq", "one.csv", *QUICK, "-o", "out", "--force") == EXIT_INTERRUPTED
    assert sorted(os.listdir(here)) == before
    if there:
        assert os.listdir(here / "out") == ["scores.json"]
        assert (here / "out" / "scores.json").read_text() == "old"
    assert "Traceback" not in capsys.readouterr().err


# -- doing it again ---------------------------------------------------------------------------


def test_the_configuration_does_it_again(here, capsys, monkeypatch, tmp_path_factory):
    words = ["--validate", "two.parquet", "--method", "wls", "--friction", "offset:width=0.03"]
    assert identified("rv2sq", "one.csv", *words, "-o", "first") == 0
    # From anywhere: paths are absolute.
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    config = str(here / "first" / "config.yaml")
    assert identified("--config", config, "-o", "second") == 0
    for name in ("parameters.csv", "scores.json", "identified.urdf", "identified.actuators.yaml"):
        assert Path("second", name).read_bytes() == (here / "first" / name).read_bytes(), name
    one, two = (yaml.safe_load(p.read_text()) for p in (Path(config), Path("second/config.yaml")))
    assert one == two
    assert one["logs"] == [str(here / "one.csv")]
    assert set(one["sha256"]) == {str(here / "one.csv"), str(here / "two.parquet")}


def test_options_come_on_top_of_the_configuration(here, capsys):
    assert identified("rv2sq", "one.csv", *QUICK, "-o", "first") == 0
    words = ["--config", "first/config.yaml", "--method", "ols", "--cutoff", "10", "--json"]
    capsys.readouterr()
    assert identified(*words) == 0
    table = json.loads(capsys.readouterr().out)
    assert (table["method"], table["cutoff_hz"]) == ("ols", 10.0)


def test_a_folder_with_the_name_of_a_robot_does_not_get_into_the_way(here):
    (here / "rv2sq").mkdir()
    assert identified("rv2sq", "one.csv", *QUICK, "-o", "out") == 0
    assert yaml.safe_load((here / "out" / "config.yaml").read_text())["robot"] == "rv2sq"


def test_a_changed_recording_is_refused(here, logs, capsys):
    assert identified("rv2sq", "one.csv", *QUICK, "-o", "first") == 0
    write_log("one.csv", logs[1])
    capsys.readouterr()
    message = error_of(capsys, "--config", "first/config.yaml", "-o", "second")
    assert "one.csv is not the file that the configuration was written for" in message
    assert not (here / "second").exists()


def configured(here: Path, **changes: object) -> str:
    table = {"robot": "rv2sq", "logs": [str(here / "one.csv")], **changes}
    (here / "config.yaml").write_text(yaml.safe_dump(table))
    return "config.yaml"


def test_unknown_keys_are_refused(here, capsys):
    message = error_of(capsys, "--config", configured(here, cut_off=15.0))
    assert "unknown key in config.yaml 'cut_off': did you mean 'cutoff'" in message


@pytest.mark.parametrize(
    "changes",
    [
        {"cutoff": "high"},
        {"cutoff": True},
        {"order": 2.5},
        {"seed": "x"},
        {"logs": "one.csv"},
        {"logs": [3]},
        {"robot": 3},
        {"decimate": "no"},
        {"friction": ["coulomb"]},
        {"friction_shape": [0.1]},
        {"friction_shape": {"width": "wide"}},
        {"sha256": "abc"},
        {"method": 3},
    ],
)
def test_values_that_cannot_be_meant_are_refused(here, capsys, changes):
    (key,) = changes
    message = error_of(capsys, "--config", configured(here, **changes))
    assert f"config.yaml, {key}: " in message


def test_an_empty_value_is_the_default(here, capsys):
    assert identified("--config", configured(here, band=None, cutoff=15.0), "--json") == 0
    assert json.loads(capsys.readouterr().out)["cutoff_hz"] == 15.0


@pytest.mark.parametrize("text", ["[1, 2]", "just words", "", "a: [", "\x00"])
def test_what_is_no_configuration(here, capsys, text):
    (here / "config.yaml").write_text(text)
    assert "config.yaml" in error_of(capsys, "--config", "config.yaml")


def test_a_missing_configuration(here, capsys):
    assert "nowhere.yaml" in error_of(capsys, "--config", "nowhere.yaml")


# -- bad input --------------------------------------------------------------------------------


def test_nothing_to_do(here, capsys):
    for words in ([], ["rv2sq"]):
        assert "at least one recording: bodysense identify" in error_of(capsys, *words)


def test_a_missing_recording(here, capsys):
    assert "nowhere.csv" in error_of(capsys, "rv2sq", "nowhere.csv", "-o", "out")
    assert not (here / "out").exists()


def test_an_unknown_robot(here, capsys):
    assert "did you mean 'rv2sq'" in error_of(capsys, "rv2s", "one.csv")


def test_an_unknown_method_lists_them_all(here, capsys):
    message = error_of(capsys, "rv2sq", "one.csv", "--method", "magic")
    for name in ("ols", "wls", "irls", "tls", "ridge", "pc-ols", "pc-wls", "pc-irls"):
        assert name in message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("rubber", "unknown friction"),
        ("coulomb:width", "is not a shape; write e.g. coulomb:width=0.02"),
        ("coulomb:width=wide", "is not a shape"),
        ("coulomb:breadth=1", "breadth"),
        ("coulomb:width=-1", "width"),
        ("coulomb:width=nan", "width"),
        ("coulomb:fit", "has no Stribeck curve to fit"),
    ],
)
def test_friction_that_cannot_be_meant(here, capsys, text, part):
    assert part in error_of(capsys, "rv2sq", "one.csv", "--friction", text)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--spread", "0.5"], "spread is not a setting of pc-wls, but of ridge"),
        (
            ["--method", "ols", "--weighting", "huber"],
            "weighting is not a setting of ols",
        ),
        (["--method", "ridge", "--spread", "-1"], "spread is -1"),
        (["--cutoff", "-3"], "cutoff is -3"),
        (["--cutoff", "nan"], "cutoff is nan"),
        (["--order", "0"], "order is 0"),
        (["--border", "100"], "no piece of the log is longer than its borders"),
        (["--seed", "-1"], "the seed is -1"),
        (["--layout", "nowhere.yaml"], "nowhere.yaml"),
        (["--actuators", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_settings_that_cannot_be_meant(here, capsys, words, part):
    assert part in error_of(capsys, "rv2sq", "one.csv", *words)


def test_an_unusable_recording(here, logs, capsys):
    turned = {name: x * (-1.0 if name[0] == "t" else 1.0) for name, x in logs[0].channels.items()}
    write_log("turned.csv", Log.of(logs[0].t, turned))
    message = error_of(capsys, "rv2sq", "turned.csv", "-o", "out")
    assert "turned.csv cannot be identified from: torque-sign" in message
    assert "bodysense doctor" in message
    assert not (here / "out").exists()
    assert identified("rv2sq", "turned.csv", *QUICK, "--allow-unusable") == 0
    assert "NOT usable" in capsys.readouterr().out


HOSTILE = "[bold red]<script>alert(1)</script>\"'&, ${x} \\ ü"


def test_hostile_names_do_no_harm(here, capsys):
    """Names of joints go through XML, CSV, YAML, JSON, HTML and the terminal."""
    text = Path("plain.urdf")
    write_urdf(load_robot("rv2sq"), text)
    xml = text.read_text(encoding="utf-8").replace('"joint3"', quoteattr(HOSTILE))
    Path("hostile.urdf").write_text(xml, encoding="utf-8")
    robot = load_robot("hostile.urdf")
    assert HOSTILE in robot.joint_names
    truth = load_robot("rv2sq")
    rng = np.random.default_rng(0)
    motion = FourierTrajectory.for_robot(truth, duration=6.0, rng=rng)
    log = rollout(truth, motion, sampling_rate=140.0, torque_noise=0.1, rng=rng).log()
    rename = dict(zip(truth.joint_names, robot.joint_names, strict=True))
    channels = {}
    for name, values in log.channels.items():
        kind, _, joint = name.partition(".")
        channels[f"{kind}.{rename[joint]}"] = values
    write_log("hostile.csv", Log.of(log.t, channels))
    assert identified("hostile.urdf", "hostile.csv", *QUICK, "-o", "out") == 0
    out = capsys.readouterr().out
    assert "[bold red]<script>" in out
    scores = json.loads((here / "out" / "scores.json").read_text(encoding="utf-8"))
    assert scores["joints"][2] == HOSTILE
    back = load_robot("out/identified.urdf", actuators="out/identified.actuators.yaml")
    assert back.joint_names == robot.joint_names
    with Path("out/parameters.csv").open(encoding="utf-8", newline="") as stream:
        assert {len(row) for row in csv.reader(stream)} == {10}
    assert "<script>alert" not in Path("out/report.html").read_text(encoding="utf-8")
