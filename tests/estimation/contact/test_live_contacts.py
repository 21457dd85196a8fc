"""Contacts of a live stream are in its results and its summary."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml
from pushed_arm import PUSH, SENSORS, WRENCH, pushed_arm

from bodysense.estimation import DetectionSettings, EstimatorStream, parse_estimation
from bodysense.estimation.live import LiveEstimator
from bodysense.estimation.live.contacts import LiveContacts, described
from bodysense.estimation.map_dynamics.base_motion import StandingFeet
from bodysense.logs.live import Arrival, StreamFaults
from bodysense.logs.live.sink import ResultLines


@pytest.fixture(scope="module")
def arm():
    return pushed_arm(np.random.default_rng(4), rate=200.0)


def arrivals(arm):
    columns = {"t": arm.log.t, **arm.log.channels}
    for row in zip(*(x.tolist() for x in columns.values()), strict=True):
        data = json.dumps(dict(zip(columns, row, strict=True))).encode()
        yield Arrival(row[0], "json", "", data)


def estimator(arm, said, **settings):
    setup = parse_estimation(yaml.safe_load(SENSORS), arm.robot, "s.yaml")
    return LiveEstimator(setup, arm.robot, faults=StreamFaults(said.append), **settings)


def test_a_push_is_a_contact_in_results_and_once_in_the_summary(arm):
    said: list[str] = []
    live = estimator(arm, said, learning=1.0)
    results = [r for a in arrivals(arm) if (r := live.step(a)) is not None]
    touched = [r.t for r in results if r.contacts]
    late = live.delay + 0.25
    assert PUSH[0] - 0.1 < touched[0] < PUSH[0] + late
    assert PUSH[1] - 0.1 < touched[-1] < PUSH[1] + late
    expected = sum(PUSH[0] + late < r.t < PUSH[1] for r in results)
    assert sum(PUSH[0] + late < t < PUSH[1] for t in touched) == expected
    (contact,) = live.contacts.all()
    assert (contact["link"], len(live.contacts)) == ("forearm", 1)
    middle = next(r for r in results if r.t > 2.2)
    assert middle.contacts[0]["force"] == pytest.approx(np.linalg.norm(WRENCH[:3]), rel=0.05)
    assert contact["largest"] > 0.9 * np.linalg.norm(WRENCH[:3])
    assert contact["since"] < contact["found"] < contact["until"]
    assert described(contact).startswith("contact on forearm (100 %) from")
    assert [text for text in said if "a push of" in text and "forearm" in text]
    line = json.loads(ResultLines(live.columns).line(middle))
    keys = {"link", "probability", "since", "force", "detectable"}
    assert keys <= set(line["contacts"][0])
    assert line["contacts"][0]["link"] == "forearm"


def test_nothing_is_a_contact_while_noise_is_learned_or_too_weak(arm):
    live = estimator(arm, [], learning=60.0)
    assert not any(r.contacts for a in arrivals(arm) if (r := live.step(a)) is not None)
    strong = DetectionSettings(minimum_force=60.0)
    live = estimator(arm, [], learning=1.0, detection=strong)
    assert not any(r.contacts for a in arrivals(arm) if (r := live.step(a)) is not None)
    assert live.contacts.all() == ()


def test_feet_that_stand_are_not_tested(arm):
    setup = parse_estimation(yaml.safe_load(SENSORS), arm.robot, "s.yaml")
    problem = setup.problem(arm.robot)
    stands = LiveContacts(problem, StandingFeet(("forearm",)), None, 1.0, StreamFaults())
    stands.begin(EstimatorStream(problem))
    assert stands.step(0.0) == ()
    assert stands.all() == ()
