"""A robot with joints that nobody recorded, from its simulation to the estimate of its torques."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from bodysense.cli.main import EXIT_ERROR, main
from bodysense.identification.identification import Identification
from bodysense.logs.read import read_log
from bodysense.robot import inverse_dynamics, load_robot

LINK = """<link name="{name}"><inertial><origin xyz="0.1 0.02 0.05"/><mass value="{mass}"/>
<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.03" iyz="0" izz="0.025"/></inertial></link>"""
JOINT = """<joint name="{name}" type="{kind}"><origin xyz="{at}"/><parent link="{parent}"/>
<child link="{child}"/><axis xyz="{axis}"/><limit lower="{lower}" upper="{upper}" effort="50"
 velocity="3"/></joint>"""
TURN = {"kind": "revolute", "lower": -2, "upper": 2}
SLIDE = {"kind": "prismatic", "upper": 0.6}
JOINTS = (
    dict(name="drive", at="0 0.3 0", parent="base", child="wheel", axis="0 1 0", **TURN),
    dict(name="lift", at="0 0 0.5", parent="base", child="mast", axis="0 0 1", lower=0.1, **SLIDE),
    dict(name="shoulder", at="0 0 0.2", parent="mast", child="upper", axis="0 1 0", **TURN),
    dict(name="elbow", at="0.4 0 0", parent="upper", child="lower", axis="1 0 0", **TURN),
    dict(name="grip", at="0.3 0 0", parent="lower", child="jaw", axis="1 0 0", lower=0, **SLIDE),
)
MASSES = {"wheel": 1.0, "mast": 9.0, "upper": 4.0, "lower": 2.0, "jaw": 0.3}
LINKS = [LINK.format(name=name, mass=mass) for name, mass in MASSES.items()]
ROBOT = "\n".join(
    (
        '<robot name="mobile"><link name="base"/>',
        *LINKS,
        *(JOINT.format(**joint) for joint in JOINTS),
        "</robot>",
    )
)
LOCKED = {"drive": 0.0, "lift": 0.1, "grip": 0.0}
QUICK = ["--cutoff", "15", "--friction", "coulomb:width=0.02"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """With the robot, and a recording of its arm alone; the lift stood higher than by default."""
    folder = tmp_path_factory.mktemp("mobile")
    (folder / "mobile.urdf").write_text(ROBOT)
    words = ["random", "-o", str(folder / "arm.csv"), "--duration", "6", "--sampling-rate", "200"]
    locks = ["--lock", "drive", "--lock", "li*=0.4", "--lock", "grip=0.0"]
    assert main(["simulate", str(folder / "mobile.urdf"), *words, *locks]) == 0
    return folder


def test_joints_without_channels_are_locked_and_written_back_free(folder, capsys):
    words = [str(folder / "mobile.urdf"), str(folder / "arm.csv")]
    assert set(read_log(folder / "arm.csv").channels) >= {"q.shoulder", "tau.elbow"}
    assert main(["doctor", *words]) == 0
    said = "locked joints (--lock): drive at 0 rad, lift at 0.1 m, grip at 0 m"
    assert said in capsys.readouterr().out
    assert main(["identify", *words, *QUICK, "-o", str(folder / "out")]) == 0
    out = capsys.readouterr().out
    assert said in out
    assert "GOOD" in out
    table = json.loads((folder / "out" / "scores.json").read_text())
    assert table["joints"] == ["shoulder", "elbow"]
    assert table["locked"] == LOCKED
    assert "grip at 0 m" in (folder / "out" / "report.html").read_text()
    back = load_robot(folder / "out" / "identified.urdf")
    assert back.joint_names == load_robot(folder / "mobile.urdf").joint_names
    q, v, a = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 50, 5))
    names = list(back.joint_names)
    arm = [names.index(name) for name in ("shoulder", "elbow")]
    for name, position in LOCKED.items():
        k = names.index(name)
        q[:, k], v[:, k], a[:, k] = position, 0.0, 0.0
    truth = inverse_dynamics(load_robot(folder / "mobile.urdf"), q, v, a)[:, arm]
    result = Identification.load(folder / "out", _prior(folder))
    expected = inverse_dynamics(result.robot, q[:, arm], v[:, arm], a[:, arm])
    actual = inverse_dynamics(
        load_robot(
            folder / "out" / "identified.urdf",
            actuators=folder / "out" / "identified.actuators.yaml",
        ),
        *(q, v, a),
    )[:, arm]
    np.testing.assert_allclose(actual, expected, atol=1e-9)
    assert np.linalg.norm(actual - truth) < 0.02 * np.linalg.norm(truth)
    for link in ("wheel", "mast", "jaw"):  # the links of locked joints stay as they were
        np.testing.assert_array_equal(back.pi(link), load_robot(folder / "mobile.urdf").pi(link))


def _prior(folder: Path):
    return load_robot(folder / "mobile.urdf").with_friction("coulomb", width=0.02)


def test_a_run_with_locks_is_repeated(folder, capsys):
    words = [str(folder / "mobile.urdf"), str(folder / "arm.csv"), *QUICK]
    lock = ["--lock", "lift=0.4", "--lock", "gr*"]
    assert main(["identify", *words, *lock, "-o", str(folder / "first")]) == 0
    config = folder / "first" / "config.yaml"
    assert yaml.safe_load(config.read_text())["lock"] == ["lift=0.4", "gr*"]
    assert main(["identify", "--config", str(config), "-o", str(folder / "second")]) == 0
    first, second = (
        json.loads((folder / name / "scores.json").read_text()) for name in ("first", "second")
    )
    assert first == second
    assert first["locked"] == {"drive": 0.0, "lift": 0.4, "grip": 0.0}
    sensors = folder / "sensors.yaml"
    sensors.write_text(
        "sensors: {t: {kind: joint_torque, joint: elbow, std: 0.1, channels: [tau.elbow]}}"
    )
    capsys.readouterr()
    estimate = [str(folder / "first"), str(folder / "arm.csv"), "--sensors", str(sensors)]
    assert main(["estimate", *estimate, "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert "taken as standing still: drive at 0 rad, lift at 0.4 m, grip at 0 m" in notes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lock", "wrist"], "unknown joint 'wrist'"),
        (["--lock", "grip=wide"], "--lock grip: invalid value 'wide'"),
        (["--lock", "=1"], "write NAME or NAME=POSITION"),
        (["--lock", "elbow"], "joint 'elbow' is to be locked, but it moves over"),
        (["--lock", "lift=40"], "beyond its limits, 0.1 to 0.6"),
    ],
)
def test_bad_locks(words, message, folder, capsys):
    robot, log = str(folder / "mobile.urdf"), str(folder / "arm.csv")
    assert main(["identify", robot, log, *words]) == EXIT_ERROR
    assert message in capsys.readouterr().err
