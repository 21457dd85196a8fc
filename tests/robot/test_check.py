"""What is wrong with a robot's parameters, found the same way from Python and by command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from bodysense.cli.main import main
from bodysense.excitation import FourierTrajectory
from bodysense.identification import Preprocessing, identify
from bodysense.logs import write_log
from bodysense.robot import load_robot, suggested_controller
from bodysense.simulation import rollout

ARM = (Path(__file__).parents[2] / "examples" / "robots" / "arm.urdf").read_text()


def arm(folder: Path, *changes: tuple[str, str]) -> Path:
    """The example arm with some text changed."""
    text = ARM
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / "arm.urdf"
    path.write_text(text)
    return path


IMPOSSIBLE = ('izz="0.004"', 'izz="0.4"')  # of the upper arm: breaks the triangle inequality
BACKWARD = ('damping="0.6"', 'damping="-0.6"')


def test_an_impossible_inertia_is_a_note_with_its_severity(tmp_path):
    assert not [n for n in load_robot(arm(tmp_path)).notes if n.startswith("error")]
    robot = load_robot(arm(tmp_path, IMPOSSIBLE))
    note = robot.notes[-1]
    assert note.startswith("error: infeasible-inertia: link 'upper_arm': the principal moments")
    assert "the triangle inequality fails" in note


def test_negative_friction_is_a_note(tmp_path):
    note = load_robot(arm(tmp_path, BACKWARD)).notes[-1]
    assert note.startswith("error: negative-friction: joint 'elbow': Fv is -0.6")
    drives = tmp_path / "drives.yaml"
    drives.write_text("friction: {coefficients: {Fc: {lift: -1}}}")
    note = load_robot(arm(tmp_path), actuators=drives).notes[-1]
    assert note.startswith("error: negative-friction: joint 'lift': Fc is -1")


def test_findings_alike_are_one_note(tmp_path):
    changes = [(f'izz="0.00{k}"', 'izz="9"') for k in (8, 4)]
    notes = load_robot(arm(tmp_path, *changes)).notes
    assert [note for note in notes if note.startswith("error")] == [notes[-1]]
    assert notes[-1].endswith("(and 1 more: `bodysense check` lists them)")


def test_python_identifies_what_the_command_identifies(tmp_path, capsys):
    """A link that no body has is no reason to refuse either of them."""
    truth = load_robot(arm(tmp_path))
    rng = np.random.default_rng(0)
    motion = FourierTrajectory.for_robot(truth, duration=6.0, rng=rng)
    truth = truth.with_controller(suggested_controller(truth))
    log = rollout(truth, motion, sampling_rate=100.0, torque_noise=0.02, rng=rng).log()
    recording = write_log(tmp_path / "log.csv", log)
    path = arm(tmp_path, IMPOSSIBLE)
    robot = load_robot(path)
    run = identify(robot, log, preprocessing=Preprocessing(cutoff=15.0), friction="own")
    assert run.identification.status.ok
    assert all(check.feasible for check in run.identification.robot.consistency())
    words = ["identify", str(path), str(recording), "--cutoff", "15", "--friction", "own", "--json"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "small-arm: error: infeasible-inertia: link 'upper_arm'" in err
    assert json.loads(out)["verdict"] is not None
