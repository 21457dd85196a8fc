"""`bodysense payload` and `bodysense gains`, as a user would."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

import bodysense.identification.payload.experiment
import bodysense.identification.payload.payload
import bodysense.report.load_page
from bodysense.cli.main import EXIT_ERROR, EXIT_INTERRUPTED, main
from bodysense.errors import InconsistentInertiaError
from bodysense.excitation import FourierTrajectory
from bodysense.identification.payload.drive_gains import DriveGains
from bodysense.identification.payload.payload import Payload
from bodysense.logs.log import Log
from bodysense.logs.write import write_log
from bodysense.robot import load_robot, with_payload
from bodysense.simulation import rollout

MASS, COM = 1.5, (0.03, -0.02, 0.1)
QUICK = ["--cutoff", "15"]
PAIR = ["--unloaded", "empty.csv"]
GAINS = ["--load", "1.5", "--unloaded", "empty.csv"]
PAYLOAD_FILES = {
    "config.yaml",
    "loaded.urdf",
    "loaded.xml",
    "endeffector-config.json",
    "payload.yaml",
    "payload.json",
    "payload.npz",
    "report.html",
}
GAIN_FILES = {"config.yaml", "drive_gains.json", "drive_gains.npz", "report.html"}


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


@pytest.fixture(scope="module")
def logs() -> dict[str, Log]:
    arm = load_robot("rv2sq")
    made = {}
    for name, robot in (("empty", arm), ("loaded", with_payload(arm, MASS, com=COM))):
        rng = np.random.default_rng(len(made))
        motion = FourierTrajectory.for_robot(robot, duration=8.0, rng=rng)
        run = rollout(robot, motion, sampling_rate=140.0, torque_noise=0.05, rng=rng)
        made[name] = run.log()
    return made


@pytest.fixture
def here(logs, tmp_path, monkeypatch) -> Path:
    for name, log in logs.items():
        write_log(tmp_path / f"{name}.csv", log)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def payload(*words: str) -> int:
    return main(["payload", "rv2sq", "loaded.csv", *QUICK, *words])


def gains(*words: str) -> int:
    return main(["gains", "rv2sq", "loaded.csv", *QUICK, *words])


def error_of(capsys, *words: str, run=payload) -> str:
    assert run(*words) == EXIT_ERROR
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("bodysense: error: ")
    assert len(err.splitlines()) == 1
    return err


# -- a load -----------------------------------------------------------------------------------


def test_a_load_as_usual(here, capsys):
    assert payload(*PAIR, "-o", "out") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "link6 holds 1.5" in out
    assert "loaded: loaded.csv: usable" in out
    assert "unloaded: empty.csv: usable" in out
    assert "from drive gains with" in out
    assert "centre of mass [mm]" in out
    assert out.splitlines()[-1] == f"written to out: {', '.join(sorted(PAYLOAD_FILES))}"
    assert set(os.listdir("out")) == PAYLOAD_FILES
    found = Payload.load("out")
    assert found.mass == pytest.approx(MASS, rel=0.02)
    np.testing.assert_allclose(found.com, COM, atol=0.01)
    loaded = load_robot("out/loaded.urdf")
    assert loaded.pi(5)[0] == pytest.approx(load_robot("rv2sq").pi(5)[0] + found.mass)
    assert Path("out/report.html").read_text(encoding="utf-8").startswith("<!")


def test_piped_output_fits_in_100_columns_without_colours(here, capsys):
    payload(*PAIR)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 100 for line in lines if "usable" not in line)
    assert not any("\x1b" in line or line != line.rstrip() for line in lines)


def test_a_load_as_json(here, capsys):
    assert payload(*PAIR, "--json", "--gain-uncertainty", "0.05", "-o", "out") == 0
    table = json.loads(capsys.readouterr().out, parse_constant=refuse_constant)
    assert table["gain_uncertainty"] == 0.05
    assert table == Payload.load("out").to_dict()


def test_a_known_arm_needs_no_unloaded_recording(here, capsys):
    assert payload("--link", "link6", "--robot-uncertainty", "0.05", "--json") == 0
    table = json.loads(capsys.readouterr().out)
    assert "--unloaded" in table["status"]["message"]
    low, high = table["mass_interval_95_kg"]
    assert low < MASS < high


def test_no_load_is_exit_status_1(here, logs, capsys):
    rng = np.random.default_rng(7)
    robot = load_robot("rv2sq")
    motion = FourierTrajectory.for_robot(robot, duration=8.0, rng=rng)
    log = rollout(robot, motion, sampling_rate=140.0, torque_noise=0.05, rng=rng).log()
    write_log("loaded.csv", log)
    assert payload(*PAIR) == 1
    assert "FAILED: No load is visible" in capsys.readouterr().out


def test_swapped_recordings_leave_no_loaded_robot(here, capsys):
    Path("loaded.csv").rename("other.csv")
    Path("empty.csv").rename("loaded.csv")
    Path("other.csv").rename("empty.csv")
    assert payload(*PAIR, "-o", "out") == 1
    out, err = capsys.readouterr()
    assert out.startswith("FAILED: no load identified at link6\n")
    assert "lighter than the unloaded one" in " ".join(out.split())
    assert "holds" not in out
    assert "centre of mass [mm]" not in out
    assert err.startswith("note: loaded.urdf, loaded.xml, payload.yaml: not written")
    assert set(os.listdir("out")) == PAYLOAD_FILES - {
        *("loaded.urdf", "loaded.xml", "payload.yaml", "endeffector-config.json")
    }


def test_a_load_without_unloaded_recordings_names_the_file_first(here, capsys):
    payload("--robot-uncertainty", "0.05")
    assert (
        capsys.readouterr().out.splitlines()[0].endswith(", with the arm as its file describes it")
    )


def test_gains_from_a_wrong_centre_are_not_printed_to_be_pasted(here, capsys):
    words = ["--load", "1.5,0.15,0.15,-0.2", "--unloaded", "empty.csv"]
    assert gains(*words) == 1
    out = capsys.readouterr().out
    assert "FAILED: Torques are predicted worse" in out
    assert "gain: [" not in out
    assert "Gains with 95 % intervals" not in out


def test_a_load_in_grams_prints_no_gains(here, capsys):
    assert gains("--load", "2000", "--unloaded", "empty.csv") == 1
    out = capsys.readouterr().out
    assert "FAILED: " in out
    assert "Gains with 95 % intervals" not in out
    assert "gain: [" not in out


def test_an_empty_recording_among_the_loaded_ones_is_told(here, capsys):
    robot, rng = load_robot("rv2sq"), np.random.default_rng(8)
    motion = FourierTrajectory.for_robot(robot, duration=8.0, rng=rng)
    log = rollout(robot, motion, sampling_rate=140.0, torque_noise=0.05, rng=rng).log()
    write_log("third.csv", log)
    main(["payload", "rv2sq", "loaded.csv", "third.csv", *QUICK, *PAIR])
    out = " ".join(capsys.readouterr().out.split())
    assert "- Recordings with the load disagree about its mass" in out
    assert re.search(r"noise explains, loaded\.csv: 1\.[45].* kg, third\.csv: -?0\.0", out)


def test_a_load_again_from_the_configuration(here, monkeypatch, tmp_path_factory):
    assert payload(*PAIR, "--gain-uncertainty", "0.01", "-o", "first") == 0
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    config = here / "first" / "config.yaml"
    assert main(["payload", "--config", str(config), "-o", "second"]) == 0
    one, two = (yaml.safe_load(p.read_text()) for p in (config, Path("second/config.yaml")))
    assert one == two
    assert one["payload"] == ""
    assert one["unloaded"] == [str(here / "empty.csv")]
    assert set(one["sha256"]) == {str(here / "empty.csv"), str(here / "loaded.csv")}
    assert "method" not in one
    first, second = Payload.load(here / "first"), Payload.load("second")
    np.testing.assert_array_equal(first.pi, second.pi)


def test_an_unloaded_recording_that_changed_is_refused(here, logs, capsys):
    assert payload(*PAIR, "-o", "first") == 0
    write_log("empty.csv", logs["loaded"])
    capsys.readouterr()
    assert main(["payload", "--config", "first/config.yaml", "-o", "second"]) == EXIT_ERROR
    assert "empty.csv is not the file that the configuration" in capsys.readouterr().err
    assert not Path("second").exists()


def test_a_robot_that_cannot_be_written_is_noted(here, capsys, monkeypatch):
    def refuse(robot, path):
        raise InconsistentInertiaError("a link cannot exist.")

    assert payload(*PAIR, "-o", "out") == 0
    capsys.readouterr()
    monkeypatch.setattr(bodysense.identification.payload.payload, "write_mjcf", refuse)
    assert payload(*PAIR, "-o", "out", "--force") == 0
    assert capsys.readouterr().err == "note: loaded.xml is not written: a link cannot exist.\n"
    assert set(os.listdir("out")) == PAYLOAD_FILES - {"loaded.xml"}


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (bodysense.identification.payload.experiment, "prepare"),
        (bodysense.report.load_page, "write_payload_page"),
    ],
)
def test_an_interruption_leaves_everything_as_it_was(here, monkeypatch, module, name):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    before = sorted(os.listdir(here))
    monkeypatch.setattr(module, name, interrupted)
    assert payload(*PAIR, "-o", "out") == EXIT_INTERRUPTED
    assert sorted(os.listdir(here)) == before


def test_a_folder_that_is_not_empty_is_refused_before_any_work(here, capsys, monkeypatch):
    Path("out").mkdir()
    Path("out/mine.txt").write_text("kept")
    monkeypatch.setattr("bodysense.robot.load_robot", None)
    assert "--force" in error_of(capsys, *PAIR, "-o", "out")


# -- drive gains ------------------------------------------------------------------------------

LOGGED = np.array([1.1, 0.9, 1.05, 0.95, 1.0, 1.08])
LAYOUT = """
joints: [{joints}]
time: t
channels:
  q: {{columns: [{q}]}}
  tau: {{columns: [{tau}], gain: [{gain}]}}
