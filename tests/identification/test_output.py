"""The files of an identification are what they say."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml

from bodysense.errors import InconsistentInertiaError
from bodysense.excitation import FourierTrajectory
from bodysense.identification import (
    Identification,
    IdentificationRun,
    Preprocessing,
    identify,
    output,
    write_run,
)
from bodysense.identification.output import _PARAMETER_COLUMNS, _parameter_table
from bodysense.identification.output import scores as scores_of
from bodysense.logs.log import Log
from bodysense.robot import Robot, inverse_dynamics, load_robot
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
    "scores.json",
}


@cache
def run_of(method: str, sign: float = 1.0) -> IdentificationRun:
    """A run on the TX40; with the sign turned round, on data that make no sense."""
    robot = load_robot("tx40").with_friction("coulomb", width=0.02)
    rng = np.random.default_rng(1)
    motion = FourierTrajectory.for_robot(robot, duration=6.0, rng=rng)
    log = rollout(robot, motion, sampling_rate=250.0, torque_noise=0.1, rng=rng).log()
    prior = robot.with_parameters(robot.theta * 1.1)
    channels = {k: x * (sign if k[0] == "t" else 1.0) for k, x in log.channels.items()}
    return identify(
        prior,
        [Log.of(log.t, channels)],
        method=method,
        preprocessing=Preprocessing(cutoff=15.0),
        allow_unusable=sign < 0.0,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("out")
    assert write_run(target, run_of("pc-wls"), {"robot": "tx40", "logs": ["Größe.csv"]}) == ()
    return target


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def states(robot: Robot, n_t: int = 20) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(2)
    return tuple(rng.uniform(-2.0, 2.0, (3, n_t, robot.n_joints)))


def test_the_files_are_there(folder):
    assert set(os.listdir(folder)) == FILES


def test_the_urdf_has_the_identified_torques(folder):
    expected = run_of("pc-wls").robot
    back = load_robot(folder / "identified.urdf", actuators=folder / "identified.actuators.yaml")
    assert back.joint_names == expected.joint_names
    assert back.friction.model.name == "coulomb"
    np.testing.assert_allclose(back.friction.shape, 0.02)
    q, v, a = states(expected)
    tau = inverse_dynamics(expected, q, v, a)
    np.testing.assert_allclose(
        inverse_dynamics(back, q, v, a), tau, rtol=0, atol=1e-9 * np.abs(tau).max()
    )
    # The prior's are others, so that this says something.
    before = inverse_dynamics(run_of("pc-wls").problem.robot, q, v, a)
    assert np.abs(before - tau).max() > 0.5


def test_the_mjcf_has_the_identified_torques(folder):
    """Without friction, which MuJoCo computes in another way."""
    robot = run_of("pc-wls").robot
    model = mujoco.MjModel.from_xml_path(str(folder / "identified.xml"))
    assert [model.joint(k).name for k in range(model.njnt)] == list(robot.joint_names)
    layout = robot.layout
    theta = robot.theta.copy()
    theta[layout.rotor.stop :] = 0.0
    np.testing.assert_allclose(model.dof_armature, robot.theta[layout.rotor], rtol=1e-6)
    np.testing.assert_allclose(model.dof_damping, robot.theta[layout.friction("Fv")], rtol=1e-6)
    np.testing.assert_allclose(
        model.dof_frictionloss, robot.theta[layout.friction("Fc")], rtol=1e-6
    )
    model.dof_damping[:] = 0.0
    model.dof_frictionloss[:] = 0.0
    data = mujoco.MjData(model)
    q, v, a = states(robot)
    expected = inverse_dynamics(robot, q, v, a, theta=theta)
    for k in range(len(q)):
        data.qpos[:], data.qvel[:], data.qacc[:] = q[k], v[k], a[k]
        mujoco.mj_inverse(model, data)
        np.testing.assert_allclose(
            data.qfrc_inverse, expected[k], rtol=0, atol=1e-6 * np.abs(expected).max()
        )


def test_the_table_of_parameters(folder):
    found = run_of("pc-wls").identification
    text = (folder / "parameters.csv").read_text(encoding="utf-8")
    assert text == _parameter_table(found)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == _PARAMETER_COLUMNS
    base = [row for row in rows if row["kind"] == "base"]
    standard = [row for row in rows if row["kind"] == "standard"]
    assert len(base) + len(standard) == len(rows)
    assert [row["name"] for row in base] == list(found.base.names)
    assert [row["name"] for row in standard] == list(found.prior.layout.names)
    for rows_, values, sigma, prior, labels in (
        (
            base,
            found.theta_base,
            found.sigma_base,
            found.base.to_base(found.prior.theta),
            found.base_labels,
        ),
        (standard, found.theta, found.sigma, found.prior.theta, found.labels),
    ):
        for k, row in enumerate(rows_):
            value, spread = float(row["value"]), float(row["sigma"])
            assert value == values[k]  # to the last bit
            assert spread == sigma[k] > 0.0
            assert float(row["lower_95"]) == pytest.approx(value - 1.96 * spread)
            assert float(row["upper_95"]) == pytest.approx(value + 1.96 * spread)
            assert float(row["prior"]) == prior[k]
            assert 0.0 <= float(row["resolution"]) <= 1.0
            assert row["label"] == labels[k]
            assert row["description"]


def test_the_scores_are_json_and_those_of_the_run(folder):
    run = run_of("pc-wls")
    text = (folder / "scores.json").read_text(encoding="utf-8")
    table = json.loads(text, parse_constant=refuse_constant)
    assert table == json.loads(json.dumps(scores_of(run)))
    assert table["verdict"]["grade"] == run.verdict.grade
    assert table["joints"] == list(run.robot.joint_names)
    assert table["method"] == "pc-wls"
    assert table["cutoff_hz"] == 15.0
    assert table["consistent"] is True
    assert table["identified"] == {
        "base": run.identification.base_labels.count("identified"),
        "of": 52,
    }
    assert [data["kind"] for data in table["data"]] == ["training", "held-out"]
    assert table["data"][0]["identified"]["all"]["d_tau"] == run.scores[0].identified.all.d_tau


def test_the_configuration_comes_back(folder):
    text = (folder / "config.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == {"robot": "tx40", "logs": ["Größe.csv"]}
    assert text.startswith("# Reproduce with: bodysense identify --config config.yaml")


def test_the_result_can_be_loaded(folder):
    run = run_of("pc-wls")
    back = Identification.load(folder, run.problem.robot)
    assert back.theta.tobytes() == run.identification.theta.tobytes()
    assert back.provenance == json.loads(json.dumps(run.identification.provenance))


def test_what_is_not_physical_is_noted_instead_of_written(tmp_path):
    run = run_of("ols", sign=-1.0)
    assert not run.identification.consistent
    notes = write_run(tmp_path, run, {})
    written = set(os.listdir(tmp_path))
    missing = FILES - written
    assert "identified.urdf" in missing
    assert written == FILES - missing  # and no half-written file lies about
    assert len(notes) == len(missing)
    for name in missing:
        (note,) = (note for note in notes if note.startswith(f"{name} is not written: "))
        assert note.endswith("such as pc-wls, gives a physically consistent robot.")
    table = json.loads((tmp_path / "scores.json").read_text(), parse_constant=refuse_constant)
    assert table["consistent"] is False
    assert len((tmp_path / "parameters.csv").read_text().splitlines()) == 1 + 52 + 78


@pytest.mark.parametrize(("method", "better"), [("iv", "pc-iv"), ("cloe", "pc-cloe")])
def test_the_remedy_is_a_method_of_the_same_kind(tmp_path, monkeypatch, method, better):
    """Also in what a writer says, which knows the default alone."""

    def refuse(robot, path):
        raise InconsistentInertiaError("negative: identify it with a consistent method (pc-wls).")

    monkeypatch.setattr(output, "write_urdf", refuse)
    run = run_of("ols", sign=-1.0)
    run = replace(run, identification=replace(run.identification, method=method))
    note = next(n for n in write_run(tmp_path, run, {}) if n.startswith("identified.urdf"))
    assert f"consistent method ({better})." in note
    assert note.endswith(f"such as {better}, gives a physically consistent robot.")


def test_scores_that_are_no_numbers_become_null():
    """A joint that never moves has no relative error."""
    robot = load_robot("tx40").with_friction("coulomb", width=0.02)
    t = np.arange(0.0, 6.0, 0.01)
    q = np.stack([np.sin((0.7 + 0.2 * j) * t) * (j != 3) for j in range(6)], axis=1)
    v = np.stack([(0.7 + 0.2 * j) * np.cos((0.7 + 0.2 * j) * t) * (j != 3) for j in range(6)], 1)
    a = -q * (0.7 + 0.2 * np.arange(6)) ** 2
    rng = np.random.default_rng(0)
    tau = inverse_dynamics(robot, q, v, a) + 0.05 * rng.normal(size=q.shape)
    channels = {f"q.joint{j + 1}": q[:, j] for j in range(6)}
    channels |= {f"tau.joint{j + 1}": tau[:, j] for j in range(6)}
    log = Log.of(t, channels)
    run = identify(robot, [log], preprocessing=Preprocessing(cutoff=10.0), allow_unusable=True)
    table = json.loads(json.dumps(scores_of(run), allow_nan=False))
    moving = table["data"][0]["identified"]["moving"]
    assert moving["samples"][3] == 0
    assert moving["relative_error"][3] is None
    assert moving["relative_error"][0] < 0.2
