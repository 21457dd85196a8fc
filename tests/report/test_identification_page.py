from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bodysense.errors import FileWriteError
from bodysense.identification.run import IdentificationRun
from bodysense.identification.scores import score
from bodysense.report import write_identification_page
from bodysense.report.identification_page import _group_recordings

VOID = {"meta", "link", "input", "br"}
SECTIONS = [
    "verdict",
    "torques",
    "scores",
    "parameters",
    "links",
    "findings",
    "preprocessing",
    "provenance",
]
HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><style>*{color:red}</style>",
    "<!-- <script>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;",
    "关节 ½ \U0001f916 \u2028",
]


class Page(HTMLParser):
    """A page taken apart: tags with their attributes, and all text inside each."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = source
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []  # of each tag, its children's included
        self._open: list[tuple[str, int]] = []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.texts.append("")
        if tag not in VOID:
            self._open.append((tag, len(self.texts) - 1))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for _, place in self._open:
            self.texts[place] += data

    def all(self, tag: str, class_: str = "") -> list[str]:
        return [
            text
            for (name, attributes), text in zip(self.tags, self.texts, strict=True)
            if name == tag and (not class_ or class_ in (attributes.get("class") or "").split())
        ]

    def of_id(self, id_: str) -> str:
        return next(
            text for (_, a), text in zip(self.tags, self.texts, strict=True) if a.get("id") == id_
        )

    @property
    def skeleton(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(tag, tuple(attributes)) for tag, attributes in self.tags]

    @property
    def data(self) -> dict[str, dict[str, object]]:
        def refuse(constant: str) -> float:
            raise AssertionError(constant)

        found: dict[str, dict[str, object]] = json.loads(self.of_id("data"), parse_constant=refuse)
        return found


def written(folder: Path, run: IdentificationRun, **options: str) -> Page:
    file = write_identification_page(folder / "report.html", run, **options)  # type: ignore[arg-type]
    assert os.listdir(folder) == ["report.html"]
    return Page(file.read_text(encoding="utf-8"))


def traces(page: Page) -> list[np.ndarray]:
    decoded = []
    for middle, step, text in page.data["torques"]["traces"]:  # type: ignore[attr-defined]
        steps = np.frombuffer(base64.b64decode(text), "<i2").astype(float)
        decoded.append(np.where(steps == -32768, np.nan, middle + step * steps))
    return decoded


def test_sections_stand_in_order_and_the_navigation_leads_to_them(
    tmp_path: Path, run: IdentificationRun
) -> None:
    page = written(tmp_path, run)
    assert [a["id"] for tag, a in page.tags if tag == "section"] == SECTIONS
    targets = [a["href"] for tag, a in page.tags if tag == "a" and (a["href"] or "")[0] == "#"]
    assert targets[1:] == [f"#{name}" for name in SECTIONS]
    assert page.all("title")[:1] == page.all("h1") == ["Identification of chain"]
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_the_verdict_says_what_the_run_says(tmp_path: Path, run: IdentificationRun) -> None:
    page = written(tmp_path, run, title="Arm")
    assert page.all("h1") == ["Arm"]
    assert page.all("span", "grade") == [run.verdict.grade]
    assert page.all("p", "sentence")[0].lower() == run.verdict.summary.lower()
    verdict = page.of_id("verdict")
    for advice in run.verdict.advice:
        assert advice in verdict
    held_out, validation = run.scores[1], run.scores[2]
    tiles = page.all("dd", "value")
    assert float(tiles[0].split()[0]) == pytest.approx(
        100 * held_out.identified.moving.mean_relative_error, rel=0.06
    )
    assert float(tiles[2].split()[0]) == pytest.approx(
        100 * validation.prior.moving.mean_relative_error, rel=0.03
    )
    assert float(tiles[3].split()[0]) == pytest.approx(100 * validation.noise_floor_d_tau, rel=0.06)
    labels = run.identification.base_labels
    assert tiles[4] == f"{labels.count('identified')} of {len(labels)}"
    assert run.identification.unidentified() in verdict
    assert tiles[5] == ("consistent" if run.identification.consistent else "not consistent")


def test_an_inconsistent_link_is_marked(tmp_path: Path, run: IdentificationRun) -> None:
    theta = np.array(run.identification.theta)
    theta[0] = -1.0
    bad = replace(run, identification=replace(run.identification, theta=theta))
    page = written(tmp_path, bad)
    assert page.all("dd", "value")[5] == "not consistent"
    assert page.all("span", "state-inconsistent")[0] == "inconsistent"
    assert "the mass is -1 kg" in page.of_id("links")
    link = page.data["links"]["links"][0]  # type: ignore[index]
    assert link["state"] == "inconsistent"
    assert link["identified"] is None  # there is no ellipsoid of negative mass
    assert link["prior"] is not None


def test_only_its_own_style_and_script_can_run(tmp_path: Path, run: IdentificationRun) -> None:
    page = written(tmp_path, run)
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy
    for kind, text in (("style", page.all("style")[0]), ("script", page.all("script")[1])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert len(page.all("script")) == 2
    assert len(page.all("style")) == 1
    # Such attributes would be refused by the policy, and the page would look broken.
    assert not [a for _, a in page.tags if "style" in a or any(k.startswith("on") for k in a)]


def test_nothing_is_fetched(tmp_path: Path, run: IdentificationRun) -> None:
    page = written(tmp_path, run)
    for tag, attributes in page.tags:
        for name in ("src", "xlink:href", "srcset", "action", "data", "poster"):
            assert name not in attributes, tag
        target = attributes.get("href")
        assert target is None or target in ("data:,", "parameters.csv") or target[0] == "#"
    code = page.source.replace("http://www.w3.org/2000/svg", "").replace(page.of_id("data"), "")
    assert "//" not in re.sub(r"(^|\s)// .*", "", code)
    for call in (
        *("@import", "import(", "fetch(", "XMLHttpRequest", "WebSocket", "EventSource"),
        *("sendBeacon", "Image(", "Worker", "eval(", "Function(", "innerHTML", "document.write"),
    ):
        assert call not in page.source
    assert re.findall(r"url\((?!#)", page.source) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_stay_text(
    tmp_path: Path, make_run: Callable[..., IdentificationRun], text: str
) -> None:
    def page_of(word: str, folder: str) -> Page:
        (tmp_path / folder).mkdir()
        run = make_run((word, "elbow"), links=(word, "link2"), name=word, source=word, text=word)
        run = replace(run, verdict=replace(run.verdict, summary=word, advice=(word,)))
        return written(tmp_path / folder, run, title=word, command=word)

    benign, page = page_of("plain", "a"), page_of(text, "b")
    assert page.skeleton == benign.skeleton
    assert page.all("h1") == [text]
    assert page.all("p", "sentence") == [text[:1].upper() + text[1:]]
    assert text in page.all("p")
    assert page.of_id("command") == text
    assert text in page.all("option")
    assert page.all("script")[1:] == benign.all("script")[1:]
    assert page.all("style") == benign.all("style")
    assert page.data["torques"]["joints"] == [text, "elbow"]
    raw = page.source.split('id="data">')[1].split("</script>")[0]
    assert not set(raw) & set("<>&'")


@settings(max_examples=12, deadline=None)
@given(text=st.text("<>&\"'/!-={}%#; \\abcsript*", min_size=1, max_size=30))
def test_no_text_changes_the_structure(
    tmp_path_factory: pytest.TempPathFactory, run: IdentificationRun, text: str
) -> None:
    def page_of(word: str) -> Page:
        changed = replace(
            run,
            verdict=replace(run.verdict, summary=word, advice=(word,)),
            predictions=tuple(replace(p, source=word) for p in run.predictions),
            diagnoses=tuple(replace(d, source=word) for d in run.diagnoses),
        )
        return written(tmp_path_factory.mktemp("page"), changed, title=word, command=word)

    page = page_of(text)
    assert page.skeleton == page_of("plain").skeleton
    assert page.all("h1") == [text]
    assert page.of_id("command") == text


def test_a_name_that_utf8_cannot_hold(tmp_path: Path, run: IdentificationRun) -> None:
    assert written(tmp_path, run, title="joint \ud800").all("h1") == ["joint ?"]


def test_what_is_no_number_never_reaches_the_script(tmp_path: Path, run: IdentificationRun) -> None:
    first = run.predictions[0]
    broken = np.array(first.identified_filtered)
    broken[10:20], broken[30], broken[40] = np.nan, np.inf, 1e200
    prediction = replace(first, identified_filtered=broken, identified=broken)
    with np.errstate(all="ignore"):
        scores = (score([prediction]), *run.scores[1:])
    result = run.identification
    bad = replace(
        run,
        predictions=(prediction, *run.predictions[1:]),
        scores=scores,
        identification=replace(
            result,
            sigma=np.full_like(result.sigma, np.inf),
            covariance=np.full_like(result.covariance, np.nan),
            correlation_time=np.array([np.nan]),
            noise=np.full_like(result.noise, np.nan),
            provenance={**result.provenance, "odd": float("nan"), "path": Path("a/b")},
        ),
        diagnoses=tuple(replace(d, rate=float("nan")) for d in run.diagnoses),
    )
    page = written(tmp_path, bad)
    assert page.data["curves"]["residuals"] is not None
    entry = page.data["torques"]["recordings"][2]["joints"][0]  # type: ignore[index]
    curve = traces(page)[entry["identified"]]
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(curve)), [*range(10, 20), 30, 40])
    assert json.loads(page.of_id("configuration"))["odd"] is None
    for word in ("nan", "NaN", "inf ", "Infinity"):
        assert word not in " ".join(page.all("td") + page.all("dd"))


def test_curves_are_the_data(tmp_path: Path, run: IdentificationRun) -> None:
    page = written(tmp_path, run)
    recordings = page.data["torques"]["recordings"]
    assert [r["label"] for r in recordings] == [  # type: ignore[attr-defined]
        "Validation: other run.csv",
        "Held-out blocks: run.csv",
        "Training fit: run.csv",
    ]
    curves = traces(page)
    training = run.predictions[0]
    wanted = {
        "raw": training.raw,
        "measured": training.filtered,
        "identified": training.identified_filtered,
        "prior": training.prior_filtered,
        "residual": training.filtered - training.identified_filtered,
    }
    for j, entry in enumerate(recordings[2]["joints"]):  # type: ignore[index]
        for name, values in wanted.items():
            size = np.ptp(values[:, j])
            np.testing.assert_allclose(curves[entry[name]], values[:, j], atol=size / 65000)
    t = np.frombuffer(base64.b64decode(recordings[2]["time"]), "<f4")  # type: ignore[index]
    np.testing.assert_allclose(t, training.t - training.t[0], atol=1e-5)
    # The first joint stands for the first tenth, the other never for long.
    (first, last), *_ = recordings[2]["joints"][0]["still"]  # type: ignore[index]
    assert (first, last) == (0, 59)


def test_pieces_of_a_recording_belong_together(run: IdentificationRun) -> None:
    first = run.predictions[0]
    second = replace(first, t=first.t + 100.0)
    validation = run.predictions[2]
    groups = _group_recordings([first, second, validation])
    assert [(label, len(pieces)) for label, pieces in groups] == [
        ("Validation: other run.csv", 1),
        ("Training fit: run.csv", 2),
    ]


def test_group_recordings_the_same_name_are_told_apart(run: IdentificationRun) -> None:
    first = run.predictions[0]
    groups = _group_recordings([first, first, first])
    assert [label for label, _ in groups] == [
        "Training fit: run.csv",
        "Training fit: run.csv (2)",
        "Training fit: run.csv (3)",
    ]


def test_what_recordings_share_is_kept_once(tmp_path: Path, run: IdentificationRun) -> None:
    page = written(tmp_path, run)
    recordings = page.data["torques"]["recordings"]
    left_out, training = recordings[1]["joints"][0], recordings[2]["joints"][0]  # type: ignore[index]
    for name in ("raw", "measured", "prior"):
        assert left_out[name] == training[name]


def test_a_long_recording_makes_no_long_page(
    tmp_path: Path, run: IdentificationRun, rng: np.random.Generator
) -> None:
    n_t = 200_000
    t = np.arange(n_t) / 1000.0
    raw = rng.normal(size=(n_t, 2))
    raw[123_456, 1], raw[77, 1] = 50.0, -60.0
    long = [
        replace(
            p, t=t, raw=raw, filtered=raw, identified=0.9 * raw, prior=0.1 * raw,
            identified_filtered=0.9 * raw, prior_filtered=0.1 * raw, moving=np.ones((n_t, 2), bool)
        )
        for p in run.predictions
    ]  # fmt: skip
    scores = tuple(score([p]) for p in long)
    page = written(tmp_path, replace(run, predictions=tuple(long), scores=scores))
    assert len(page.source) < 700_000
    curves = traces(page)
    assert max(c.size for c in curves) <= 2000
    entry = page.data["torques"]["recordings"][0]["joints"][1]  # type: ignore[index]
    assert curves[entry["measured"]].max() == pytest.approx(50.0, abs=0.01)
    assert curves[entry["measured"]].min() == pytest.approx(-60.0, abs=0.01)


def test_thirty_joints(tmp_path: Path, make_run: Callable[..., IdentificationRun]) -> None:
    joints = tuple(f"joint{k}" for k in range(30))
    run = make_run(joints)
    page = written(tmp_path, run)
    assert len(page.source) < 4_000_000
    assert len(page.data["torques"]["recordings"][0]["joints"]) == 30  # type: ignore[index]
    options = page.all("option")
    assert options.count("joint29") == 2


def test_tables_hold_every_parameter(tmp_path: Path, run: IdentificationRun) -> None:
    page = written(tmp_path, run)
    result = run.identification
    names = page.all("b")
    for name in result.prior.layout.names:
        assert name in names
    rows = [a["class"] for tag, a in page.tags if tag == "tr" and a.get("class")]
    assert len(rows) == result.base.size + result.prior.layout.size
    assert rows.count("label-0") == result.base_labels.count("identified") + result.labels.count(
        "identified"
    )
    assert len(page.all("svg", "whisker")) == len(rows) + 2
    for combination in result.base.names:
        assert combination in names or combination in page.all("span", "combination")
    keys = [a["data-sort"] for _, a in page.tags if "data-sort" in a]
    assert all(np.isfinite(float(key or "")) for key in keys)


def test_findings_and_provenance(tmp_path: Path, run: IdentificationRun) -> None:
    page = written(tmp_path, run, command="bodysense identify arm.urdf run.csv")
    text = page.of_id("findings")
    for finding in run.diagnoses[0].findings:
        for word in (finding.kind, finding.where, finding.message, finding.action):
            assert word in text
    assert "600 of 605 samples kept" in text
    provenance = page.of_id("provenance")
    assert "ab" * 32 in provenance
    assert "cd" * 32 in provenance
    assert "no file behind it" in provenance
    assert json.loads(page.of_id("configuration"))["seed"] == 7
    assert page.of_id("command") == "bodysense identify arm.urdf run.csv"


def test_many_findings_are_cut_short(tmp_path: Path, run: IdentificationRun) -> None:
    diagnosis = replace(run.diagnoses[0], findings=run.diagnoses[0].findings * 50)
    page = written(tmp_path, replace(run, diagnoses=(diagnosis,)))
    assert "And 50 more" in page.of_id("findings")


def test_without_command_validation_or_choices(tmp_path: Path, run: IdentificationRun) -> None:
    bare = replace(
        run,
        validation=(),
        cutoff=None,
        friction=None,
        scores=run.scores[:1],
        predictions=run.predictions[:1],
        identification=replace(run.identification, provenance={}),
    )
    page = written(tmp_path, bare)
    assert "Command" not in page.all("h3")
    assert page.data["curves"]["cutoff"] is None
    assert "too short to leave blocks out" in page.all("dd", "remark")[0]


def test_tiles_and_headline_have_the_same_numbers(tmp_path: Path, run: IdentificationRun) -> None:
    page = written(tmp_path, run)
    values, sentence = page.all("dd", "value"), page.all("p", "sentence")[0]
    for value in values[:3]:
        assert value in sentence
    assert run.verdict.worst_joint in page.all("dd", "remark")[1]


@pytest.mark.parametrize("hold", [True, False])
def test_intervals_that_cannot_be_trusted_are_marked(
    hold: bool, tmp_path: Path, run: IdentificationRun
) -> None:
    run = replace(run, verdict=replace(run.verdict, intervals_hold=hold))
    text = written(tmp_path, run).of_id("parameters")
    assert ("95 % intervals cannot be trusted" in text) == (not hold)


def test_a_folder_that_is_not_there(tmp_path: Path, run: IdentificationRun) -> None:
    with pytest.raises(FileWriteError, match="does not exist"):
        write_identification_page(tmp_path / "nowhere" / "report.html", run)


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_stands_out_in_light_and_in_dark(tmp_path: Path, run: IdentificationRun) -> None:
    style = written(tmp_path, run).all("style")[0]
    light, dark = style.split("@media (prefers-color-scheme: dark)")[:2]
    grounds = {"good": "good-wash", "fair": "fair-wash", "poor": "poor-wash", "limit": "limit-wash"}
    grounds |= {"text": "ground", "faint": "ground", "prior": "panel", "identified": "note-wash"}
    for part in (light, dark.split("@media print")[0]):
        colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", part))
        for ink, paper in grounds.items():
            a, b = sorted((luminance(colours[ink]), luminance(colours[paper])))
            assert (b + 0.05) / (a + 0.05) >= 4.5, f"{ink} on {paper}"


def test_of_a_real_recording(tmp_path: Path, recordings: Path) -> None:
    from bodysense.identification.run import identify
    from bodysense.logs.read import read_log
    from bodysense.robot import load_robot

    layout = Path(__file__).parents[2] / "examples" / "layouts" / "ur10e.yaml"
    folder = recordings / "ur10e"
    logs = [
        read_log(folder / f"ur-20_02_{name}.csv", layout)
        for name in ("05-20sec_8harm", "10-30sec_12harm")
    ]
    robot = load_robot(folder / "ur10e.urdf")
    run = identify(robot, logs[:1], validate=logs[1:], method="wls")
    page = written(tmp_path, run)
    assert len(page.source) < 1_500_000
    assert page.all("span", "grade") == [run.verdict.grade]
    assert len(page.data["torques"]["recordings"]) == 3  # type: ignore[arg-type]
