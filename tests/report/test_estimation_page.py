"""The report of estimates: everything in it, nothing that runs or is fetched but its own."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import yaml

from bodysense.estimation import (
    LogEstimate,
    parse_estimation,
    prepare_log,
    solve_log,
)
from bodysense.estimation.contact.load import CarriedLoad
from bodysense.report.estimation_page import write_estimation_page

sys.path.insert(0, str(Path(__file__).parents[1] / "estimation"))

import hidden_joint
from pushed_arm import PUSH, SENSORS, Pushed, pushed_arm


@pytest.fixture(scope="module")
def pushed() -> Pushed:
    return pushed_arm(np.random.default_rng(6))


def estimate_of(pushed: Pushed, text: str = SENSORS, **changes) -> LogEstimate:
    log = pushed.log
    log = replace(log, channels={**log.channels, **changes})
    setup = parse_estimation(yaml.safe_load(text), pushed.robot, "s.yaml")
    return prepare_log(setup, pushed.robot, log)


def page_of(
    estimate: LogEstimate, path: Path, chunk: int = 100, source: str = "log", **words
) -> str:
    chunks = type(estimate).chunks
    with patch.object(type(estimate), "chunks", lambda self, **how: chunks(self, chunk, **how)):
        run = solve_log(estimate, source=source)
    write_estimation_page(path, run, **words)
    return path.read_text(encoding="utf-8")


def data_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))["estimates"]


def test_all_sections_and_numbers_are_there(pushed, tmp_path):
    page = page_of(estimate_of(pushed), tmp_path / "r.html", command="bodysense estimate …")
    for section in ("summary", "wrenches", "torques", "sensors", "observability", "provenance"):
        assert f'<section id="{section}"' in page
    assert "1 contact on forearm" in page
    assert "Estimates of small-arm" in page
    assert "bodysense estimate …" in page
    assert "torque.elbow" in page
    data = data_of(page)
    assert data["links"] == ["forearm"]
    assert len(data["wrenches"][0]) == 6
    assert len(data["torques"]) == 3
    assert data["contacts"][0][0] == pytest.approx(PUSH, abs=0.05)


def test_times_are_those_of_the_recording(pushed, tmp_path):
    """As on the terminal and in all files, whenever its clock began."""
    began = 1_700_000_000.0
    log = pushed.log
    estimate = estimate_of(replace(pushed, log=replace(log, t=log.t + began)))
    page = page_of(estimate, tmp_path / "r.html")
    data = data_of(page)
    assert data["start"] == estimate.t[0] == pytest.approx(began + 0.1)
    first, last = data["contacts"][0][0]
    assert (first - began, last - began) == pytest.approx(PUSH, abs=0.05)
    assert f"<td>{first:.2f}</td><td>{last:.2f}</td>" in page
    assert re.search(r"N on forearm, at 170000000\d\.\d\d s<", page)
    worst = page.partition("Least probable readings")[2]
    assert re.search(r"</th><td>170000000\d\.\d\d</td>", worst)


def test_columns_of_sensors_are_explained(pushed, tmp_path):
    for estimate, right in (
        (estimate_of(pushed), "Expected: 1."),
        (stated_estimate(), "Expected: at most 1."),
    ):
        page = page_of(estimate, tmp_path / "r.html")
        titles = re.findall(r'<th scope="col" title="([^"]*)"><button type="button">(.*?)<', page)
        assert [name for _, name in titles] == ["ratio", "beyond 95 %"]
        assert titles[0][0].startswith("How large residuals are")
        assert right in titles[0][0]
        assert titles[1][0].startswith("How many residuals are too large")
        assert '<button type="button">missing</button>' in page
        assert "A large ratio with few beyond: a few readings are far off" in page


def test_exact_readings_that_cannot_be_true_are_named(pushed, tmp_path):
    exact = SENSORS.replace("all, std: 0.05}", "all, std: 0}").replace(
        "std: [0.2, 0.2, 0.2, 0.02, 0.02, 0.02]", "std: 0"
    )
    page = page_of(estimate_of(pushed, exact), tmp_path / "r.html")
    sensors = page.partition('<section id="sensors"')[2]
    told = r'<p class="bad">Exact readings \(std 0\) contradict each other'
    assert re.search(told + r"[^<]*torque\.elbow \(off by up to [^<]* N·m\)", sensors)
    assert re.search(r"wrist \(off by up to [^<]* give them a std above zero", sensors)
    assert "torque.pan (off" not in page
    assert re.search(r"torque\.elbow[^\n]*class=\"bad\">100 %", sensors)
    assert "grade-fair" in page or "grade-poor" in page


def stated_estimate() -> LogEstimate:
    """Of an arm whose elbow has no encoder."""
    made = hidden_joint.hidden_joint(np.random.default_rng(6), seconds=2.0)
    setup = parse_estimation(yaml.safe_load(hidden_joint.SENSORS), made.robot, "s.yaml")
    return prepare_log(setup, made.robot, made.log)


def test_positions_that_are_estimated_are_shown(pushed, tmp_path):
    page = page_of(stated_estimate(), tmp_path / "r.html")
    assert '<section id="positions"' in page
    assert "elbow, without an encoder" in page
    assert "estimated; elbow without encoders" in page
    assert "Biases after the last readings" in page
    positions = data_of(page)["positions"]
    assert positions["joints"] == ["elbow", "pan", "lift"]
    assert [len(curves) for curves in positions["curves"]] == [2, 2, 2]
    plain = page_of(estimate_of(pushed), tmp_path / "p.html")
    assert '<section id="positions"' not in plain
    assert data_of(plain)["positions"]["joints"] == []


def test_nothing_else_can_run(pushed, tmp_path):
    page = page_of(estimate_of(pushed), tmp_path / "r.html")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy.group(1)
    assert "unsafe" not in policy.group(1)
    assert re.search(r'(src|href)="(https?:)?//', page) is None


def test_names_are_escaped(pushed, tmp_path):
    evil = "<img src=x onerror=alert(1)>"
    text = SENSORS.replace("  gyro:", f"  '{evil}':").replace(
        "link: forearm, std: 0.01", "link: forearm, std: 0.01, channels: [gyro.x, gyro.y, gyro.z]"
    )
    page = page_of(estimate_of(pushed, text), tmp_path / "r.html", source=evil, title=evil)
    assert evil not in page
    assert "&lt;img src=x" in page


def test_a_sensor_that_disagrees_is_named_first(pushed, tmp_path):
    wrong = {"tau.elbow": pushed.log.channels["tau.elbow"] + 1.0}
    page = page_of(estimate_of(pushed, **wrong), tmp_path / "r.html")
    assert "contradict" in page
    assert "torque.elbow: residuals are" in page
    assert 'class="bad"' in page


def test_what_is_found_and_what_would_be(pushed, tmp_path):
    page = page_of(estimate_of(pushed), tmp_path / "r.html")
    contacts, _, rest = page.partition("<h3>What would be found</h3>")
    assert re.search(r"forearm</th><td>100 %</td>", contacts)
    row = re.search(r'class="words">forearm</th>((?:<td>[\d.]+ to [\d.]+</td>)+)', rest)
    assert row is not None
    best = [float(x) for x in re.findall(r"<td>([\d.]+) to", row[1])]
    assert best == sorted(best, reverse=True)  # what lasts is found at less
    assert "with 1 false alarms per hour" in rest
    noise = estimate_of(pushed).recording.noise
    assert f"{noise.cutoff:.3g} Hz, positions and readings alike" in page
    assert '<th scope="col">white noise</th>' in page
    assert '<th scope="col">white noise</th>' not in page_of(stated_estimate(), tmp_path / "s.html")


def test_a_load_is_told_from_contacts(pushed, tmp_path):
    load = CarriedLoad(
        "forearm", 2.0, 0.01, np.array([0.0, 0.0, 0.1]), *np.zeros((2, 3)), 0.99, True
    )
    estimate = estimate_of(pushed)
    assert estimate.found is not None
    found = replace(estimate.found, contacts=(), load=load)
    page = page_of(replace(estimate, found=found), tmp_path / "r.html")
    assert "A load of 2.00 kg on forearm; no contact beside it; all sensors agree" in page
    assert "attached: [{link: forearm, mass: 2.000, com: [0.000, 0.000, 0.100]}]" in page
    found = replace(found, load=replace(load, told=False))
    page = page_of(replace(estimate, found=found), tmp_path / "r.html")
    assert "Record a second posture" in page
    assert "attached:" not in page


def test_a_file_without_contacts_says_so(pushed, tmp_path):
    text = SENSORS.partition("external_wrenches")[0]
    page = page_of(estimate_of(pushed, text), tmp_path / "r.html")
    assert "No link may be in contact" in page
    assert data_of(page)["links"] == []


def test_gaps_and_thinning(pushed, tmp_path):
    q = np.array(pushed.log.channels["q.pan"])
    q[200:240] = np.nan
    estimate = estimate_of(pushed, **{"q.pan": q})
    data = data_of(page_of(estimate, tmp_path / "r.html", chunk=77))
    assert data["pieces"] == [0, 180]
    assert len(estimate.recording.starts) == 2
