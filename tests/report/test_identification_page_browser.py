"""The report in a real browser, spoken to through a pipe: it draws, without errors or requests."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import Browser

from bodysense.identification.run import IdentificationRun
from bodysense.report import write_identification_page

EVIL = '"><img src=http://leak.invalid/x><script>document.title="evil"</script>'


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, run: IdentificationRun) -> Path:
    return write_identification_page(
        tmp_path_factory.mktemp("page") / "report.html", run, command="bodysense identify"
    )


def test_the_browser_would_tell(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<title>x</title><img src=http://leak.invalid/x><script>null.x</script>")
    browser.open(page)
    assert "http://leak.invalid/x" in browser.requests()
    assert browser.complaints()


def test_everything_is_drawn_without_complaint(browser: Browser, file: Path) -> None:
    browser.open(file)
    assert browser.evaluate("document.documentElement.dataset.ready") == "true"
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith("data:")] == [file.as_uri()]
    assert browser.count("#torque-plot path.curve") == 3  # raw is off at first
    assert browser.count("#residual-plot path.curve") == 1
    assert browser.count("#torque-plot rect.still") >= 1
    assert browser.count("#thumbnails button") == 2
    assert browser.count("#scene path.body") == 2
    assert browser.count("#scene path.before") == 2
    assert browser.count("#cutoff-plot circle.dot") == 3
    assert browser.count("#autocorrelation-plot path.curve") == 2
    assert browser.count("#spectrum-plot path.curve") == 2
    paths = "[...document.querySelectorAll('svg path')].map(p => p.getAttribute('d')).join('')"
    assert "NaN" not in browser.evaluate(paths)
    # The style has been accepted by the policy: the navigation stands at the side.
    assert browser.evaluate("getComputedStyle(document.body).display") == "grid"
    box = browser.evaluate("document.querySelector('#torque-plot svg').clientHeight")
    assert box == 300


@pytest.mark.parametrize("dark", [False, True])
def test_the_picture_is_not_blank(browser: Browser, file: Path, dark: bool) -> None:
    browser.open(file, dark=dark)
    picture = base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"])
    assert len(picture) > 20_000  # a blank one takes about 5 kB
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(int(part) for part in ground.strip("rgb()").split(",")) > 384
    assert light != dark


@pytest.mark.parametrize("width", [360, 760, 1000, 1400])
def test_nothing_sticks_out(browser: Browser, file: Path, width: int) -> None:
    browser.open(file, width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") == width


def test_zoom_hover_and_keys(browser: Browser, file: Path) -> None:
    browser.open(file)
    shown = "document.querySelector('#torque-plot path.identified').getAttribute('d').length"
    before = browser.evaluate(shown)
    at = browser.evaluate(
        "document.querySelector('#torques').scrollIntoView({block: 'start'}), "
        "(r => [r.left, r.top, r.width])"
        "(document.querySelector('#torque-plot').getBoundingClientRect())"
    )
    y = at[1] + 100

    def mouse(kind: str, x: float) -> None:
        browser.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x,
            y=y,
            button="left",
            buttons=0 if kind == "mouseReleased" else 1,
            clickCount=1,
        )

    for kind, share in (("mousePressed", 0.4), ("mouseMoved", 0.5), ("mouseReleased", 0.5)):
        mouse(kind, at[0] + share * at[2])
    assert browser.evaluate(shown) < 0.5 * before
    assert browser.evaluate("document.getElementById('torque-reset').hidden") is False
    mouse("mouseMoved", at[0] + 0.45 * at[2])
    tip = browser.evaluate("document.querySelector('#torque-plot .tip').textContent")
    assert "measured" in tip
    assert "N·m" in tip
    browser.evaluate("document.querySelector('#torque-plot svg').focus()")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="Escape")
    assert browser.evaluate(shown) == before
    assert browser.complaints() == []


def test_choosing_joint_and_recording(browser: Browser, file: Path) -> None:
    browser.open(file)
    curve = "document.querySelector('#torque-plot path.measured').getAttribute('d')"
    first = browser.evaluate(curve)
    browser.evaluate("document.querySelectorAll('#thumbnails button')[1].click()")
    second = browser.evaluate(curve)
    assert second != first
    assert browser.evaluate("document.getElementById('joint').value") == "1"
    browser.evaluate("document.querySelector('#torque-keys .raw').click()")
    assert browser.count("#torque-plot path.raw") == 1
    browser.evaluate(
        "(s => { s.value = 2; s.dispatchEvent(new Event('change')); })"
        "(document.getElementById('recording'))"
    )
    assert browser.count("#thumbnails button") == 2
    browser.evaluate("document.getElementById('toggle-prior').click()")
    assert browser.count("#scene path.before") == 0
    assert browser.complaints() == []


def test_tables_sort_and_filter(browser: Browser, file: Path, run: IdentificationRun) -> None:
    browser.open(file)
    table = "document.querySelector('[data-table=standard]')"
    values = f"[...{table}.querySelectorAll('tbody tr')].map(r => +r.cells[2].dataset.sort)"
    browser.evaluate(f"{table}.querySelectorAll('thead button')[2].click()")
    ascending = browser.evaluate(values)
    assert ascending == sorted(ascending)
    assert len(ascending) == run.identification.prior.layout.size
    browser.evaluate(f"{table}.querySelectorAll('thead button')[2].click()")
    assert browser.evaluate(values) == ascending[::-1]
    browser.evaluate(
        f"(s => {{ s.value = 'Fv elbow'; s.dispatchEvent(new Event('input')); }})"
        f"({table}.querySelector('input[type=search]'))"
    )
    left = f"[...{table}.querySelectorAll('tbody tr:not([hidden]) b')].map(b => b.textContent)"
    assert browser.evaluate(left) == ["Fv2"]


def test_hostile_names_do_nothing(
    browser: Browser, tmp_path: Path, make_run: Callable[..., IdentificationRun]
) -> None:
    run = make_run((EVIL, "</script>"), links=(EVIL, "'"), name=EVIL, source=EVIL, text=EVIL)
    page = write_identification_page(tmp_path / "report.html", run, title="calm", command=EVIL)
    browser.open(page)
    assert browser.evaluate("document.title") == "calm"
    assert browser.count("img") == 0
    assert browser.count("script") == 2
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith("data:")] == [page.as_uri()]
    names = "[...document.querySelectorAll('#thumbnails b')].map(b => b.textContent)"
    assert browser.evaluate(names) == [EVIL, "</script>"]


def test_many_joints_stay_usable(
    browser: Browser, tmp_path: Path, make_run: Callable[..., IdentificationRun]
) -> None:
    run = make_run(tuple(f"joint_{k}" for k in range(24)), n_t=400)
    browser.open(write_identification_page(tmp_path / "report.html", run), width=1000)
    assert browser.count("#thumbnails button") == 24
    assert browser.evaluate("document.documentElement.scrollWidth") == 1000
    assert browser.complaints() == []
