from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from bodysense.errors import FileWriteError
from bodysense.excitation import Design, design_motion
from bodysense.excitation.limits import MotionLimits
from bodysense.report.excitation_page import write_excitation_page
from bodysense.report.figures import WIDTH
from bodysense.report.parameters import precision_labels, precision_section
from bodysense.robot import Robot, load_robot
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.shapes.collisions import Collisions

ARM = Path(__file__).parents[2] / "examples" / "robots" / "arm.urdf"
EVIL = '"><img src=x onerror=alert(1)></script><script>alert(2)</script>{{ 7 * 7 }}'


@pytest.fixture(scope="module")
def robot() -> Robot:
    return load_robot(ARM)


@pytest.fixture(scope="module")
def limits(robot) -> MotionLimits:
    return MotionLimits.from_robot(robot)


@pytest.fixture(scope="module")
def collisions(robot) -> Collisions:
    return Collisions.from_robot(robot)


@pytest.fixture(scope="module")
def design(robot, limits, collisions) -> Design:
    """Two motions of two of three joints."""
    return design_motion(
        robot,
        duration=2.0,
        harmonics=4,
        joints=("lift", "elbow"),
        limits=limits,
        collisions=collisions,
        trajectories=2,
        seconds=60.0,
        iterations=30,
        threads=1,
        rng=np.random.default_rng(0),
    )


@pytest.fixture
def content(robot, limits, monkeypatch):
    """What the page of a design shows, before it is rendered."""

    def of(design: Design, collisions: Collisions | None = None, within: MotionLimits = limits):
        with monkeypatch.context() as patch:
            patch.setattr("bodysense.report.excitation_page.write_page", lambda *_, **shown: shown)
            return write_excitation_page("m.html", design, robot, within, collisions=collisions)

    return of


def decoded(data: dict, trace: int) -> np.ndarray:
    middle, step, text = data["traces"][trace]
    return middle + step * np.frombuffer(base64.b64decode(text), "<i2").astype(float)


