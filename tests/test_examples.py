"""The examples run: each of them as a user starts it, in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bodysense
from bodysense.errors import MissingDependencyError
from bodysense.robot import gravity_regressor, inverse_dynamics, mass_matrix
from bodysense.robot.io.load import example_robot_names

EXAMPLES = Path(__file__).parent.parent / "examples"
ROBOTS = EXAMPLES / "robots"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))

try:
    INSTALLED_ROBOTS = example_robot_names()
except MissingDependencyError:
    INSTALLED_ROBOTS = ()


def run_example(script: str, folder: Path, *words: str) -> str:
    """Start an example in an empty folder; return what it printed."""
    process = subprocess.run(
        [sys.executable, str(EXAMPLES / script), "--quick", *words],
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stderr == ""
    return process.stdout


def written(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))


def test_every_example_is_tested_and_listed():
    assert SCRIPTS == [
        "01_inspect_and_rollout.py",
        "02_load_your_robot.py",
        "03_write_it_back.py",
        "04_simulate_and_identify.py",
        "05_identify_a_payload.py",
        "06_design_an_exciting_motion.py",
        "07_compare_methods.py",
        "08_feel_a_push.py",
        "09_feel_live.py",
        "10_is_it_a_contact.py",
    ]
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\((\d\d_\w+\.py)\)", readme)) == SCRIPTS


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> tuple[Path, str]:
    """The folder in which the demo ran, and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, run_example("01_inspect_and_rollout.py", folder)


def test_demo_inspects_and_simulates(demo):
    _, printed = demo
    assert "52 combinations can be identified: 40 inertial and rotor, 12 friction." in printed
    assert "11 have no effect at all: M1, MX1, MY1, MZ1, XX1, XY1, YY1, XZ1, YZ1, M2" in printed
    assert "6 joints, 1001 samples over 1 s, all completed." in printed
    error = re.search(r"tracking error: ([\d.]+)° r\.m\.s\., ([\d.]+)° at most", printed)
    assert error is not None
    assert 0.0 < float(error[1]) < float(error[2]) < 2.0
    assert re.search(r"[\d.]+ µs a step, \d+ times faster than real time", printed)


def test_demo_writes_a_page_with_curves_and_the_robot(demo):
    folder, printed = demo
    assert written(folder) == ["out/demo/tx40_motion.html"]
    assert str(folder / "out" / "demo" / "tx40_motion.html") in printed
    page = (folder / "out" / "demo" / "tx40_motion.html").read_text(encoding="utf-8")
    for chart in ("position [rad]", "velocity [rad/s]", "torque [N·m]", "tracking error [rad]"):
        assert chart in page
    for joint in range(1, 7):
        assert f"joint{joint}" in page
    # the world, six joints in a chain, and the tip on the sixth
    assert '"parents":[-1,0,1,2,3,4,5,6]' in page


def test_identified_robot_is_near_the_truth(tmp_path):
    printed = run_example("04_simulate_and_identify.py", tmp_path)
    assert re.search(r"pc-\w+ on TX40: \d+ of 52 base parameters identified, ", printed)
    assert "GOOD: on validation recordings" in printed
    inside = re.search(r"The truth lies within (\d+) of 52 intervals of 95 %", printed)
    assert inside is not None
    assert int(inside[1]) >= 44
    assert written(tmp_path / "out" / "demo") == [
        "config.yaml",
        "drawings.actuators.yaml",
        "drawings.urdf",
        "identification.json",
        "identification.npz",
        "identified.actuators.yaml",
        "identified.joints.yaml",
        "identified.urdf",
        "identified.xml",
        "log.parquet",
        "parameters.csv",
        "report.html",
        "scores.json",
        "validation.parquet",
    ]


def test_a_payload_is_found(tmp_path):
    printed = run_example("05_identify_a_payload.py", tmp_path)
    mass = re.search(r"mass +2\.000 kg +found ([\d.]+) \(([\d.]+) to ([\d.]+)\)", printed)
    assert mass is not None
    assert abs(float(mass[1]) - 2.0) < 0.02
    assert float(mass[2]) < 2.0 < float(mass[3])
    for true, found, reach in re.findall(r"([-\d.]+) mm +found +([-\d.]+) ± ([\d.]+)", printed):
        assert abs(float(true) - float(found)) <= float(reach)
    assert written(tmp_path / "out" / "payload") == [
        "endeffector-config.json",
        "loaded.urdf",
        "loaded.xml",
        "payload.json",
        "payload.npz",
        "payload.yaml",
        "report.html",
    ]


