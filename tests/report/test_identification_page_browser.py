"""The report in a real browser, spoken to through a pipe: it draws, without errors or requests."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bodysense.identification.run import IdentificationRun
from bodysense.report import write_identification_page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 30.0
EVIL = '"><img src=http://leak.invalid/x><script>document.title="evil"</script>'


class Browser:
    """A headless Chromium with one tab."""

    def __init__(self, program: str, profile: Path) -> None:
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()
        flags = (
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
            *("--disable-background-networking", "--disable-component-update"),
            *("--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"),
            f"--user-data-dir={profile}",
        )
        # Chromium listens at descriptor 3 and speaks at 4.
        shell = f'exec "$0" "$@" 3<&{to_child} 4>&{from_child}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, program, *flags, "about:blank"],
            pass_fds=(to_child, from_child),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        self._buffer, self._number, self.events = b"", 0, list[dict[str, Any]]()
        self._session = ""
        targets = self.call("Target.getTargets")["targetInfos"]
        tab = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=tab["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            self._buffer += os.read(self._read, 1 << 20)
        message, _, self._buffer = self._buffer.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def evaluate(self, expression: str) -> Any:
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def open(self, file: Path, *, width: int = 1200, dark: bool = False) -> None:
        """Open a page and wait until it has been painted."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=file.as_uri())
        self.evaluate(
            "new Promise(done => { const wait = () => document.readyState === 'complete' ? "
            "requestAnimationFrame(() => requestAnimationFrame(done)) : setTimeout(wait, 20); "
            "wait(); })"
        )

    def complaints(self) -> list[dict[str, Any]]:
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event for event in self.events if event.get("method") in kinds]

    def requests(self) -> list[str]:
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def count(self, selector: str) -> int:
        return int(self.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser: install one of {', '.join(NAMES)}, e.g. apt install chromium")
    started = Browser(program, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


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