"""


@pytest.fixture
def wrong(here, logs) -> Path:
    """Recordings of currents, and a layout whose gains are off; its joints run backward."""
    joints = load_robot("rv2sq").joint_names
    for name, log in logs.items():
        columns = {"t": log.t}
        for j, joint in enumerate(joints):
            columns[f"p{j}"] = log.channels[f"q.{joint}"]
            columns[f"i{j}"] = log.channels[f"tau.{joint}"] / 10.0
        table = np.column_stack(list(columns.values()))
        np.savetxt(f"{name}.csv", table, delimiter=",", header=",".join(columns), comments="")
    back = range(5, -1, -1)
    Path("layout.yaml").write_text(
        LAYOUT.format(
            joints=", ".join(joints[j] for j in back),
            q=", ".join(f"p{j}" for j in back),
            tau=", ".join(f"i{j}" for j in back),
            gain=", ".join(f"{10.0 * LOGGED[j]:g}" for j in back),
        )
    )
    return here


def test_gains_as_usual(wrong, capsys):
    assert gains(*GAINS, "--layout", "layout.yaml", "-o", "out") == 0
    assert "payload" not in yaml.safe_load(Path("out/config.yaml").read_text())
    out, err = capsys.readouterr()
    assert err == ""
    assert "drive gains from a load of 1.5 kg at link6" in out
    found = DriveGains.load("out")
    np.testing.assert_allclose(found.nominal, 10.0 * LOGGED)
    assert (np.abs(found.gains - 10.0) < 4.0 * found.sigma_gains + 0.05).all()
    assert set(os.listdir("out")) == GAIN_FILES
    line = next(x for x in out.splitlines() if x.startswith("gain: ["))
    assert line == found.layout_line(tuple(f"joint{j}" for j in range(6, 0, -1)))
    # Pasted into the layout, the line makes the load weigh what it should.
    text = Path("layout.yaml").read_text()
    start = text.index("gain: [")
    Path("better.yaml").write_text(text[:start] + line + text[text.index("]", start) + 1 :])
    assert payload(*PAIR, "--layout", "better.yaml", "--json") == 0
    after = json.loads(capsys.readouterr().out)["mass_kg"]
    assert abs(after - MASS) < 0.25 * abs(found.load_before - MASS)
    # And once more from the configuration.
    assert main(["gains", "--config", "out/config.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found.to_dict()


def test_gains_of_joints_that_the_robot_does_not_have_are_kept(wrong, capsys):
    text = Path("layout.yaml").read_text()
    text = text.replace("joints: [", "joints: [gripper, ").replace("gain: [", "gain: [3, ")
    text = text.replace("[p5", "[p6, p5").replace("[i5", "[i6, i5")
    for name in ("empty.csv", "loaded.csv"):
        header, *rows = Path(name).read_text().splitlines()
        lines = [f"{header},p6,i6", *(f"{row},0,0" for row in rows)]
        Path(name).write_text("\n".join(lines) + "\n")
    Path("layout.yaml").write_text(text)
    assert gains(*GAINS, "--layout", "layout.yaml") == 0
    assert "\ngain: [3, " in capsys.readouterr().out


def test_gains_of_motors_are_no_line_to_paste(wrong, capsys):
    Path("layout.yaml").write_text(Path("layout.yaml").read_text() + "motors: {gear_ratio: 1}\n")
    assert gains(*GAINS, "--layout", "layout.yaml") == 0
    lines = capsys.readouterr().out.splitlines()
    assert not any(line.startswith("gain: [") for line in lines)
    (line,) = (x for x in lines if x.startswith("# the layout's gains are of motors"))
    factors = [float(x) for x in line[line.index("[") + 1 : -1].split(",")]
    np.testing.assert_allclose(factors, 1.0 / LOGGED, rtol=0.02)


def test_gains_as_json_with_a_known_centre(here, capsys):
    words = ["--load", "1.5,0.03,-0.02,0.1", "--unloaded", "empty.csv", "--json"]
    assert gains(*words, "-o", "out") == 0
    table = json.loads(capsys.readouterr().out, parse_constant=refuse_constant)
    np.testing.assert_array_equal(table["nominal"], 1.0)
    np.testing.assert_allclose(table["factors"], 1.0, atol=0.1)
    assert yaml.safe_load(Path("out/config.yaml").read_text())["load"] == [1.5, 0.03, -0.02, 0.1]


# -- options that make no sense together ------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([*PAIR, "--friction", "choose"], "--friction choose is for `bodysense identify`"),
        ([*PAIR, "--friction", "stribeck:fit"], "--friction stribeck:fit is for `bodysense"),
        ([*PAIR, "--robot-uncertainty", "1"], "--robot-uncertainty is for an arm that is taken"),
        (["--link", "empty.csv"], "empty.csv is a recording where the name of the link"),
        ([*PAIR, "--set", "weighting=huber"], "unknown setting of the filters 'weighting'"),
        ([*PAIR, "--set", "order=2.5"], "--set order=2.5: give a whole number"),
    ],
)
def test_options_that_make_no_sense_together(here, capsys, words, part):
    assert part in error_of(capsys, *words)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--unloaded", "empty.csv"], "the weighed mass of the load (--load KG)"),
        (["--load", "2"], "one without the load (--unloaded LOG)"),
    ],
)
def test_gains_need_a_weighed_load_and_recordings_without_it(here, capsys, words, part):
    assert part in error_of(capsys, *words, run=gains)


# -- the forms of version 0.1 -----------------------------------------------------------------


def test_the_former_option_says_which_command_it_is_now(here, capsys):
    former = ["identify", "rv2sq", "loaded.csv", *QUICK]
    assert main([*former, "--payload", "link6", *PAIR, "--json", "-o", "out"]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        "note: `bodysense identify --payload` is deprecated and goes in the next release: use "
        "`bodysense payload`."
    ]
    assert payload("--link", "link6", *PAIR, "--json") == 0
    assert capsys.readouterr().out == out
    # The configuration does for both commands.
    for command in ("identify", "payload"):
        assert main([command, "--config", "out/config.yaml", "--json"]) == 0
        assert capsys.readouterr().out == out
    assert main([*former, "--drive-gains", *GAINS, "--json", "-o", "gains"]) == 0
    out, err = capsys.readouterr()
    assert err.endswith("use `bodysense gains`.\n")
    assert main(["identify", "--config", "gains/config.yaml", "--json"]) == 0
    assert capsys.readouterr().out == out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--unloaded", "empty.csv"], "of `bodysense identify`: use `bodysense payload`, or leave"),
        (["--load", "2"], "--load is not an option of `bodysense identify`: use `bodysense gains`"),
        (["--gain-uncertainty", "0.1"], "--gain-uncertainty is not an option of"),
        (["--robot-uncertainty", "0.1"], "--robot-uncertainty is not an option of"),
        (["--payload", *PAIR, "--load", "2"], "--load is not an option of `bodysense payload`"),
        (["--payload", *PAIR, "--validate", "empty.csv"], "--validate is not an option of"),
        (["--payload", *PAIR, "--method", "pc-wls"], "--method is not an option of"),
        (["--payload", *PAIR, "--relax", "pullback"], "--relax is not an option of"),
        (["--payload", *PAIR, "--total-mass", "20"], "--total-mass is not an option of"),
        (["--payload", *PAIR, "--seed", "3"], "`bodysense payload`: use `bodysense identify`, or"),
        (
            ["--drive-gains", *GAINS, "--gain-uncertainty", "1"],
            "--gain-uncertainty is not an option of `bodysense gains`",
        ),
        (
            ["--drive-gains", *GAINS, "--robot-uncertainty", "1"],
            "--robot-uncertainty is not an option of `bodysense gains`",
        ),
    ],
)
def test_options_of_other_commands_are_refused(here, capsys, words, part):
    assert main(["identify", "rv2sq", "loaded.csv", *QUICK, *words]) == EXIT_ERROR
    out, err = capsys.readouterr()
    assert out == ""
    assert part in err.splitlines()[-1]


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--link", "link9", *PAIR], "unknown link or frame 'link9'"),
        (["--link", "universe"], "is part of the ground"),
        (["--unloaded", "loaded.csv"], "are the same recording"),
        (["--unloaded", "nowhere.csv"], "nowhere.csv"),
        ([*PAIR, "--gain-uncertainty", "-1"], "gain_uncertainty is -1"),
        ([*PAIR, "--gain-uncertainty", "2"], "gain_uncertainty is 2: give a share between 0 and"),
        (["--robot-uncertainty", "0"], "robot_uncertainty is 0"),
    ],
)
def test_invalid_values(here, capsys, words, part):
    assert part in error_of(capsys, *words)


@pytest.mark.parametrize(
    ("load", "part"),
    [
        ("0", "the load is 0 kg"),
        ("-2", "the load is -2 kg"),
        ("nan", "--load: invalid value 'nan'"),
        ("2,1", "expected KG or KG,x,y,z"),
        ("heavy", "--load: invalid value 'heavy'"),
    ],
)
def test_invalid_loads(here, capsys, load, part):
    assert part in error_of(capsys, f"--load={load}", "--unloaded", "empty.csv", run=gains)


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        ("payload", {"payload": 3}),
        ("identify", {"payload": 3}),
        ("payload", {"unloaded": "empty.csv"}),
        ("payload", {"drive_gains": True}),
        ("gains", {"load": 2.0}),
        ("gains", {"load": ["heavy"]}),
        ("gains", {"drive_gains": False}),
        ("identify", {"drive_gains": "yes"}),
        ("payload", {"gain_uncertainty": "small"}),
        ("identify", {"relax_weight": "light"}),
        ("identify", {"knowledge": 3}),
    ],
)
def test_invalid_values_in_a_configuration(here, capsys, command, changes):
    table = {"robot": "rv2sq", "logs": [str(here / "loaded.csv")], **changes}
    Path("config.yaml").write_text(yaml.safe_dump(table))
    assert main([command, "--config", "config.yaml"]) == EXIT_ERROR
    ((key, value),) = changes.items()
    message = capsys.readouterr().err
    assert f"config.yaml, {key}: invalid value {value!r}; expected " in message