def test_a_designed_motion_leaves_less_doubt_than_a_random_one(tmp_path):
    printed = run_example("06_design_an_exciting_motion.py", tmp_path)
    assert "TX40: 1 motion of 6 s for 6 joints; cond(W) =" in printed
    less = re.search(r"The designed motion leaves ([\d.]+) times less", printed)
    assert less is not None
    assert float(less[1]) > 1.5
    files = ["motion.csv", "motion.html", "motion.yaml"]
    assert written(tmp_path / "out" / "excitation") == files


def test_own_robot_is_described_moved_and_saved(tmp_path):
    printed = run_example("02_load_your_robot.py", tmp_path)
    assert "note: 1 link on fixed joints merged" in printed
    assert "friction law 'stribeck': Fv, Fc, Fs" in printed
    assert "25 of 42 parameters can be identified" in printed
    back = re.search(r"finds the base parameters back, to (\S+)\.\n", printed)
    assert back is not None
    assert float(back[1]) < 1e-10
    run = bodysense.Rollout.load(tmp_path / "out" / "your_robot")
    assert run.joint_names == ("pan", "lift", "elbow")
    assert run.q.shape == (1, 201, 3)
    about = json.loads((tmp_path / "out" / "your_robot" / "rollout.json").read_text("utf-8"))
    assert about["summary"] in printed


@pytest.mark.parametrize(
    ("robot", "expected"),
    [
        (str(ROBOTS / "scara.yaml"), "19 of 52 parameters can be identified"),
        ("example:ur5", "gains were chosen from its inertia"),
        ("example:solo12", "It floats"),
    ],
)
def test_any_robot_can_be_given(robot, expected, tmp_path):
    if robot.startswith("example:") and not INSTALLED_ROBOTS:
        pytest.skip("example-robot-data is not installed")
    assert expected in run_example(
        "02_load_your_robot.py", tmp_path, robot, "--out", str(tmp_path / "elsewhere")
    )
    assert not (tmp_path / "out").exists()


def test_changed_robot_is_written_back(tmp_path):
    printed = run_example("03_write_it_back.py", tmp_path)
    assert written(tmp_path / "out" / "written") == ["arm.urdf", "arm.xml"]
    assert '+    <dynamics damping="1.44" friction="2.0" armature="0.18"/>\n' in printed
    differences = re.findall(r"(?:URDF|MJCF): (\S+) N·m", printed)
    assert len(differences) == 2
    assert max(map(float, differences)) < 1e-12
    robot = bodysense.load_robot(tmp_path / "out" / "written" / "arm.urdf")
    assert robot.parameter("M3") == pytest.approx(1.3 + 0.45 + 0.5, abs=1e-15)
    old = (ROBOTS / "arm.urdf").read_text(encoding="utf-8").splitlines()
    new = (tmp_path / "out" / "written" / "arm.urdf").read_text(encoding="utf-8").splitlines()
    assert sum(a != b for a, b in zip(old, new, strict=True)) == 6


def test_arm_holds_what_its_urdf_says():
    robot = bodysense.load_robot(ROBOTS / "arm.urdf", actuators=ROBOTS / "arm-actuators.yaml")
    still = np.zeros((1, 3))
    q = np.array([[0.3, 0.5, -0.2]])
    tau = inverse_dynamics(robot, q, still, still)[0]
    # Heavy points in the plane of the arm, x forward and z up, each m g times its lever.
    g, lift, both = 9.81, 0.5, 0.3
    x_forearm = 0.01 * np.cos(both) + 0.11 * np.sin(both)
    x_gripper = (0.25 + 0.04) * np.sin(both)
    elbow = -g * (1.3 * x_forearm + 0.45 * x_gripper)
    x_elbow = 0.30 * np.sin(lift)
    lift_torque = elbow - g * ((1.3 + 0.45) * x_elbow + 2.4 * 0.14 * np.sin(lift))
    np.testing.assert_allclose(tau, [0.0, lift_torque, elbow], rtol=0, atol=1e-13)
    assert robot.controller is not None
    assert robot.actuators.gear_ratio.tolist() == [80.0, 80.0, 50.0]


