from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from bodysense.cli.main import EXIT_ERROR, main
from bodysense.excitation import FourierTrajectory, SampledTrajectory
from bodysense.excitation.trajectory_file import read_trajectory
from bodysense.logs.read import read_log
from bodysense.robot import Controller, load_robot, suggested_controller
from bodysense.robot.frames import with_payload
from bodysense.simulation import rollout

SHORT = ("--duration", "1", "--harmonics", "4")
JOINTS = tuple(f"joint{k}" for k in range(1, 7))


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """Every test in a folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def simulated(capsys):
    """Run the command, expect success, and return its JSON."""

    def run(*words: str) -> dict:
        assert main(["simulate", *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def refused(capsys):
    """Run the command, expect it to refuse and to write nothing, and return its message."""

    def run(*words: str, status: int = EXIT_ERROR) -> str:
        before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
        assert main(["simulate", *words]) == status
        out, err = capsys.readouterr()
        assert out == ""
        assert before == {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
        return " ".join(err.split())

    return run


def logged(path: str, quantity: str, joints: tuple[str, ...] = JOINTS) -> np.ndarray:
    channels = read_log(path).channels
    return np.stack([channels[f"{quantity}.{joint}"] for joint in joints], axis=1)


def short_motion(seed: int = 0) -> FourierTrajectory:
    rng = np.random.default_rng(seed)
    return FourierTrajectory.for_robot(load_robot("tx40"), rng=rng, duration=1.0, harmonics=4)


# -- what is recorded --------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_log_is_that_of_the_rollout(suffix, simulated):
    summary = simulated("tx40", "random", "-o", f"log{suffix}", *SHORT, "--seed", "3")
    expected = rollout(load_robot("tx40"), short_motion(3), sampling_rate=1e3, integrator="rk4")
    assert summary["files"] == [f"log{suffix}"]
    np.testing.assert_allclose(read_log(f"log{suffix}").t, expected.t, atol=1e-12)
    np.testing.assert_array_equal(logged(f"log{suffix}", "q"), expected.q[0])
    np.testing.assert_array_equal(logged(f"log{suffix}", "tau"), expected.tau[0])
    np.testing.assert_array_equal(logged(f"log{suffix}", "q_des"), expected.reference)
    assert (summary["samples"], summary["sampling_rate"]) == (1001, 1000.0)
    assert summary["joints"][1]["peak_torque"] == np.abs(expected.tau[0, :, 1]).max()


def test_noise_is_what_was_asked_for_and_repeats_with_the_seed(simulated):
    noise = ("--noise-position", "0.01deg", "--noise-torque", "0.1", "--runs", "2")
    summary = simulated("tx40", "random", "-o", "log.parquet", *SHORT, *noise)
    assert summary["files"] == ["log-001.parquet", "log-002.parquet"]
    assert summary["position_noise"] == [np.deg2rad(0.01)]
    simulated("tx40", "random", "-o", "again.parquet", *SHORT, *noise)
    simulated("tx40", "random", "-o", "plain.parquet", *SHORT)
    for run in ("001", "002"):
        # The loop answers to the noise, so the noise alone is between neighbouring samples.
        jumps = np.diff(logged(f"log-{run}.parquet", "q") - logged("plain.parquet", "q"), axis=0)
        np.testing.assert_allclose(jumps.std(axis=0), np.sqrt(2) * np.deg2rad(0.01), rtol=0.15)
        for quantity in ("q", "tau"):
            first, second = (logged(f"{n}-{run}.parquet", quantity) for n in ("log", "again"))
            np.testing.assert_array_equal(first, second)
    assert not np.array_equal(logged("log-001.parquet", "q"), logged("log-002.parquet", "q"))


def test_torque_noise_alone_leaves_the_motion_alone(simulated):
    simulated("tx40", "random", "-o", "noisy.parquet", *SHORT, "--noise-torque", "1,2,3,4,5,6")
    simulated("tx40", "random", "-o", "plain.parquet", *SHORT)
    np.testing.assert_array_equal(logged("noisy.parquet", "q"), logged("plain.parquet", "q"))
    noise = logged("noisy.parquet", "tau") - logged("plain.parquet", "tau")
    np.testing.assert_allclose(noise.std(axis=0), [1, 2, 3, 4, 5, 6], rtol=0.1)


def test_a_payload_is_simulated_and_the_truth_is_told(simulated):
    held = ("--payload", "2,0,0.01,0.05", "--payload-link", "link6")
    held += ("--payload-inertia", "0.01,0.01,0.01")
    simulated("tx40", "random", "-o", "log.csv", *SHORT, *held, "--truth", "truth.csv")
    robot = with_payload(load_robot("tx40"), 2.0, com=(0, 0.01, 0.05), inertia=0.01 * np.eye(3))
    with open("truth.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["parameter"] for row in rows] == list(robot.layout.names)
    assert [float(row["value"]) for row in rows] == robot.theta.tolist()
    expected = rollout(robot, short_motion(), sampling_rate=1e3, integrator="rk4")
    np.testing.assert_array_equal(logged("log.csv", "tau"), expected.tau[0])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_saved_trajectory_and_a_log_can_be_followed(suffix, simulated):
    reference = f"reference{suffix}"
    smooth = ("--friction", "viscous")  # Coulomb's jump tells a start of 1e-17 rad/s from one of 0
    saved = ("--save-trajectory", reference)
    simulated("tx40", "random", "-o", f"log{suffix}", *SHORT, *smooth, *saved)
    simulated("tx40", reference, "-o", "second.csv", *smooth)
    simulated("tx40", f"log{suffix}", "-o", "third.csv", "--in-motion")
    np.testing.assert_allclose(logged("second.csv", "q"), logged(f"log{suffix}", "q"), atol=1e-9)
    followed = read_trajectory(f"log{suffix}", JOINTS, at_rest=False)
    expected = rollout(load_robot("tx40"), followed, sampling_rate=1e3, integrator="rk4")
    np.testing.assert_array_equal(logged("third.csv", "q"), expected.q[0])


def test_rates_and_the_integrator_are_used(simulated):
    rates = ("--control-rate", "4000", "--sampling-rate", "500")
    how = ("--integrator", "euler", "--substeps", "2")
    summary = simulated("tx40", "random", "-o", "log.csv", *SHORT, *rates, *how)
    robot = load_robot("tx40")
    own = robot.controller
    controller = Controller.from_gains(6, kp=own.kp, kd=own.kd, ki=own.ki, rate=4000.0)
    expected = rollout(
        robot, short_motion(), controller=controller, sampling_rate=500.0, substeps=2
    )
    np.testing.assert_array_equal(logged("log.csv", "q"), expected.q[0])
    assert (summary["control_rate"], summary["sampling_rate"]) == (4000.0, 500.0)


@pytest.mark.parametrize(
    "law", ["none", "viscous", "offset", "stribeck", "stribeck-offset", "lugre"]
)
def test_every_friction_law(law, simulated):
    robot = load_robot("tx40", friction=law)
    summary = simulated("tx40", "random", "-o", "log.csv", *SHORT, "--friction", law)
    expected = rollout(robot, short_motion(), sampling_rate=1e3, integrator="rk4")
    np.testing.assert_array_equal(logged("log.csv", "tau"), expected.tau[0])
    zero = [
        t for t in robot.layout.friction_terms if not robot.theta[robot.layout.friction(t)].any()
    ]
    assert summary["notes"] == (
        [f"friction {law!r}: Fo of TX40 is zero for all joints"] if zero else []
    )


def test_a_robot_without_controller_and_friction_says_so(simulated):
    name = "example:ur5"
    summary = simulated(name, "random", "-o", "log.csv", *SHORT, "--control-rate", "1000")
    assert any("moves without friction" in note for note in summary["notes"])
    assert any("suggested gains" in note for note in summary["notes"])
    robot = load_robot(name)
    rng = np.random.default_rng(0)
    motion = FourierTrajectory.for_robot(robot, rng=rng, duration=1.0, harmonics=4)
    controller = suggested_controller(robot, rate=1000.0)
    expected = rollout(robot, motion, controller=controller, integrator="rk4")
    np.testing.assert_array_equal(logged("log.csv", "q", robot.joint_names), expected.q[0])


def test_the_suggested_controller_can_be_asked_for(simulated):
    simulated("tx40", "random", "-o", "log.csv", *SHORT, "--controller", "suggested")
    robot = load_robot("tx40")
    controller = suggested_controller(robot)
    expected = rollout(
        robot, short_motion(), controller=controller, sampling_rate=1e3, integrator="rk4"
    )
    np.testing.assert_array_equal(logged("log.csv", "q"), expected.q[0])


def test_sliding_joints_have_their_own_units(simulated):
    slider = """<robot name="slider"><link name="rail"/><link name="cart"><inertial>
    <mass value="2"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
    <joint name="slide" type="prismatic"><parent link="rail"/><child link="cart"/>
    <axis xyz="1 0 0"/><limit lower="-1" upper="1" velocity="1" effort="0.5"/></joint></robot>"""
    Path("slider.urdf").write_text(slider)
    saved = ("--save-trajectory", "motion.csv")
    summary = simulated("slider.urdf", "random", "-o", "log.csv", *SHORT, *saved)
    assert read_log("log.csv").units == {"q.slide": "m", "tau.slide": "N", "q_des.slide": "m"}
    units = {"q.slide": "m", "v.slide": "m/s", "a.slide": "m/s²"}
    assert read_log("motion.csv").units == units
    assert any("beyond the effort limits: slide" in note for note in summary["notes"])
    summary = simulated("slider.urdf", "random", "-o", "held.csv", *SHORT, "--saturate")
    assert np.abs(logged("held.csv", "tau", ("slide",))).max() == 0.5
    assert not any("effort" in note for note in summary["notes"])


def test_the_text_names_every_joint_and_file(capsys):
    words = ("tx40", "random", "-o", "log.csv", *SHORT, "--page", "page.html")
    assert main(["simulate", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("TX40: 1 run of 1 s, 1001 samples at 1000 Hz, controller at 5000 Hz\n")
    assert all(joint in out for joint in JOINTS)
    assert out.endswith("wrote log.csv\nwrote page.html\n")
    assert "<html" in Path("page.html").read_text()


# -- limits ------------------------------------------------------------------------------------


def through(path: str, *middle: float) -> str:
    """A slow motion from zero to a pose and back, as a file; q3 moves from its middle."""
    rows = [[0.0] * 6, list(middle), [0.0] * 6]
    header = ",".join(["t", *(f"q.{joint}" for joint in JOINTS)])
    lines = [",".join(map(str, [20.0 * k, *row])) for k, row in enumerate(rows)]
    Path(path).write_text("\n".join([header, *lines, ""]))
    return path


def test_a_motion_beyond_a_limit_is_noted(simulated):
    file = through("far.csv", 0, 2.5, 0, 0, 0, 0)  # 125 degrees are 2.18 rad
    summary = simulated("tx40", file, "-o", "log.csv", "--sampling-rate", "100")
    (note,) = summary["notes"]
    assert "exceeds the limits: position of joint2 (1.15 times its limit at 20 s)" in note


def test_a_motion_in_degrees_is_refused(refused):
    message = refused("tx40", through("far.csv", 0, 90, 0, 0, 0, 0), "-o", "log.csv")
    assert "not a motion for 'TX40': position of joint2 (41.3 times" in message
    assert "Is it in degrees" in message


def test_a_motion_that_is_too_fast_is_refused(refused):
    motion = SampledTrajectory([0.0, 0.05, 0.1], np.outer([0, 1, 0], [2.0] + [0.0] * 5))
    assert np.abs(motion.sample(5e3)[2]).max() > 2 * np.deg2rad(287)
    header = ",".join(["t", *(f"q.{joint}" for joint in JOINTS)])
    Path("fast.csv").write_text(f"{header}\n0,0,0,0,0,0,0\n0.05,2,0,0,0,0,0\n0.1,0,0,0,0,0,0\n")
    assert "speed of joint1" in refused("tx40", "fast.csv", "-o", "log.csv")


# -- what is refused ---------------------------------------------------------------------------


def test_a_lost_run_writes_nothing_and_advises(refused):
    words = ("tx40", "random", "-o", "log.csv", *SHORT, "--control-rate", "300")
    message = refused(*words, status=1)
    assert "nothing written" in message
    assert "raise the control rate" in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--friction", "coulom"], "did you mean 'coulomb'"),
        (["--payload", "-1"], "mass of the payload is -1 kg"),
        (["--payload", "1,2"], "expected MASS or MASS,x,y,z"),
        (["--payload", "heavy"], "--payload: invalid value 'heavy'"),
        (["--payload", "1", "--payload-link", "hand"], "unknown link or frame 'hand'"),
        (["--payload", "1", "--payload-inertia", "1"], "expected Ixx,Iyy,Izz"),
        (["--payload", "1", "--payload-inertia", "1,1,3"], "not physically consistent"),
        (["--payload-link", "link6"], "--payload-link is for a --payload"),
        (["--payload-inertia", "1,1,1"], "--payload-inertia is for a --payload"),
        (["--layout", "layout.yaml"], "--layout is for a trajectory from a file"),
        (["--in-motion"], "--in-motion is for a trajectory from a file"),
        (
            ["--sampling-rate", "140"],
            "nearest that does is 138.888888889, or give --control-rate 5040",
        ),
        (["--sampling-rate", "6000"], "nearest that does is 5000"),
        (["--noise-position", "1grad"], "--noise-position: invalid value '1g'"),
        (["--noise-position", "-1"], "cannot be negative"),
        (["--noise-torque", "1,2"], "give one number, or 6"),
        (["--noise-torque", "nan"], "--noise-torque: invalid value 'nan'"),
        (["--saturate"], "no effort limits"),
        (["--harmonics", "2"], "at least 3"),
        (["--page", "page.pdf"], "ends in .html"),
        (["--truth", "truth.parquet"], "ends in .csv"),
        (["--truth", "log.csv"], "two outputs have the same name"),
        (["--save-trajectory", "nowhere/motion.csv"], "the folder nowhere does not exist"),
        (["-o", f"{'x' * 300}.csv"], "File name too long"),
        (["-o", f"{'x' * 300}/log.csv"], "File name too long"),
        (["-o", "log.txt"], "ends in .csv or .parquet"),
    ],
)
def test_options_that_are_refused(words, message, refused):
    assert message in refused("tx40", "random", "-o", "log.csv", *words)


@pytest.mark.parametrize(
    "words",
    [
        ["--control-rate", "0"],
        ["--sampling-rate", "fast"],
        ["--runs", "0"],
        ["--seed", "-1"],
        ["--duration", "inf"],
        ["--integrator", "rk3"],
    ],
)
def test_options_that_the_parser_refuses(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["simulate", "tx40", "random", "-o", "log.csv", *words])
    assert stop.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_files_are_replaced_only_by_force(refused, simulated):
    Path("log-002.csv").write_text("precious")
    words = ("tx40", "random", "-o", "log.csv", *SHORT, "--runs", "2", "--noise-torque", "1")
    assert "log-002.csv exists" in refused(*words)
    simulated(*words, "--force")
    assert Path("log-002.csv").read_text() != "precious"


def test_a_random_motion_has_options_that_a_file_has_not(refused):
    file = through("motion.csv", 0, 1, 0, 0, 0, 0)
    assert "--duration is for" in refused("tx40", file, "-o", "log.csv", "--duration", "5")
    assert "--harmonics is for" in refused("tx40", file, "-o", "log.csv", "--harmonics", "5")


def test_the_trajectory_of_another_robot(refused):
    file = through("motion.csv", 0, 1, 0, 0, 0, 0)
    message = refused("example:double_pendulum", file, "-o", "log.csv", "--sampling-rate", "1000")
    assert "also has q.joint3, q.joint4, q.joint5, q.joint6, which the robot has not" in message
    message = refused("example:ur5", file, "-o", "log.csv")
    assert "has no column q.shoulder_pan_joint" in message


def test_a_missing_trajectory(refused):
    assert "motion.csv" in refused("tx40", "motion.csv", "-o", "log.csv")


def test_a_floating_robot(refused):
    message = refused("example:human", "random", "-o", "log.csv")
    assert "floating base" in message
    assert "--fixed" in message


def test_an_own_controller_that_is_not_there(refused):
    words = ("example:double_pendulum", "random", "-o", "log.csv", "--controller", "own")
    assert "has no controller" in refused(*words)


def test_noise_in_degrees_for_joints_that_slide(refused):
    words = ("example:panda", "random", "-o", "log.csv", "--noise-position", "0.1deg")
    assert "panda_finger_joint1, panda_finger_joint2 of 'panda' slide" in refused(*words)


def test_identical_runs_are_noted(simulated):
    summary = simulated("tx40", "random", "-o", "log.csv", *SHORT, "--runs", "2")
    assert any("all runs are the same" in note for note in summary["notes"])
    assert Path("log-001.csv").read_bytes() == Path("log-002.csv").read_bytes()
