from __future__ import annotations

import json
import re
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import yaml

from bodysense.cli import excite, excite_tables
from bodysense.cli.main import EXIT_ERROR, EXIT_INTERRUPTED, main
from bodysense.excitation.trajectory_file import read_trajectory
from bodysense.logs.read import read_log
from bodysense.robot import Collisions, load_robot
from bodysense.robot.dynamics import inverse_dynamics

EXAMPLES = Path(__file__).parents[2] / "examples"
ARM = str(EXAMPLES / "robots" / "arm.urdf")
QUICK = ("--duration", "2", "--harmonics", "5", "--seconds", "0.4")
ALONE = (*QUICK, "--collisions", "off", "--no-report")


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """Every test in a folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def excited(capsys):
    """Run the command, expect success, and return its JSON."""

    def run(*words: str) -> dict:
        assert main(["excite", *words, "--json"]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return json.loads(out)

    return run


@pytest.fixture
def refused(capsys):
    """Run the command, expect it to refuse and to write nothing, and return its message."""

    def run(*words: str) -> str:
        before = {path: path.read_bytes() for path in Path().iterdir()}
        assert main(["excite", *words]) == EXIT_ERROR
        out, err = capsys.readouterr()
        assert out == ""
        assert before == {path: path.read_bytes() for path in Path().iterdir()}
        return " ".join(err.split())

    return run


# -- what is designed --------------------------------------------------------------------------


def test_the_file_holds_a_motion_within_all_limits(excited):
    # Without Coulomb friction: its sign at rest, where rounding decides, would blur the torques.
    told = excited(ARM, "-o", "motion.csv", *QUICK, "--friction", "viscous")
    assert told["files"] == ["motion.csv", "motion.html"]
    assert told["criterion"] == "d-optimal"
    assert told["value"] < told["random_value"]
    robot = load_robot(ARM, friction="viscous")
    np.testing.assert_allclose(told["torque_noise"], 0.01 * robot.effort_limit)
    t, q, v, a = read_trajectory("motion.csv", robot.joint_names).sample(2000.0)
    assert t[-1] == 2.0
    for end in (0, -1):
        np.testing.assert_allclose(v[end], 0.0, atol=1e-9)
        np.testing.assert_allclose(q[end], q[0], atol=1e-9)
    lower, upper = robot.position_limits
    assert (q >= lower - 1e-6).all()
    assert (q <= upper + 1e-6).all()
    # between the samples of the final check a peak is higher by some millionths
    assert (np.abs(v) <= robot.velocity_limit * (1.0 + 1e-4)).all()
    tau = inverse_dynamics(robot, q, v, a)
    uses = {(u["joint"], u["quantity"]): u["use"] for u in told["limits"]}
    for j, name in enumerate(robot.joint_names):
        speed = np.abs(v[:, j]).max() / robot.velocity_limit[j]
        torque = np.abs(tau[:, j]).max() / robot.effort_limit[j]
        assert uses[name, "speed"] == pytest.approx(speed, rel=1e-3)
        assert uses[name, "torque"] == pytest.approx(torque, rel=1e-3)
        assert torque <= 1.0 + 1e-4
    assert told["clearance"]["distance"] >= 0.01
    assert "Exciting motion" in Path("motion.html").read_text(encoding="utf-8")


def test_the_simulation_takes_the_file(excited, capsys):
    excited("tx40", "-o", "motion.csv", *ALONE)
    assert main(["simulate", "tx40", "motion.csv", "-o", "log.csv", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["duration"] == 2.0
    assert not [note for note in told["notes"] if "position" in note]


def test_several_motions_as_messages_of_ros(excited):
    told = excited(ARM, "-o", "m.yaml", *ALONE, "--trajectories", "2", "--rate", "50")
    assert told["files"] == ["m-1.yaml", "m-2.yaml"]
    messages = [yaml.safe_load(Path(name).read_text("utf-8")) for name in told["files"]]
    for message in messages:
        assert message["joint_names"] == ["pan", "lift", "elbow"]
        assert len(message["points"]) == 101
        assert message["points"][-1]["time_from_start"] == {"sec": 2, "nanosec": 0}
    assert messages[0]["points"][50] != messages[1]["points"][50]


def test_joints_that_hold_stay_where_the_motion_starts(excited):
    # a negative number first: the value has to be tied to its option
    told = excited(
        "tx40",
        "-o",
        "m.parquet",
        *ALONE,
        "--hold",
        "joint4,joint6",
        "--start=-0.2,0.1,1.2,0.3,0.4,0.5",
    )
    assert told["joints"] == ["joint1", "joint2", "joint3", "joint5"]
    channels = read_log("m.parquet").channels
    for joint, at in (("joint4", 0.3), ("joint6", 0.5)):
        np.testing.assert_allclose(channels[f"q.{joint}"], at, atol=1e-12)
    assert channels["q.joint1"][0] == pytest.approx(-0.2, abs=1e-9)
    assert np.ptp(channels["q.joint1"]) > 0.1


def test_shares_of_the_limits_are_kept(excited):
    few = (
        "--velocity-scale",
        "0.5",
        "--acceleration-limit",
        "3",
        "--joints",
        "joint1,joint2,joint3",
    )
    excited("tx40", "-o", "m.csv", *ALONE, *few)
    robot = load_robot("tx40")
    _, q, v, a = read_trajectory("m.csv", robot.joint_names).sample(1000.0)
    assert (np.abs(v) <= 0.5001 * robot.velocity_limit).all()
    assert np.abs(a).max() == pytest.approx(3.0, rel=0.3)
    assert np.abs(a).max() <= 3.001
    np.testing.assert_allclose(np.ptp(q[:, 3:], axis=0), 0.0, atol=1e-12)


def test_every_link_stays_above_the_floor(excited):
    from bodysense.robot.shapes.link_shapes import link_hulls

    told = excited(ARM, "-o", "m.csv", *QUICK, "--no-report", "--floor", "0.05")
    assert told["workspace_margin"] >= 0.0
    robot = load_robot(ARM)
    q = read_trajectory("m.csv", robot.joint_names).sample(100.0)[1]
    hulls, data = link_hulls(robot), robot.model.createData()
    lowest = np.inf
    for pose in q:
        pin.forwardKinematics(robot.model, data, pose)
        for k, name in enumerate(robot.link_names[1:], start=2):  # the first only turns
            vertices = hulls[name].vertices
            z = data.oMi[k].rotation[2] @ vertices.T + data.oMi[k].translation[2]
            lowest = min(lowest, float(z.min()))
    assert lowest >= 0.05 - 1e-6
    assert lowest >= 0.05 + told["workspace_margin"] - 1e-6


@pytest.mark.parametrize("criterion", ["condition", "d-optimal", "precision"])
@pytest.mark.parametrize("family", ["fourier", "spline"])
def test_every_criterion_and_family(criterion, family, excited):
    words = ("--duration", "2", "--seconds", "0.3", "--collisions", "off", "--no-report")
    told = excited(ARM, "-o", "m.csv", *words, "--criterion", criterion, "--family", family)
    assert told["criterion"] == criterion
    assert told["value"] < told["random_value"]


def test_a_target_is_what_is_aimed_at(excited):
    told = excited(ARM, "-o", "m.csv", *ALONE, "--target", "Fv1=0.01")
    assert told["criterion"] == "precision"
    sigma = next(p["sigma"] for p in told["parameters"] if p["parameter"].startswith("Fv1"))
    assert told["value"] == pytest.approx(sigma / 0.01, rel=1e-6)


def test_poses_to_stand_in(excited):
    told = excited("tx40", "-o", "poses.csv", "--poses", "6", "--collisions", "off")
    assert told["files"] == ["poses.csv"]
    log, robot = read_log("poses.csv"), load_robot("tx40")
    q = np.stack([log.channels[f"q.{name}"] for name in robot.joint_names], axis=1)
    np.testing.assert_array_equal(q, told["poses"])
    lower, upper = robot.position_limits
    assert ((q >= lower - 1e-12) & (q <= upper + 1e-12)).all()
    assert told["value"] <= told["random_value"]


def test_text_says_what_moves_what_holds_and_what_to_do(capsys):
    assert (
        main(["excite", "tx40", "-o", "m.csv", *ALONE, "--hold", "joint6", "--noise-torque", "0.5"])
        == 0
    )
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "moves: joint1, joint2, joint3, joint4, joint5",
        "holds: joint6",
        "TX40: 1 motion of 2 s for 5 joints; cond(W) =",
        "base parameters come out better than guessed.",
        "the median of random motions within the same limits has",
        "They assume white noise of the torques of 0.5, 0.5, 0.5, 0.5, 0.5 N·m",
        "Use of the limits in %, checked at 1000 Hz joint position speed acceleration torque",
        "the 10 worst of",
        "Without any effect",
        "wrote m.csv",
        "bodysense simulate tx40 m.csv -o log.parquet",
        "bodysense identify tx40 log.parquet -o out",
    ):
        assert words in text


def test_missing_meshes_are_told_once(excited):
    text = Path(ARM).read_text("utf-8")
    mesh = '<geometry><mesh filename="package://nowhere/{}.stl"/></geometry>'
    for link in ("upper_arm", "forearm"):
        body = f'<link name="{link}">'
        assert body in text
        text = text.replace(body, f"{body}<collision>{mesh.format(link)}</collision>")
    Path("arm.urdf").write_text(text, encoding="utf-8")
    notes = excited("arm.urdf", "-o", "m.csv", *QUICK, "--no-report")["notes"]
    assert "upper_arm.stl" in notes[0]
    assert "with --package-dirs, or take --collisions boxes" in notes[0]
    assert notes[1] == "1 more of its meshes are not found either"
    assert any(note.startswith("boxes from inertia") for note in notes)


def test_pairs_that_are_not_looked_at_are_told(capsys):
    assert main(["excite", "tx40", "-o", "m.csv", *QUICK, "--no-report"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "boxes from inertia and kinematics stand for link1, link2" in out
    assert "collisions not checked: base/link2, link2/link4" in out
    assert "(in contact in all of 400 random poses)" in out


@pytest.mark.parametrize("criterion", ["condition", "d-optimal"])
def test_what_a_condition_number_is_not(criterion, capsys):
    assert main(["excite", "tx40", "-o", "m.csv", *ALONE, "--criterion", criterion]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert ("usually give smaller standard deviations" in out) == (criterion == "condition")


# -- what recordings tell already --------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> str:
    """A recording of the TX40."""
    path = str(tmp_path_factory.mktemp("log") / "log.parquet")
    noise = ("--noise-torque", "0.05", "--noise-position", "1e-4deg", "--friction", "viscous")
    assert main(["simulate", "tx40", "random", "-o", path, "--duration", "5", *noise]) == 0
    return path


def test_what_is_recorded_counts(excited, recorded):
    alone = excited("tx40", "-o", "a.csv", *ALONE)
    both = excited("tx40", "-o", "b.csv", *ALONE, "--complement", recorded)
    sigma, less = ([p["sigma"] for p in told["parameters"]] for told in (alone, both))
    assert np.median(np.array(less) / np.array(sigma)) < 0.95


# -- interruptions -----------------------------------------------------------------------------


@pytest.fixture
def ctrl_c(monkeypatch):
    """Press Ctrl-C as soon as there is a motion."""

    @contextmanager
    def searching(args, criterion):
        def update(now):
            if np.isfinite(now.value):
                raise KeyboardInterrupt

        yield update

    monkeypatch.setattr(excite_tables, "searching", searching)


LONG = ("--duration", "2", "--seconds", "100", "--collisions", "off", "--no-report")


def test_ctrl_c_keeps_the_best_so_far(ctrl_c, capsys):
    begun = time.monotonic()
    assert main(["excite", "tx40", "-o", "m.csv", *LONG]) == 0
    assert time.monotonic() - begun < 50.0
    assert "Interrupted: this is the best motion so far" in capsys.readouterr().out
    assert read_trajectory("m.csv", load_robot("tx40").joint_names).duration == 2.0


def test_a_second_ctrl_c_ends_at_once(ctrl_c, monkeypatch, capsys):
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bodysense.excitation.design.repair_motions", interrupt)
    assert main(["excite", "tx40", "-o", "m.csv", *LONG]) == EXIT_INTERRUPTED
    assert "nothing written" in capsys.readouterr().err
    assert not Path("m.csv").exists()


def test_ctrl_c_before_any_motion(monkeypatch, capsys):
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(excite, "_design", interrupt)
    assert main(["excite", "tx40", "-o", "m.csv", *ALONE]) == EXIT_INTERRUPTED
    assert "nothing written" in capsys.readouterr().err
    assert not Path("m.csv").exists()


def test_a_motion_that_breaks_limits_is_not_written(monkeypatch, capsys):
    found = excite._design
    broken = {"status": "violated", "advice": "do not run it"}
    monkeypatch.setattr(excite, "_design", lambda *words: replace(found(*words), **broken))
    assert main(["excite", "tx40", "-o", "m.csv", *ALONE]) == 1
    assert "nothing written: do not run it" in capsys.readouterr().err
    assert not Path("m.csv").exists()


# -- what is refused ---------------------------------------------------------------------------


def test_start_outside_the_limits(refused):
    message = refused("tx40", "-o", "m.csv", *ALONE, "--start", "0,0,9,0,0,0")
    assert "joint3 at 9" in message


@pytest.mark.parametrize("start", ["", "1,2"])
def test_start_with_the_wrong_number_of_positions(refused, start):
    message = refused("tx40", "-o", "m.csv", *ALONE, "--start", start)
    assert f"--start: invalid value '{start}'; expected 6 positions in numbers" in message


def test_start_in_collision(refused):
    robot = load_robot("example:panda")
    pose = ["0"] * robot.n_joints
    pose[1], pose[3], pose[5] = "1.7", "-2.9", "0.1"
    message = refused("example:panda", "-o", "m.csv", *QUICK, f"--start={','.join(pose)}")
    assert "in the start pose" in message


def test_a_margin_that_no_two_bodies_can_keep(refused):
    message = refused("tx40", "-o", "m.csv", *QUICK, "--no-report", "--margin", "0.25")
    assert "--margin 0.25 is more than any two bodies of 'TX40' can keep" in message
    largest = float(message.split("give ")[1].split(" m at most")[0])
    for margin, keeps in ((largest, True), (largest + 2e-3, False)):
        found = Collisions.from_robot(load_robot("tx40"), margin=margin)
        assert (found.margins == margin).any() == keeps


def test_a_scale_of_efforts_without_limits(refused):
    message = refused("tx40", "-o", "m.csv", *ALONE, "--effort-scale", "0.5")
    assert "'TX40' has no effort limits" in message


def test_several_motions_are_all_named(capsys):
    assert main(["excite", "tx40", "-o", "m.csv", *ALONE, "--trajectories", "2"]) == 0
    out = capsys.readouterr().out
    assert "the most of 2 motions" in out
    assert "bodysense simulate tx40 m-2.csv -o log-2.parquet" in out
    assert "bodysense identify tx40 log-1.parquet log-2.parquet -o out" in out
    torques = [line.split()[4] for line in out.splitlines() if re.match(r" joint\d ", line)]
    assert torques == ["-"] * 6  # no limits


def test_limits_that_allow_no_motion(refused):
    message = refused("tx40", "-o", "m.csv", *ALONE, "--acceleration-limit", "0")
    assert "joint1 has the limit 0 of acceleration" in message


def test_unknown_joint(refused):
    message = refused("tx40", "-o", "m.csv", *ALONE, "--joints", "joint1,jiont2")
    assert "unknown joint 'jiont2'" in message
    assert "joint2" in message


def test_unknown_criterion(refused):
    message = refused("tx40", "-o", "m.csv", *ALONE, "--criterion", "conditon")
    assert "unknown criterion 'conditon': did you mean 'condition'" in message


def test_unknown_family(refused):
    assert "unknown family 'wave'" in refused("tx40", "-o", "m.csv", *ALONE, "--family", "wave")


def test_unknown_shapes(refused):
    words = (*QUICK, "--no-report", "--collisions", "meshes")
    assert "unknown shapes 'meshes'" in refused("tx40", "-o", "m.csv", *words)


def test_unknown_suffix(refused):
    message = refused("tx40", "-o", "m.xlsx", *ALONE)
    assert "m.xlsx: give it a name that ends in .csv or .parquet or .yaml" in message


def test_poses_as_a_message(refused):
    assert "ends in .csv or .parquet." in refused("tx40", "-o", "m.yaml", "--poses", "6")


def test_file_that_exists(refused):
    Path("m.csv").write_text("mine")
    assert "m.csv exists" in refused("tx40", "-o", "m.csv", *ALONE)


def test_report_that_exists(refused):
    Path("m.html").write_text("mine")
    assert "m.html exists" in refused("tx40", "-o", "m.csv", *QUICK)


def test_folder_that_is_missing(refused):
    assert "the folder nowhere does not exist" in refused("tx40", "-o", "nowhere/m.csv", *ALONE)


def test_floating_base(refused):
    assert "fix its root link with --fixed" in refused("example:solo12", "-o", "m.csv", *ALONE)


def test_target_of_an_unknown_parameter(refused):
    assert "unknown base parameter 'QQ1'" in refused(
        "tx40", "-o", "m.csv", *ALONE, "--target", "QQ1=1"
    )


def test_target_that_shows_only_in_combination(refused):
    message = refused("tx40", "-o", "m.csv", *ALONE, "--target", "YY6=0.1")
    assert "YY6 shows only in combination with others: aim at one of XX5 - YY5 + YY6" in message


@pytest.mark.parametrize("target", ["Fv1", "Fv1=", "Fv1=x", "Fv1=0", "=1"])
def test_target_that_is_none(target, refused):
    message = refused("tx40", "-o", "m.csv", *ALONE, "--target", target)
    assert f"--target {target!r} is invalid" in message


def test_target_for_another_criterion(refused):
    words = ("--criterion", "d-optimal", "--target", "Fv1=0.1")
    assert "--target is for precision" in refused("tx40", "-o", "m.csv", *ALONE, *words)


def test_log_of_another_robot(refused, recorded):
    message = refused(ARM, "-o", "m.csv", *ALONE, "--complement", recorded)
    assert "there is no position of pan, lift, elbow" in message


@pytest.mark.parametrize("walls", ["1,2,3", "a,b,c,d,e,f", "-,-,-,-,-"])
def test_walls_that_are_none(walls, refused):
    message = refused("tx40", "-o", "m.csv", *ALONE, f"--workspace={walls}")
    assert "give x0,x1,y0,y1,z0,z1 in metres" in message


def test_walls_the_wrong_way_round(refused):
    message = refused("tx40", "-o", "m.csv", *ALONE, "--workspace=-,-,-,-,1,0")
    assert "the workspace is empty along z" in message


def test_start_of_too_few_joints(refused):
    message = refused("tx40", "-o", "m.csv", *ALONE, "--start", "0,0")
    assert "expected 6 positions in numbers" in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--layout", "x.yaml"), "--layout is for --complement"),
        (("--knots", "8"), "--knots is for --family spline"),
        (("--family", "spline"), "--harmonics is for the family fourier"),
        (("--margin", "0.1"), "--margin is for collisions"),
        (("--joints", "joint1", "--hold", "joint2"), "--hold is for use without --joints"),
        (("--floor", "0", "--workspace", "0,1,0,1,0,1"), "--floor is for use alone"),
        (("--report", "r.html"), "--report is for use without --no-report"),
        (("--poses", "4"), "--duration is for a motion, not for --poses"),
    ],
)
def test_options_without_effect(words, message, refused):
    assert message in refused("tx40", "-o", "m.csv", *ALONE, *words)