def test_scara_quill_lifts_its_own_weight_and_nothing_else_falls():
    robot = bodysense.load_robot(ROBOTS / "scara.yaml")
    q = np.random.default_rng(0).uniform(-1.0, 1.0, (5, 4))
    holding = gravity_regressor(robot, q) @ robot.theta
    weight = (0.9 + 0.35) * 9.81
    np.testing.assert_allclose(holding, np.tile([0.0, 0.0, weight, 0.0], (5, 1)), atol=1e-12)
    # Inertia that the quill feels: both links on it, and its rotor.
    np.testing.assert_allclose(mass_matrix(robot, q)[:, 2, 2], 0.9 + 0.35 + 3.0, rtol=1e-14)


def test_methods_are_compared_with_the_truth(tmp_path):
    printed = run_example("07_compare_methods.py", tmp_path)
    errors = {name: float(x) for name, x in re.findall(r"│ ([\w-]+) +│ +([\d.]+) │", printed)}
    assert list(errors) == ["drawings", "ols", "pc-wls", "iv", "didim", "cloe"]
    assert errors["cloe"] < 0.5 < errors["pc-wls"] < errors["ols"]
    files = ["drawings.actuators.yaml", "drawings.urdf", "log.parquet"]
    assert written(tmp_path / "out" / "methods") == files


@pytest.mark.skipif(not INSTALLED_ROBOTS, reason="example-robot-data is not installed")
def test_pushes_are_felt_where_they_are(tmp_path):
    printed = run_example("08_feel_a_push.py", tmp_path)
    assert "52 sensors with 110 readings for 652 estimated quantities" in printed
    row = r"│ (\w+) +│ +[\d.]+ │ +([\d.]+) │ +([\d.]+) │ +± ([\d.]+) │ +([\d.]+) % │"
    felt = {link: map(float, numbers) for link, *numbers in re.findall(row, printed)}
    assert list(felt) == ["l_forearm", "chest", "r_upper_leg"]
    for true, estimated, band, inside in felt.values():
        assert abs(estimated - true) < 2.0 * band < 0.3 * true
        assert 92.0 < inside < 98.0
    chart = (tmp_path / "out" / "push" / "push.svg").read_text(encoding="utf-8")
    assert chart.count("<polygon") == chart.count("<polyline") == 9
    assert "nan" not in chart


@pytest.mark.skipif(not INSTALLED_ROBOTS, reason="example-robot-data is not installed")
def test_a_push_is_estimated_while_it_happens(tmp_path):
    printed = run_example("09_feel_live.py", tmp_path)
    true, estimated = re.findall(r"pushed with ([\d.]+) N: estimated ([\d.]+) N", printed)[0]
    assert abs(float(true) - float(estimated)) < 1.5
    usual, most = re.findall(r"not pushed: estimated ([\d.]+) N, ([\d.]+) N at most", printed)[0]
    assert float(usual) < 1.0
    assert float(most) < 4.0
    received = re.search(r"ur5, tcp://127\.0\.0\.1:\d+: (\d+) samples in", printed)
    assert received is not None
    assert int(received[1]) > 2500
    ((since, pushed),) = re.findall(
        r"contact on wrist_3_link since ([\d.]+) s, pushed at ([\d.]+)", printed
    )
    assert abs(float(since) - float(pushed)) < 0.2
    assert not any(tmp_path.iterdir())


def test_pushes_are_found_and_nothing_else(tmp_path):
    printed = run_example("10_is_it_a_contact.py", tmp_path)
    counts = re.findall(r"(\d+) contacts in 3 logs without any; (\d+) of 3 pushes", printed)
    assert counts == [("0", "3"), ("0", "3")]
    chart = (tmp_path / "out" / "contact" / "detectable.svg").read_text(encoding="utf-8")
    assert chart.count("<polyline") == 10
    assert "nan" not in chart
