from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bodysense.errors import BodysenseError, ShapeError, UnknownNameError
from bodysense.files import FileWriteError
from bodysense.report import write_motion_page

VOID = {"meta", "link", "input", "br", "hr", "img"}
HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><style>*{background:url(//evil.example)}</style>",
    "<!-- ",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;",
    "关节 1 ½ \U0001f916",
]


class Page(HTMLParser):
    """A page taken apart: its tags with attributes, and the text inside each kind of tag."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = source
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[tuple[str, int]] = []  # tag, and its place among the texts of its kind
        self.texts: dict[str, list[str]] = {}
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            texts = self.texts.setdefault(tag, [])
            self.open.append((tag, len(texts)))
            texts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            tag, place = self.open[-1]
            self.texts[tag][place] += data

    def of(self, tag: str, class_: str | None = None) -> list[dict[str, str | None]]:
        return [
            attributes
            for name, attributes in self.tags
            if name == tag and (class_ is None or class_ in (attributes.get("class") or "").split())
        ]

    @property
    def skeleton(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(tag, tuple(attributes)) for tag, attributes in self.tags]

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.texts["script"][0])
        return data

    def curves(self, kind: str = "trace") -> list[np.ndarray]:
        """Decode time and value of the points (n, 2) of all charts' curves; NaN stands for gaps."""
        data: Any = self.data
        time = np.frombuffer(base64.b64decode(data["time"]), "<f4").astype(float) + data["start"]
        decoded = []
        for curve in (c for chart in data["charts"] for c in chart["curves"]):
            if curve[kind] is None:
                continue
            middle, step, text = data["traces"][curve[kind]]
            steps = np.frombuffer(base64.b64decode(text), "<i2").astype(float)
            values = np.where(steps == -32768, np.nan, middle + step * steps)
            decoded.append(np.column_stack([time, values]))
        return decoded


def written(path: Path, **changes: object) -> Page:
    t = np.linspace(0.0, 2.0, 101)
    arguments: dict[str, object] = {
        "title": "A motion",
        "facts": {"robot": "two bars", "duration": "2 s"},
        "t": t,
        "series": {
            "position [rad]": {"joint 1": np.sin(t), "joint 2": np.cos(t)},
            "torque [N m]": {"joint 2": 30 * np.cos(t), "joint 1": 20 * np.sin(t)},
        },
        "references": {"position [rad]": {"joint 2": np.cos(t) + 0.1}},
        "bodies": np.stack(
            [np.zeros((101, 3)), np.column_stack([np.cos(t), np.sin(t), 0 * t])], axis=1
        ),
        "parents": [-1, 0],
    }
    result = write_motion_page(path, **(arguments | changes))  # type: ignore[arg-type]
    return Page(result.read_text(encoding="utf-8"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "motion.html"


def test_the_page_says_what_it_was_given(file: Path) -> None:
    page = written(file)
    assert page.texts["title"] == page.texts["h1"] == ["A motion"]
    assert page.texts["th"] == ["robot", "duration"]
    assert page.texts["td"] == ["two bars", "2 s"]
    assert page.texts["h3"] == ["Facts", "position [rad]", "torque [N m]"]
    assert len(page.curves()) == 4
    assert len(page.curves("reference")) == 1
    assert len(page.of("canvas")) == 1
    assert len(page.of("div", "plot")) == 2
    assert os.listdir(file.parent) == [file.name]


def test_no_request_leaves_the_page(file: Path) -> None:
    page = written(file)
    for tag, attributes in page.tags:
        for name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
            target = attributes.get(name) or "#"
            assert target == "data:," or target[0] == "#", f"{tag} {name}"
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    source = page.source.replace("http://www.w3.org/2000/svg", "")
    source = source.replace(page.texts["script"][0], "")
    assert "//" not in re.sub(r"(^|\s)// .*", "", source)  # comments of the script aside
    assert re.findall(r"url\((?!#)", source) == []
    for call in (
        *("@import", "import(", "fetch(", "XMLHttpRequest", "WebSocket", "EventSource"),
        *("sendBeacon", "Image(", "Worker", "eval(", "Function(", "innerHTML", "document.write"),
    ):
        assert call not in page.source
    policy = next(a["content"] or "" for a in page.of("meta") if a.get("http-equiv") is not None)
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert "unsafe" not in policy
    for kind, text in (("style", page.texts["style"][0]), ("script", page.texts["script"][1])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_colours_are_light_and_dark(file: Path) -> None:
    t = np.zeros(101)
    series = {"y": {f"joint {k}": t for k in range(12)}}
    style = written(file, series=series, references=None).texts["style"][0]
    rules = re.findall(r"\.c(\d+) { --colour: ([^;]+); }", style)
    assert [int(k) for k, _ in rules] == [*range(12), *range(12)]
    assert len({colour for _, colour in rules}) == 24


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(file: Path, name: str) -> None:
    t = np.linspace(0.0, 2.0, 101)
    benign = written(
        file, facts={"f": "v"}, series={"y": {"x": np.sin(t)}}, references={"y": {"x": t}}
    )
    page = written(
        file,
        title=name,
        facts={name: name},
        series={name: {name: np.sin(t)}},
        references={name: {name: t}},
    )
    assert page.skeleton == benign.skeleton
    assert page.texts["title"] == page.texts["h1"] == page.texts["th"] == page.texts["td"] == [name]
    assert page.texts["h3"][1] == name
    assert page.data["charts"][0]["curves"][0]["name"] == name
    assert page.texts["script"][1:] == benign.texts["script"][1:]
    assert page.texts["style"] == benign.texts["style"]


@settings(max_examples=40, deadline=None)
@given(name=st.text("<>&\"'/!-={}%#; \\abcsript*", min_size=1, max_size=40))
def test_no_name_changes_the_structure(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    file = tmp_path_factory.mktemp("page") / "motion.html"
    t = np.linspace(0.0, 2.0, 101)
    changes = {"facts": {"f": "v"}, "series": {"y": {"x": t}}, "references": None}
    benign = written(file, **changes)
    changes = {"facts": {name: name}, "series": {name: {name: t}}, "references": None}
    page = written(file, title=name, **changes)
    assert page.skeleton == benign.skeleton
    assert page.texts["td"] == [name]
    assert page.texts["script"][1:] == benign.texts["script"][1:]


def test_a_name_that_utf8_cannot_hold(file: Path) -> None:
    assert written(file, title="joint \ud800").texts["h1"] == ["joint ?"]


def test_data_in_the_page_cannot_end_its_script(file: Path) -> None:
    raw = written(file).source.split('id="data">')[1].split("</script>")[0]
    assert not set(raw) & set("<>&'")


def test_drawn_points_are_the_data(file: Path) -> None:
    t = np.linspace(0.0, 2.0, 101)
    page = written(file)
    for points, expected in zip(page.curves()[:2], (np.sin(t), np.cos(t)), strict=True):
        np.testing.assert_allclose(points[:, 0], t, atol=1e-6)
        np.testing.assert_allclose(points[:, 1], expected, atol=1e-4)
    reference = page.curves("reference")[0]
    np.testing.assert_allclose(reference[:, 1], np.cos(t) + 0.1, atol=1e-4)


def test_a_name_has_one_colour_in_all_charts(file: Path) -> None:
    page = written(file)
    colours = [(c["colour"], c["name"]) for chart in page.data["charts"] for c in chart["curves"]]
    assert colours == [(0, "joint 1"), (1, "joint 2"), (1, "joint 2"), (0, "joint 1")]


def test_decimation_keeps_peaks_and_ends(file: Path) -> None:
    t = np.linspace(0.0, 10.0, 50_001)
    y = np.sin(t)
    y[12_345], y[40_000] = 5.0, -4.0
    page = written(file, t=t, series={"y": {"x": y}}, references=None, bodies=None, parents=None)
    points = page.curves()[0]
    assert 500 < len(points) <= 1002
    assert points[0, 0] == 0.0
    assert points[-1, 0] == 10.0
    resolution = 9.0 / 65000
    assert points[:, 1].max() == pytest.approx(5.0, abs=resolution)
    assert points[:, 1].min() == pytest.approx(-4.0, abs=resolution)
    assert points[points[:, 1].argmax(), 0] == pytest.approx(t[12_345], abs=10 / 500)


@pytest.mark.parametrize("n_samples", [101, 20_001])
def test_values_that_are_not_finite_are_gaps(file: Path, n_samples: int) -> None:
    t = np.linspace(0.0, 10.0, n_samples)
    y = np.where((t > 2.0) & (t < 4.0), np.nan, np.sin(t))
    y[t > 9.0] = np.inf
    y[t == 9.0] = 1e200
    page = written(file, t=t, series={"y": {"x": y}}, references=None, bodies=None, parents=None)
    points = page.curves()[0]
    drawn = points[np.isfinite(points[:, 1])]
    step = max(10.0 / (n_samples - 1), 10.0 / 300) + 10.0 / 2000
    (gap,) = np.flatnonzero(np.diff(drawn[:, 0]) > 1.0)
    assert drawn[gap, 0] == pytest.approx(2.0, abs=step)
    assert drawn[gap + 1, 0] == pytest.approx(4.0, abs=step)
    assert drawn[-1, 0] == pytest.approx(9.0, abs=step)
    assert np.abs(drawn[:, 1]).max() < 1.01


def test_the_scene_holds_the_bodies(file: Path) -> None:
    rng = np.random.default_rng(0)
    bodies = rng.uniform(-1.0, 2.0, (101, 4, 3))
    scene = written(file, bodies=bodies, parents=[-1, 0, 1, 0]).data["scene"]
    assert isinstance(scene, Mapping)
    assert scene["parents"] == [-1, 0, 1, 0]
    np.testing.assert_allclose(scene["times"], np.linspace(0.0, 2.0, 101), atol=1e-4)
    decoded = np.array(scene["positions"]).reshape(101, 4, 3) * scene["radius"] / scene["steps"]
    np.testing.assert_allclose(
        decoded + scene["centre"], bodies, atol=scene["radius"] / scene["steps"] / 2 + 1e-12
    )


def test_frames_of_their_own_rate_span_the_time(file: Path) -> None:
    scene = written(file, bodies=np.zeros((5, 1, 3)), parents=[-1]).data["scene"]
    assert isinstance(scene, Mapping)
    assert scene["times"] == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert scene["radius"] == 1.0


def test_without_bodies_there_is_no_stage(file: Path) -> None:
    page = written(file, bodies=None, parents=None)
    assert page.of("canvas") == []
    assert page.data["scene"] is None


def test_nothing_but_a_title(file: Path) -> None:
    page = written(file, facts={}, series={}, references=None, bodies=None, parents=None)
    assert page.of("div", "plot") == page.of("table") == []


def test_a_long_recording_of_a_humanoid_stays_below_a_megabyte(file: Path) -> None:
    rng = np.random.default_rng(0)
    t = np.arange(20_000) / 1000.0
    names = [f"left_joint_number_{k}" for k in range(40)]
    noise = rng.standard_normal(t.size + 40)
    quantities = ("position [rad]", "velocity [rad/s]", "torque [N m]")
    series = {
        quantity: {name: (m + 1) * noise[k : k + t.size] for k, name in enumerate(names)}
        for m, quantity in enumerate(quantities)
    }
    references = {
        quantity: {name: y + 1.0 for name, y in curves.items()}
        for quantity, curves in series.items()
    }
    page = written(
        file,
        t=t,
        series=series,
        references=references,
        bodies=rng.standard_normal((2000, 60, 3)),
        parents=[-1, *range(59)],
    )
    assert len(page.curves()) == len(page.curves("reference")) == 120
    assert 300_000 < file.stat().st_size < 1_000_000


def test_the_same_input_gives_the_same_file(file: Path) -> None:
    assert written(file).source == written(file).source


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"t": [0.0]}, "at least 2 and increase"),
        ({"t": [0.0, 1.0, 1.0]}, "drop repeated"),
        ({"t": [0.0, math.nan]}, "nan"),
        ({"series": {"y": {"x": [1.0, 2.0]}}, "references": None}, r"'y', 'x'.*101 times"),
        ({"series": {"y": {"x": ["a"] * 101}}, "references": None}, "'y', 'x' must be"),
        ({"bodies": None}, "bodies and parents belong together"),
        ({"parents": None}, "bodies and parents belong together"),
        ({"bodies": np.zeros((3, 2))}, "bodies has shape"),
        ({"bodies": np.zeros((0, 2, 3))}, "leave it out"),
        ({"bodies": np.full((3, 2, 3), np.nan)}, "nan"),
        ({"parents": [-1]}, r"parents is \[-1\].*each of the 2 bodies"),
        ({"parents": [-1, 2]}, "parents"),
        ({"parents": [-1, 1]}, "index of another one"),
        ({"parents": [-2, 0]}, "or -1 for a base"),
    ],
)
def test_arrays_that_do_not_fit(file: Path, changes: dict[str, object], message: str) -> None:
    file.write_text("old")
    with pytest.raises(ShapeError, match=message):
        written(file, **changes)
    assert file.read_text() == "old"


def test_references_to_nothing(file: Path) -> None:
    t = np.zeros(101)
    with pytest.raises(UnknownNameError, match="did you mean 'position"):
        written(file, references={"positions [rad]": {"joint 1": t}})
    with pytest.raises(UnknownNameError, match="did you mean 'joint 1'"):
        written(file, references={"position [rad]": {"joint1": t}})


def test_a_folder_that_is_not_there(file: Path) -> None:
    with pytest.raises(FileWriteError, match="does not exist"):
        written(file.parent / "no" / "motion.html")
    assert issubclass(FileWriteError, BodysenseError)
