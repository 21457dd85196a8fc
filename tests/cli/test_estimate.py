"""`bodysense estimate`: from a robot, a recording and a sensors file to what was felt."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from bodysense.cli.main import EXIT_ERROR, EXIT_INTERRUPTED, main
from bodysense.excitation import FourierTrajectory
from bodysense.logs import Log, write_log
from bodysense.robot import load_robot, suggested_controller
from bodysense.simulation import rollout

sys.path.insert(0, str(Path(__file__).parents[1] / "estimation"))

from pushed_arm import ARM, PUSH, SENSORS, pushed_arm

FILES = ["config.yaml", "estimates.parquet", "report.html", "sensors.parquet", "summary.json"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """Every test in a folder of its own, with a recording and its sensors."""
    monkeypatch.chdir(tmp_path)
    write_log("push.csv", pushed_arm(np.random.default_rng(4)).log)
    Path("sensors.yaml").write_text(SENSORS)


@pytest.fixture
def refused(capsys):
    """Run the command, expect it to refuse and to write nothing, and return its message."""

    def run(*words: str) -> str:
        before = sorted(path.name for path in Path().iterdir())
        assert main(["estimate", *words]) == EXIT_ERROR
        out, err = capsys.readouterr()
        assert out == ""
        assert before == sorted(path.name for path in Path().iterdir())
        return " ".join(err.split())

    return run


def words(*more: str) -> list[str]:
    return ["estimate", str(ARM), "push.csv", "--sensors", "sensors.yaml", *more]


def test_everything_is_written(capsys):
    assert main(words("-o", "out")) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert sorted(path.name for path in Path("out").iterdir()) == FILES
    assert "forearm" in out
    assert "written to out: config.yaml" in out
    table = pq.read_table("out/estimates.parquet")
    t = np.asarray(table["t"])
    inside = (t > PUSH[0]) & (t < PUSH[1])
    force = np.asarray(table["fx.forearm.force_y"])
    sigma = np.asarray(table["fx.forearm.force_y.std"])
    assert force[inside].mean() == pytest.approx(-20.0, abs=0.5)
    assert abs(force[~inside].mean()) < 0.1
    assert (sigma > 0.0).all()
    summary = json.loads(Path("out/summary.json").read_text())
    assert summary["contacts"][0]["start"] == pytest.approx(PUSH[0], abs=0.05)
    assert summary["samples"] == table.num_rows == 381
    assert len(summary["sensors"]) == 9
    assert pq.read_table("out/sensors.parquet").num_rows == 381


def test_json_is_the_summary(capsys):
    assert main(words("--json", "-o", "out")) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(Path("out/summary.json").read_text())


def test_terminal_and_report_count_the_same_quantities(capsys):
    assert main(words("-o", "out")) == 0
    out = " ".join(capsys.readouterr().out.split())
    total = json.loads(Path("out/summary.json").read_text())["unknowns"]
    assert f"readings for {total} estimated quantities" in out
    (counts,) = re.findall(
        rf"Observability: {total} estimated quantities, \d+ of them independent, and \d+ readings "
        r"that depend on them: ([^.]*)\.",
        out,
    )
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert f"estimated quantities: {counts}<" in page
    assert f">{int(counts.split()[0])} of {total}<" in page


def test_without_a_folder_nothing_is_written(capsys):
    assert main(words()) == 0
    assert "Contacts" in capsys.readouterr().out
    assert sorted(path.name for path in Path().iterdir()) == ["push.csv", "sensors.yaml"]


def test_it_can_be_done_again(capsys):
    assert main(words("-o", "out", "--cutoff", "8")) == 0
    assert main(["estimate", "--config", "out/config.yaml", "-o", "again"]) == 0
    first, second = (pq.read_table(f"{name}/estimates.parquet") for name in ("out", "again"))
    assert first.equals(second)
    assert yaml.safe_load(Path("again/config.yaml").read_text())["cutoff"] == 8.0
    Path("sensors.yaml").write_text(SENSORS.replace("0.05", "0.06"))
    capsys.readouterr()
    assert main(["estimate", "--config", "out/config.yaml"]) == EXIT_ERROR
    assert "sensors.yaml is not the file" in capsys.readouterr().err


def test_notes_go_to_stderr(capsys):
    log = pushed_arm(np.random.default_rng(4)).log
    channels = {**log.channels, **{f"acc.{k}": log.channels[f"acc.{k}"] / 9.81 for k in "xyz"}}
    write_log("push.csv", Log.of(log.t, channels))
    assert main(words("--json")) == 0
    out, err = capsys.readouterr()
    assert "note: sensor 'acc' (accelerometer): it looks as if it were in g" in err
    assert any("'acc'" in note for note in json.loads(out)["notes"])


def test_it_is_said_that_no_external_wrenches_were_modelled(capsys):
    sensors = yaml.safe_load(SENSORS)
    del sensors["external_wrenches"]
    Path("sensors.yaml").write_text(yaml.safe_dump(sensors))
    assert main(words()) == 0
    out = " ".join(capsys.readouterr().out.split())
    advice = "list links under external_wrenches in the sensors file"
    assert f"no external wrenches were modelled: {advice}" in out


def test_sensors_are_explained_and_exact_ones_that_cannot_be_true_named(capsys):
    assert main(words()) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "ratio: rms of the residuals over its expected value; expected: 1." in out
    assert "beyond: share outside the 95 % band; expected: 5 %." in out
    assert "contradict each other" not in out
    assert re.search(r"beyond 95 % +missing", out)
    text = SENSORS.replace("all, std: 0.05}", "all, std: 0}")
    text = text.replace("std: [0.2, 0.2, 0.2, 0.02, 0.02, 0.02]", "std: 0")
    Path("sensors.yaml").write_text(text)
    assert main(words("-o", "out")) == 0
    out = capsys.readouterr().out
    first = out.partition("Sensors:")[2].splitlines()[4]
    assert first.split()[0] in ("wrist", "torque.elbow")
    assert "exact readings (std 0) contradict each other" in out
    summary = json.loads(Path("out/summary.json").read_text())
    assert "torque.elbow (off by up to" in summary["inconsistent_exact_readings"]
    by_name = {sensor["name"]: sensor for sensor in summary["sensors"]}
    assert by_name["torque.elbow"]["contradicted"] == 381
    assert by_name["torque.pan"]["contradicted"] == 0
    assert by_name["torque.pan"]["off"] < 1e-6
    assert by_name["acc"]["off"] is None


def test_an_interruption_before_the_first_chunk_leaves_nothing(monkeypatch, capsys):
    from bodysense.estimation import LogTotals

    def interrupted(self, chunk):
        raise KeyboardInterrupt

    monkeypatch.setattr(LogTotals, "add", interrupted)
    assert main(words("-o", "out")) == EXIT_INTERRUPTED
    out, err = capsys.readouterr()
    assert out == ""
    assert "interrupted before anything could be kept: nothing written" in err
    assert "Give the same command again" in " ".join(err.split())
    assert not Path("out").exists()
    assert sorted(path.name for path in Path().iterdir()) == ["push.csv", "sensors.yaml"]


def test_an_interruption_keeps_what_is_done(monkeypatch, capsys):
    from bodysense.estimation import LogEstimate, MapDynamics

    chunks, estimate = LogEstimate.chunks, MapDynamics.estimate
    solved = []

    def interrupted(self, q, *args, **options):
        solved.append(len(q))
        if solved.count(150) == 2:  # in the second chunk
            raise KeyboardInterrupt
        return estimate(self, q, *args, **options)

    monkeypatch.setattr(LogEstimate, "chunks", lambda self, **how: chunks(self, 150, **how))
    monkeypatch.setattr(MapDynamics, "estimate", interrupted)
    assert main(words("-o", "out")) == EXIT_INTERRUPTED
    assert "interrupted: these are the first 150 of 381 samples" in capsys.readouterr().err
    assert sorted(path.name for path in Path("out").iterdir()) == FILES
    assert pq.read_table("out/estimates.parquet").num_rows == 150
    assert pq.read_table("out/sensors.parquet").num_rows == 150
    assert json.loads(Path("out/summary.json").read_text())["samples"] == 150
    page = Path("out/report.html").read_text()
    assert "push.csv: 150 samples over 1.49" in page
    assert "381 samples over" not in page


# -- an identified robot -----------------------------------------------------------------------


@pytest.fixture
def identified() -> str:
    """A folder as identify writes it, without the run."""
    from bodysense.files import write_arrays
    from bodysense.robot import load_robot, write_actuators, write_urdf
    from bodysense.robot.base_parameters import base_parameters

    robot = load_robot(ARM)
    Path("found").mkdir()
    write_urdf(robot, "found/identified.urdf")
    write_actuators(robot, "found/identified.actuators.yaml")
    b = base_parameters(robot).size
    arrays = {"theta": robot.theta, "covariance": 0.02**2 * np.eye(b)}
    write_arrays("found/identification.npz", arrays)
    return "found"


def test_an_identified_robot_goes_in_as_it_came_out(identified, capsys):
    command = ["estimate", identified, "push.csv", "--sensors", "sensors.yaml"]
    assert main([*command, "-o", "out"]) == 0
    assert main([*command, "-o", "wide", "--parameter-covariance"]) == 0
    narrow, wide = (
        np.asarray(pq.read_table(f"{name}/estimates.parquet")["fx.forearm.force_x.std"])
        for name in ("out", "wide")
    )
    assert (wide > narrow).all()
    assert (wide < 20.0 * narrow).all()
    summary = json.loads(Path("wide/summary.json").read_text())
    assert summary["parameters_considered"]


def test_a_covariance_needs_an_identification(refused, identified):
    told = refused(*words("--parameter-covariance")[1:])
    assert "folder" in told
    from bodysense.files import write_arrays

    write_arrays("found/identification.npz", {"theta": np.ones(3), "covariance": np.eye(3)})
    told = refused(identified, "push.csv", "--sensors", "sensors.yaml", "--parameter-covariance")
    assert "another robot" in told
    Path("found/identified.urdf").unlink()
    assert "holds no identified.urdf" in refused(
        identified, "push.csv", "--sensors", "sensors.yaml"
    )


# -- what is refused ---------------------------------------------------------------------------


def test_what_is_missing_is_named(refused):
    assert "give a robot" in refused()
    assert "give a recording" in refused(str(ARM))
    assert "--sensors FILE" in refused(str(ARM), "push.csv")
    assert "nowhere.csv" in refused(str(ARM), "nowhere.csv", "--sensors", "sensors.yaml")
    assert "nothing.yaml" in refused(str(ARM), "push.csv", "--sensors", "nothing.yaml")


def test_a_log_of_another_robot_is_refused(refused):
    told = refused("tx40", "push.csv", "--sensors", "sensors.yaml")
    assert "elbow" in told
    Path("tx40").mkdir()  # a folder of the same name is not meant
    Path("few.yaml").write_text("sensors: {m: {kind: joint_torque, joint: all, std: 1}}")
    told = refused("tx40", "push.csv", "--sensors", "few.yaml")
    assert "no positions of joint1" in told


def test_a_log_in_degrees_is_refused_as_identify_does(refused, capsys):
    robot, rng = load_robot("tx40"), np.random.default_rng(0)
    motion = FourierTrajectory.for_robot(robot, rng=rng, duration=3.0)
    recorded = rollout(
        robot, motion, sampling_rate=500.0, controller=suggested_controller(robot)
    ).log()
    turned = {k: np.rad2deg(x) if k[:2] == "q." else x for k, x in recorded.channels.items()}
    table = np.column_stack([recorded.t, *turned.values()])
    header = ",".join(["t", *turned])  # no units: nobody says that these are degrees
    np.savetxt("deg.csv", table, delimiter=",", header=header, comments="")
    Path("few.yaml").write_text("sensors: {m: {kind: joint_torque, joint: all, std: 1}}")
    told = refused("tx40", "deg.csv", "--sensors", "few.yaml", "-o", "out")
    assert "deg.csv cannot be estimated from: degrees, q.joint1" in told
    assert "write `channels: {q: {unit: deg}}` into the layout file" in told
    assert main(["identify", "tx40", "deg.csv"]) == EXIT_ERROR
    same = " ".join(capsys.readouterr().err.split())
    assert told == same.replace("identified from", "estimated from")


def test_a_sensor_on_an_unknown_frame_is_refused(refused):
    Path("sensors.yaml").write_text("sensors: {a: {kind: gyroscope, link: hand, std: 1}}")
    told = refused(*words()[1:])
    assert "unknown" in told
    assert "'hand'" in told


def test_a_full_folder_is_not_touched(refused):
    Path("out").mkdir()
    Path("out/mine.txt").write_text("x")
    assert "--force" in refused(*words("-o", "out")[1:])
    assert main(words("-o", "out", "--force")) == 0
    assert sorted(path.name for path in Path("out").iterdir()) == sorted([*FILES, "mine.txt"])


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("robt: x", "unknown key"),
        ("cutoff: yes", "cutoff"),
        ("floating: 3", "floating"),
        ("[1]", "config.yaml"),
    ],
)
def test_a_broken_configuration_is_named(refused, text, word):
    Path("config.yaml").write_text(text)
    assert word in refused("--config", "config.yaml")
