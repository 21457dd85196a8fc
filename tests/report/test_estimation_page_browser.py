"""The report of estimates in a real browser: it draws, without errors or requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="module")
def file(other_test: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = other_test("test_estimation_page")
    path = tmp_path_factory.mktemp("page") / "r.html"
    made.page_of(made.estimate_of(made.pushed_arm(np.random.default_rng(6))), path, command="x")
    return path


def test_everything_is_drawn_without_complaint(browser: Any, file: Path) -> None:
    browser.open(file)
    assert browser.evaluate("document.documentElement.dataset.ready") == "true"
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith("data:")] == [file.as_uri()]
    for name in ("force", "moment"):
        assert browser.count(f"#{name}-plot path.band") == 3
        assert browser.count(f"#{name}-plot path.curve:not(.edge)") == 3
        assert browser.count(f"#{name}-plot rect.still") == 1
    assert browser.count("#torque-plot path.band") == 1
    assert browser.count("#thumbnails button") == 3
    paths = "[...document.querySelectorAll('svg path')].map(p => p.getAttribute('d')).join('')"
    assert "NaN" not in browser.evaluate(paths)


@pytest.mark.parametrize("width", [360, 760, 1000, 1400])
def test_nothing_sticks_out(browser: Any, file: Path, width: int) -> None:
    browser.open(file, width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") == width


def test_axes_can_be_switched_off_and_joints_chosen(browser: Any, file: Path) -> None:
    browser.open(file)
    browser.evaluate("document.querySelectorAll('#wrench-keys button')[1].click()")
    assert browser.count("#force-plot path.band") == 2
    curve = "document.querySelector('#torque-plot path.curve:not(.edge)').getAttribute('d')"
    first = browser.evaluate(curve)
    browser.evaluate("document.querySelectorAll('#thumbnails button')[2].click()")
    assert browser.evaluate(curve) != first
    assert browser.evaluate("document.getElementById('joint').value") == "2"
    assert browser.complaints() == []


@pytest.mark.parametrize("dark", [False, True])
def test_bands_can_be_told_apart(browser: Any, file: Path, dark: bool) -> None:
    browser.open(file, dark=dark)
    fills = browser.evaluate(
        "[...document.querySelectorAll('#force-plot .band')].map(b => getComputedStyle(b).fill)"
    )
    assert len(set(fills)) == 3


def test_bands_lie_around_their_curves(browser: Any, file: Path) -> None:
    browser.open(file)
    low, curve, high = browser.evaluate(
        "(() => { const box = s => document.querySelector(s).getBBox();"
        "const band = box('#torque-plot .band'), c = box('#torque-plot .curve:not(.edge)');"
        "return [band.y, c.y, band.y + band.height - c.y - c.height]; })()"
    )
    assert low <= curve
    assert high >= 0.0


@pytest.fixture(scope="module")
def stated(other_test: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = other_test("test_estimation_page")
    path = tmp_path_factory.mktemp("stated") / "r.html"
    made.page_of(made.stated_estimate(), path, command="x")
    return path


@pytest.mark.parametrize("width", [360, 1400])
def test_positions_are_drawn(browser: Any, stated: Path, width: int) -> None:
    browser.open(stated, width=width)
    assert browser.complaints() == []
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    for name in ("position", "velocity"):
        assert browser.count(f"#{name}-plot path.band") == 1
    label = "document.querySelector('#velocity-plot svg').textContent"
    assert "velocity [rad/s]" in browser.evaluate(label)
    curve = "document.querySelector('#position-plot path.curve:not(.edge)').getAttribute('d')"
    first = browser.evaluate(curve)
    browser.evaluate(
        "(() => { const m = document.getElementById('moving'); m.value = '1';"
        "m.dispatchEvent(new Event('change')); })()"
    )
    assert browser.evaluate(curve) != first
