"""The report of a designed motion in a real browser: it draws, without errors or requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bodysense.excitation import design_motion
from bodysense.excitation.limits import MotionLimits
from bodysense.report.excitation_page import write_excitation_page
from bodysense.robot import load_robot
from bodysense.robot.shapes.collisions import Collisions

ARM = Path(__file__).parents[2] / "examples" / "robots" / "arm.urdf"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    robot = load_robot(ARM)
    limits, collisions = MotionLimits.from_robot(robot), Collisions.from_robot(robot)
    design = design_motion(
        robot,
        duration=2.0,
        harmonics=4,
        limits=limits,
        collisions=collisions,
        trajectories=2,
        iterations=20,
        threads=1,
        rng=np.random.default_rng(0),
    )
    folder = tmp_path_factory.mktemp("page")
    return write_excitation_page(
        folder / "m.html", design, robot, limits, collisions=collisions, command="a command"
    )


def test_everything_is_drawn_without_complaint(browser: Any, file: Path) -> None:
    browser.open(file)
    assert browser.evaluate("document.documentElement.dataset.ready") == "true"
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith("data:")] == [file.as_uri()]
    for name in ("position", "speed", "acceleration", "torque"):
        assert browser.count(f"#{name}-plot path.curve") == 1
        assert browser.count(f"#{name}-plot path.limit") == 2
        assert browser.count(f"#{name}-plot rect.beyond") == 2
    assert browser.count("#clearance-plot path.limit") == 1
    assert browser.count("#search-plot path.curve") == 2
    assert browser.count("#thumbnails button") == 3
    paths = "[...document.querySelectorAll('svg path')].map(p => p.getAttribute('d')).join('')"
    assert "NaN" not in browser.evaluate(paths)
    assert browser.evaluate("getComputedStyle(document.body).display") == "grid"


@pytest.mark.parametrize("width", [360, 420, 760, 1000, 1400])
def test_nothing_sticks_out(browser: Any, file: Path, width: int) -> None:
    browser.open(file, width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("dark", [False, True])
def test_bands_can_be_told_from_the_ground(browser: Any, file: Path, dark: bool) -> None:
    browser.open(file, dark=dark)
    band, panel = (
        browser.evaluate(f"getComputedStyle(document.querySelector('{where}')).{what}")
        for where, what in (("#speed-plot .beyond", "fill"), ("#motion .panel", "backgroundColor"))
    )
    assert band != panel


def test_curves_stay_between_the_limits(browser: Any, file: Path) -> None:
    browser.open(file)
    ends = browser.evaluate(
        "(() => { const box = s => document.querySelector(s).getBBox(), "
        "lines = [...document.querySelectorAll('#speed-plot .limit')].map(l => l.getBBox().y);"
        "const curve = box('#speed-plot .curve');"
        "return [Math.min(...lines), curve.y, curve.y + curve.height, Math.max(...lines)]; })()"
    )
    assert ends[0] - 0.2 <= ends[1] < ends[2] <= ends[3] + 0.2


def test_choosing_joint_and_motion(browser: Any, file: Path) -> None:
    browser.open(file)
    curve = "document.querySelector('#position-plot path.curve').getAttribute('d')"
    first = browser.evaluate(curve)
    browser.evaluate("document.querySelectorAll('#thumbnails button')[2].click()")
    second = browser.evaluate(curve)
    assert second != first
    assert browser.evaluate("document.getElementById('joint').value") == "2"
    browser.evaluate(
        "(s => { s.value = 1; s.dispatchEvent(new Event('change')); })"
        "(document.getElementById('trajectory'))"
    )
    assert browser.evaluate(curve) not in (first, second)
    assert browser.complaints() == []


def test_the_table_sorts_and_filters(browser: Any, file: Path) -> None:
    browser.open(file)
    ratios = (
        "[...document.querySelectorAll('.precision tbody tr')].map(r => +r.cells[6].dataset.sort)"
    )
    browser.evaluate("document.querySelectorAll('.precision thead button')[5].click()")
    ascending = browser.evaluate(ratios)
    assert ascending == sorted(ascending)
    browser.evaluate(
        "(s => { s.value = 'Fv elbow'; s.dispatchEvent(new Event('input')); })"
        "(document.querySelector('.parameters input[type=search]'))"
    )
    left = "[...document.querySelectorAll('.precision tr:not([hidden]) b')].map(b => b.textContent)"
    assert browser.evaluate(left) == ["Fv3"]
