"""The report of a motion in a real browser: it draws, without errors or requests."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bodysense.report import write_motion_page


@pytest.fixture(scope="module")
def file(other_test: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "m.html"
    other_test("test_motion_page").written(path)
    return path


def one_curve(folder: Path, y: np.ndarray) -> Path:
    t = np.linspace(0.0, 2.0, y.size)
    return write_motion_page(folder / "m.html", title="m", facts={}, t=t, series={"y": {"x": y}})


@pytest.mark.parametrize("width", [360, 760, 1000, 1400])
def test_everything_is_drawn_without_complaint(browser: Any, file: Path, width: int) -> None:
    browser.open(file, width=width)
    assert browser.evaluate("document.documentElement.dataset.ready") == "true"
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith("data:")] == [file.as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    assert browser.count(".plot path.curve:not(.reference)") == 4
    assert browser.count(".plot path.reference") == 1
    strokes = (
        "[...document.querySelectorAll('#chart-0 .curve')].map(c => getComputedStyle(c).stroke)"
    )
    first, dashed, second = browser.evaluate(strokes)
    assert dashed == second != first
    paths = "[...document.querySelectorAll('svg path')].map(p => p.getAttribute('d')).join('')"
    assert "NaN" not in browser.evaluate(paths)
    inked = (
        "(c => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size)"
        "(document.getElementById('stage'))"
    )
    assert browser.evaluate(inked) > 10


def test_the_robot_follows_the_cursor(browser: Any, file: Path) -> None:
    browser.open(file)
    browser.evaluate(
        "(s => { s.value = 500; s.dispatchEvent(new Event('input')); })"
        "(document.getElementById('time'))"
    )
    assert browser.evaluate("document.getElementById('clock').textContent") == "1.00 / 2.00 s"
    values = "[...document.querySelectorAll('#chart-0 .key output')].map(o => +o.textContent)"
    assert browser.evaluate(values) == pytest.approx([math.sin(1), math.cos(1)], abs=1e-3)
    left, top = browser.evaluate(
        "document.querySelector('#chart-1').scrollIntoView(), "
        "(r => [r.left, r.top])(document.querySelector('#chart-1 .plot').getBoundingClientRect())"
    )
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=left + 58, y=top + 100)
    assert browser.evaluate("document.getElementById('clock').textContent") == "0.00 / 2.00 s"


def test_curves_can_be_hidden_and_the_motion_played(browser: Any, file: Path) -> None:
    browser.open(file)
    browser.evaluate("document.querySelectorAll('#chart-0 .key')[1].click()")
    assert browser.count("#chart-0 path.curve") == 1
    assert browser.count("#chart-1 path.curve") == 2
    browser.evaluate("document.getElementById('play').click()")
    browser.evaluate("new Promise(done => setTimeout(done, 400))")
    browser.evaluate("document.getElementById('play').click()")
    assert float(browser.evaluate("document.getElementById('time').value")) > 0.0
    assert browser.complaints() == []


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1.7, 1.7), (0.0, 1e-7), (-3e8, 1e9), (1.5, 1.5001), (1.7e9, 1.7e9 + 20), (-0.03, 12.0)],
)
def test_ticks_are_round_evenly_spaced_and_distinct(
    browser: Any, tmp_path: Path, low: float, high: float
) -> None:
    browser.open(one_curve(tmp_path, np.linspace(low, high, 101)))
    labels = browser.evaluate(
        "[...document.querySelectorAll('.plot text[text-anchor=end]')].map(t => t.textContent)"
    )
    values = np.array([float(text.replace("\N{MINUS SIGN}", "-")) for text in labels])
    assert 3 <= len(values) <= 9
    np.testing.assert_allclose(np.diff(values), values[1] - values[0], rtol=1e-6)
    step = values[1] - values[0]
    assert round(step / 10 ** math.floor(math.log10(step) + 1e-9), 3) in (1.0, 2.0, 5.0)


@pytest.mark.parametrize("value", [0.0, 5.0, -1e-7, 1e10, math.nan, 1e-320])
def test_a_constant_is_a_flat_line_inside_the_chart(
    browser: Any, tmp_path: Path, value: float
) -> None:
    browser.open(one_curve(tmp_path, np.full(101, value)))
    path = browser.evaluate("document.querySelector('.plot path.curve').getAttribute('d')")
    heights = {float(point.split(",")[1]) for point in path[1:].split("L") if point}
    assert len(heights) == (0 if math.isnan(value) else 1)
    assert all(20.0 < height < 260.0 for height in heights)
    assert browser.complaints() == []