class Text(HTMLParser):
    """All text of a page, and its tags; every tag is closed."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.tags, self._open = "", list[tuple[str, dict]](), list[str]()
        self.feed(source)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "br"):
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_curves_are_those_of_the_motion(content, design, robot):
    section = content(design)["motion"]
    assert section["trajectories"] == ["Trajectory 1", "Trajectory 2"]
    assert section["joints"] == ("lift", "elbow")
    assert section["held"][0].startswith("pan at ")
    for k, motion in enumerate(design.trajectories):
        entry = section["data"]["trajectories"][k]
        t = np.frombuffer(base64.b64decode(entry["time"]), "<f4").astype(float)
        q, v, a = motion(t)
        tau = inverse_dynamics(robot, q, v, a)
        for j, joint in enumerate(section["joints"]):
            place = robot.joint_names.index(joint)
            for trace, values in zip(entry["joints"][j], (q, v, a, tau), strict=True):
                curve = decoded(section["data"], trace)
                span = np.ptp(values[:, place])
                np.testing.assert_allclose(curve, values[:, place], atol=1e-4 * span)


def test_limits_are_drawn_where_they_are(content, design, robot, limits):
    drawn = content(design)["motion"]["data"]["limits"]
    j = robot.joint_names.index("elbow")
    assert drawn[1][0] == [limits.lower[j], limits.upper[j]]
    assert drawn[1][1] == [-limits.velocity[j], limits.velocity[j]]
    assert drawn[1][3] == [-limits.effort[j], limits.effort[j]]


def test_uses_are_those_of_the_design(content, design):
    rows = content(design)["limits"]
    assert [row["joint"] for row in rows] == ["lift", "elbow"]
    for row in rows:
        for what, cell in zip(
            ("position", "speed", "acceleration", "torque"), row["cells"], strict=True
        ):
            use = next(u for u in design.uses if (u.joint, u.quantity) == (row["joint"], what))
            assert cell["ratio"] == use.ratio
            assert cell["full"] == (use.ratio >= 0.995)


def test_no_limit_is_no_use(content, design, limits):
    free = replace(limits, effort=np.full(3, np.inf))
    cell = content(design, within=free)["limits"][0]["cells"][3]
    assert (cell["use"], cell["limit"], cell["full"]) == ("–", "no limit", False)


def test_the_noise_and_the_shapes_are_told(content, design, robot, collisions):
    summary = content(design, collisions)["verdict"]
    lift, elbow = (0.01 * robot.effort_limit[j] for j in (1, 2))
    assert dict(summary["facts"])["Torque noise assumed"] == [
        f"{lift:.3f} N·m, {elbow:.3f} N·m, white"
    ]
    assert collisions.notes
    for note in (*collisions.notes, *design.notes):
        assert note[0].upper() + note[1:] in summary["notes"]


@pytest.mark.parametrize("status", ["time", "interrupted", "enough"])
def test_how_the_search_ended_is_told_once(content, design, status):
    ended = replace(design, status=status, advice="The search converged.", seconds=3.0)
    verdict = content(ended)["verdict"]
    assert verdict["advice"] == ["The search converged."]
    assert dict(verdict["facts"])["Search"] == ["3.00 s"]


def test_clearance_is_that_of_the_closest_pair(content, design, collisions):
    section = content(design, collisions)["clearance"]
    least = min(
        np.frombuffer(base64.b64decode(part["distance"]), "<f4").min()
        for part in section["data"]["trajectories"]
    )
    # the final check is finer than the curve
    assert 1e3 * design.closest.distance - 1e-3 <= least <= 1e3 * design.closest.distance + 1.0
    assert section["rows"][0][0] == " and ".join(design.closest.pair)
    assert float(section["rows"][0][1]) == pytest.approx(least, rel=5e-3)  # three digits
    assert section["data"]["margin"] == 10.0


def test_pairs_with_a_margin_of_their_own_are_shifted_onto_the_line(content, design, collisions):
    tight = replace(collisions, farthest=np.full(len(collisions.pairs), 0.006))
    section, usual = (content(design, pairs)["clearance"] for pairs in (tight, collisions))
    assert section["shifted"]
    assert not usual["shifted"]
    assert section["rows"][0][0].endswith("(margin 3.0 mm)")
    curves, plain = (
        np.frombuffer(base64.b64decode(one["data"]["trajectories"][0]["distance"]), "<f4")
        for one in (section, usual)
    )
    np.testing.assert_allclose(curves, plain + 7.0, rtol=1e-5)


def test_labels_follow_sigma_over_size(design):
    ratio = np.array([0.1, 0.3, 1.2, np.inf])
    four = replace(design, sigma=ratio * 2.0, sizes=np.full(4, 2.0))
    assert precision_labels(four) == ["well", "poorly", "not identifiable", "not identifiable"]


def test_bars_are_logarithmic(design, robot):
    b = design.base.size
    ratios = np.resize([1e-9, 1e-3, 1e-2, 1e-1, 1.0, 10.0, np.inf], b)
    made = replace(design, sigma=ratios, sizes=np.ones(b))
    bars = [row["bar"] for row in precision_section(made, robot)["rows"]]
    assert bars[0] == bars[1] == 0.0
    assert bars[5] == bars[6] == WIDTH
    np.testing.assert_allclose(np.diff(bars[1:6]), WIDTH / 4, atol=0.2)


def test_rows_hold_every_base_parameter(design, robot):
    section = precision_section(design, robot)
    assert [row["combination"] or row["name"] for row in section["rows"]] == list(design.base.names)
    assert sum(n for _, _, n in section["counts"]) == design.base.size
    lost = [row for row in section["rows"] if row["label"] == "not identifiable"]
    assert [name for name, _ in section["poor"]] == [
        row["combination"] or row["name"] for row in lost
    ]
    assert {name for name, _ in section["regrouped"]} == set(design.base.regrouped)
    silent = " ".join(names for _, names in section["unidentifiable"]).split()
    assert sorted(silent) == sorted(design.base.unidentifiable)


def test_what_only_held_joints_show_is_told_so(design, robot):
    reasons = {
        name: why
        for why, names in precision_section(design, robot)["unidentifiable"]
        for name in names.split()
    }
    assert reasons["Fv1"] == "the joint does not move"
    assert reasons["M1"] == "no joint that moves carries the link"


def test_weak_and_confounded_parameters_are_told_apart(design, robot):
    b = design.base.size
    M = np.eye(b)
    M[0, 0] = 1e-6  # next to no torque
    M[1, 2] = M[2, 1] = 1.0 - 1e-8  # two that look the same
    R = np.linalg.cholesky(M).T
    sigma = np.sqrt(np.diag(np.linalg.inv(M)))
    made = replace(design, information=R, sigma=sigma, sizes=np.full(b, 10.0))
    found = precision_section(made, robot)["poor"]
    names = [design.base.layout.names[k] for k in design.base.independent]
    assert [name for name, _ in found] == [design.base.names[k] for k in (0, 1, 2)]
    assert "lost in the noise" in found[0][1]
    assert (
        f"cannot be separated from others, most of all {names[2]} (correlation −1.0" in found[1][1]
    )
    assert names[1] in found[2][1]


@pytest.mark.parametrize(
    ("lost", "status", "grade"),
    [(0, "time", "good"), (1, "time", "fair"), (8, "time", "poor"), (0, "violated", "failed")],
)
def test_grades(content, design, lost, status, grade):
    b = design.base.size
    sigma = np.where(np.arange(b) < lost, 2.0, 0.1)
    made = replace(design, sigma=sigma, sizes=np.ones(b), status=status)
    summary = content(made)["verdict"]
    assert summary["grade"] == grade
    assert f"{b - lost} of {b} base parameters" in summary["sentence"]


def test_the_page_is_whole_and_allows_nothing_else(design, robot, limits, collisions, tmp_path):
    path = write_excitation_page(
        tmp_path / "m.html",
        design,
        robot,
        limits,
        collisions=collisions,
        command="the command",
        seed=7,
    )
    source = path.read_text(encoding="utf-8")
    page = Text(source)
    assert {a.get("id") for tag, a in page.tags if tag == "section"} == {
        "summary", "motion", "limits", "clearance", "parameters", "search", "provenance"
    }  # fmt: skip
    policy = next(a["content"] for _, a in page.tags if "http-equiv" in a)
    for tag in ("style", "script"):
        text = re.search(rf"<{tag}>(.*?)</{tag}>", source, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    data = json.loads(re.search(r'id="data">(.*?)</script>', source, re.DOTALL)[1])
    assert len(data["motion"]["trajectories"]) == 2
    assert data["search"]["values"] == [value for _, value in design.history]
    assert "the command" in page.text
    assert hashlib.sha256(ARM.read_bytes()).hexdigest() in page.text
    assert "seed 7" in page.text
    assert len(source) < 400_000


def test_without_collisions_command_or_seed(design, robot, limits, tmp_path):
    bare = replace(design, closest=None)
    source = write_excitation_page(tmp_path / "m.html", bare, robot, limits).read_text("utf-8")
    assert "were not checked" in source
    assert 'id="command"' not in source


def test_infinite_values_become_nothing(design, robot, limits, tmp_path):
    b = design.base.size
    blind = replace(
        design,
        sigma=np.full(b, np.inf),
        information=np.zeros((b, b)),
        condition=np.inf,
        value=np.inf,
        start_value=np.inf,
    )
    source = write_excitation_page(tmp_path / "m.html", blind, robot, limits).read_text("utf-8")
    assert not re.search(r"\b(nan|inf|NaN|Infinity)\b", Text(source).text.split("use strict")[0])


def test_hostile_names_do_nothing(design, robot, limits, tmp_path):
    evil = replace(design, notes=(EVIL,), advice=EVIL)
    path = write_excitation_page(tmp_path / "m.html", evil, robot, limits, title=EVIL, command=EVIL)
    page = Text(path.read_text(encoding="utf-8"))
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 2
    assert unescape(EVIL) in page.text


def test_a_folder_that_is_not_there(design, robot, limits, tmp_path):
    with pytest.raises(FileWriteError, match="does not exist"):
        write_excitation_page(tmp_path / "nowhere" / "m.html", design, robot, limits)
