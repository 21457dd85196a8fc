"""Identification of real robots against figures of a careful baseline on the same recordings.

The baseline was fitted by weighted least squares with a friction law and a cut-off that suited it;
here all of that is chosen from the data. Errors against filtered torque depend on the filter (the
lower its cut-off, the smaller they are), so that errors against raw torque are bounded as well.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bodysense.identification import IdentificationRun, identify
from bodysense.logs.log import Log
from bodysense.logs.read import read_log
from bodysense.robot import load_robot

LAYOUTS = Path(__file__).resolve().parents[2] / "examples" / "layouts"

BASELINE = {  # relative error of each joint in %, trained on 50sec_12harm
    "ur-20_02_10-30sec_12harm": (6.6, 3.5, 4.7, 8.7, 8.6, 5.8),
    "ur-20_02_12-40sec_12harm": (7.0, 3.8, 4.4, 7.0, 7.8, 8.1),
    "ur-20_02_05-20sec_8harm": (8.1, 4.3, 5.6, 7.2, 7.5, 8.4),
}


def errors_of(run: IdentificationRun) -> np.ndarray:
    """(files, joints) relative error on the validation recordings, in %."""
    rows = [s.identified.all.relative_error for s in run.scores if s.kind == "validation"]
    return 100.0 * np.array(rows)


# -- UR10e ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ur10e(recordings) -> dict[str, IdentificationRun]:
    folder = recordings / "ur10e"

    def read(name: str) -> Log:
        return read_log(folder / f"{name}.csv", LAYOUTS / "ur10e.yaml")

    robot = load_robot(folder / "ur10e.urdf")
    training = read("ur-20_02_12-50sec_12harm")
    validation = [read(name) for name in BASELINE]
    return {
        method: identify(robot, [training], validate=validation, method=method)
        for method in ("wls", "pc-wls")
    }


def test_ur10e_is_no_worse_than_the_baseline(ur10e):
    expected = np.array(list(BASELINE.values()))
    for method, run in ur10e.items():
        errors = errors_of(run)
        assert (errors.mean(axis=0) <= expected.mean(axis=0)).all(), (method, errors)


def test_ur10e_predicts_the_raw_torque(ur10e):
    """Which no choice of a filter can make easier."""
    for method, run in ur10e.items():
        rows = [s.identified.all.relative_error_raw for s in run.scores if s.kind == "validation"]
        assert np.mean(rows) < 0.085, method


def test_ur10e_costs_little_to_be_consistent(ur10e):
    wls, consistent = (errors_of(ur10e[method]).mean() for method in ("wls", "pc-wls"))
    assert consistent <= 1.03 * wls
    assert ur10e["pc-wls"].identification.consistent
    assert not ur10e["wls"].identification.consistent


def test_ur10e_is_called_good_and_the_file_is_not(ur10e):
    run = ur10e["pc-wls"]
    assert run.verdict.grade == "good"
    for scores in run.scores:
        moving = scores.identified.moving.mean_relative_error
        assert moving < 0.1
        assert moving < 0.2 * scores.prior.moving.mean_relative_error
        # Where joints stand, friction holds them with any torque: told apart, for it is worse.
        assert np.nanmax(scores.identified.still.relative_error) > moving


def test_ur10e_friction_is_found(ur10e):
    """Its URDF knows none."""
    run = ur10e["pc-wls"]
    assert run.friction is not None
    layout = run.robot.layout
    assert not run.identification.prior.theta[layout.friction("Fc")].any()
    assert (run.robot.theta[layout.friction("Fc")] > 1.0).all()
    label = dict(zip(layout.names, run.identification.labels, strict=True))
    assert {label[f"Fv{j}"] for j in range(1, 7)} == {"identified"}


def test_ur10e_doctor_and_provenance(ur10e):
    run = ur10e["pc-wls"]
    assert all(d.usable for d in (*run.diagnoses, *run.validation))
    origin = run.identification.provenance
    digests = [log["sha256"] for log in (*origin["logs"], *origin["validation"])]
    assert len(set(digests)) == 4
    assert all(len(digest) == 64 for digest in digests)
    assert len(origin["robot"]["sha256"]) == 64


# -- TX40 -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tx40(recordings) -> IdentificationRun:
    folder = recordings / "tx40"
    robot = load_robot(folder / "tx40.urdf", actuators=LAYOUTS / "tx40.actuators.yaml")
    return identify(robot, [read_log(folder / "motor_position.csv", LAYOUTS / "tx40.yaml")])


def test_tx40_is_no_worse_than_the_baseline(tx40):
    """d_tau against raw torque, of which 12 % are noise."""
    d_tau = {s.kind: 100.0 * s.identified.all.d_tau_raw for s in tx40.scores}
    assert d_tau["training"] <= 18.5
    assert d_tau["held-out"] <= 20.1
    floor = 100.0 * tx40.scores[0].noise_floor_d_tau
    assert 10.0 < floor < d_tau["training"]


def test_tx40_wrist_is_coupled(tx40):
    """The motor of joint 6 moves joint 5 as well, which has an inertia and friction of its own."""
    under_load = [name for name in tx40.problem.base.names if name.startswith("Fl")]
    assert tx40.problem.size - len(under_load) == 61
    names = tx40.robot.layout.names
    label = dict(zip(names, tx40.identification.labels, strict=True))
    for name in ("Fvm6", "Fcm6"):
        assert label[name] == "identified"
        assert tx40.robot.theta[names.index(name)] > 0.0
    assert tx40.verdict.grade == "good"
    assert tx40.identification.consistent


def test_tx40_gears_are_those_of_the_layout(recordings):
    """The recording is turned into joints by the layout; the robot's drives must agree."""
    robot = load_robot(recordings / "tx40" / "tx40.urdf", actuators=LAYOUTS / "tx40.actuators.yaml")
    R = np.diag([32.0, 32.0, 45.0, -48.0, 45.0, 32.0])
    R[5, 4] = 32.0
    np.testing.assert_array_equal(robot.actuators.motor_from_joint, R)
    assert robot.layout.coupled == (("Iam", 5), ("Fvm", 5), ("Fcm", 5))
