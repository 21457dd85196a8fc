"""`EstimationRun`: all that the command line prints, from Python."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from hidden_joint import SENSORS as HIDDEN
from hidden_joint import hidden_joint
from pushed_arm import PUSH, SENSORS, Pushed, pushed_arm

from bodysense.estimation import EstimationRun, LogEstimate, estimate_log, parse_estimation

FILES = ["estimates.parquet", "sensors.parquet", "summary.json"]


@pytest.fixture(scope="module")
def pushed() -> Pushed:
    return pushed_arm(np.random.default_rng(2))


def estimated(pushed: Pushed, **options) -> EstimationRun:
    setup = parse_estimation(yaml.safe_load(SENSORS), pushed.robot, "s.yaml")
    return estimate_log(setup, pushed.robot, pushed.log, **options)


def test_a_run_holds_contacts_sensors_and_curves(pushed):
    done: list[tuple[int, int]] = []
    run = estimated(pushed, progress=lambda samples, size: done.append((samples, size)))
    assert done == [(0, 381), (381, 381)]
    (contact,) = run.contacts
    assert (contact.start, contact.end) == pytest.approx(PUSH, abs=0.05)
    assert {score.name for score in run.sensors} == {s.name for s in run.estimate.problem.sensors}
    assert not any(score.disagrees for score in run.sensors)
    assert run.observability.readings == 15
    assert run.curves.links == ("forearm",)
    assert run.curves.points.shape == (381, 9, 3)
    assert run.state is None
    assert not run.interrupted
    assert "1 contacts, on forearm; all sensors agree" in run.summary()
    assert run.to_dict()["samples"] == 381


def test_it_is_saved_as_it_was_solved_or_again(pushed, tmp_path):
    (tmp_path / "here").mkdir()
    run = estimated(pushed, folder=tmp_path / "here")
    run.save(tmp_path / "here")
    run.save(tmp_path / "again")
    for folder in ("here", "again"):
        assert sorted(path.name for path in (tmp_path / folder).iterdir()) == FILES
        summary = json.loads((tmp_path / folder / "summary.json").read_text())
        assert summary == json.loads(json.dumps(run.to_dict()))
    first, second = (pq.read_table(tmp_path / f / FILES[0]) for f in ("here", "again"))
    assert first.equals(second)


def test_an_interruption_keeps_what_is_done(pushed, monkeypatch, tmp_path):
    chunks = LogEstimate.chunks

    def interrupted(self, **how):
        yield next(chunks(self, 150, **how))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LogEstimate, "chunks", interrupted)
        run = estimated(pushed)
    assert run.interrupted
    assert run.samples == run.totals.samples == 150
    assert "interrupted: these are the first 150 of 381 samples" in run.notes


def test_a_state_is_part_of_the_run():
    made = hidden_joint(np.random.default_rng(4), seconds=1.0)
    setup = parse_estimation(yaml.safe_load(HIDDEN), made.robot, "s.yaml")
    run = estimate_log(setup, made.robot, made.log)
    assert run.state is not None
    assert [score.measured for score in run.state.joints()] == [True, True, False]
    assert run.to_dict()["state"]["unmeasured"] == ["elbow"]
    assert run.curves.positions[0] == "elbow"
