"""The reports of a load and of drive gains: complete, escaped, and true to their results."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pinocchio as pin
import pytest

from bodysense.doctor import Diagnosis, Finding
from bodysense.errors import FileWriteError
from bodysense.identification.payload.drive_gains import DriveGains
from bodysense.identification.payload.experiment import LoadExperiment
from bodysense.identification.payload.loaded_regression import LoadedRegression
from bodysense.identification.payload.parts import LoadPart
from bodysense.identification.payload.payload import Payload
from bodysense.identification.preprocessing import Motion, Preprocessing
from bodysense.report.load_page import write_gains_page, write_payload_page
from bodysense.robot import Friction, Robot, inverse_dynamics, with_payload
from bodysense.spatial import random_pi
from bodysense.spatial.pseudo_inertia import pi_from_mass_com_inertia
from bodysense.status import Status

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><style>*{color:red}</style>",
    "{{ 7 * 7 }}{% raw %}",
    "关节 ½ \U0001f916",
]
PAYLOAD_SECTIONS = ["verdict", "mass", "body", "losses", "findings", "provenance"]
GAIN_SECTIONS = ["verdict", "gains", "load", "losses", "findings", "provenance"]
VOID = {"meta", "link", "input", "br"}


class Page(HTMLParser):
    """Tags with their attributes, and the text inside each."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[tuple[str, int]] = []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
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
        pairs = zip(self.tags, self.texts, strict=True)
        return [
            text
            for (name, attributes), text in pairs
            if name == tag and (not class_ or class_ in (attributes.get("class") or "").split())
        ]

    def of_id(self, id_: str) -> str:
        pairs = zip(self.tags, self.texts, strict=True)
        return next(text for (_, a), text in pairs if a.get("id") == id_)

    def attributes(self, tag: str, class_: str) -> list[dict[str, str | None]]:
        return [a for name, a in self.tags if name == tag and a.get("class") == class_]


def made_experiment(
    names: tuple[str, str] = ("shoulder", "elbow"), text: str = "seen"
) -> LoadExperiment:
    """Two joints, with and without a load."""
    rng = np.random.default_rng(3)
    model = pin.Model()
    model.name = text
    for k, kind in enumerate((pin.JointModelRZ, pin.JointModelRY)):
        joint = model.addJoint(k, kind(), pin.SE3(np.eye(3), np.array([0.3, 0.0, 0.0])), names[k])
        pi = random_pi(rng, 1)[0]
        model.appendBodyToJoint(joint, pin.Inertia.FromDynamicParameters(pi), pin.SE3.Identity())
        model.addBodyFrame(f"link{k}", joint, pin.SE3.Identity(), model.addJointFrame(joint))
    robot = Robot.from_pinocchio(
        model,
        friction=Friction.from_model("coulomb", 2, width=0.02),
        coefficients={"Fv": [1.0, 2.0], "Fc": [2.0, 1.0]},
    )
    t = np.arange(300) / 100.0
    motions = []
    for log, arm in enumerate((robot, with_payload(robot, 2.0, com=(0.1, 0.0, 0.2)))):
        w, phase = rng.uniform(1.0, 5.0, (3, 2)), rng.uniform(0.0, 6.0, (3, 2))
        angle = t[:, None, None] * w + phase
        q, v = np.sin(angle).sum(axis=1), (w * np.cos(angle)).sum(axis=1)
        a = -(w**2 * np.sin(angle)).sum(axis=1)
        tau = inverse_dynamics(arm, q, v, a) + rng.normal(scale=0.05, size=q.shape)
        motions.append(Motion(t, q, v, a, tau, tau, 100.0, log))
    settings = Preprocessing(cutoff=1e6, band=1e6, border=0.0, still_speed=0.0, decimate=False)
    problem = LoadedRegression.of_logs(
        robot, motions, settings, loaded=frozenset({1}), load_to_link=np.eye(10), link=1
    )
    finding = Finding("garbage-rows", "note", text, f"{text} in rows", f"{text} left out")
    diagnoses = [
        Diagnosis(f"{role} {text}.csv", "ab", names, (finding,), (), (), 305, 100.0)
        for role in ("empty", "full")
    ]
    return LoadExperiment.of(problem, "link1", diagnoses[1:], diagnoses[:1])


@pytest.fixture(scope="module")
def experiment() -> LoadExperiment:
    return made_experiment()


ORIGIN = {
    "versions": {"bodysense": "0.0"},
    "robot": {"name": "arm", "file": "arm.urdf", "sha256": "ab" * 32},
    "loaded": [{"source": "full.csv", "sha256": "cd" * 32}],
    "unloaded": [{"source": "empty.csv", "sha256": ""}],
}


@pytest.fixture
def payload() -> Payload:
    pi = pi_from_mass_com_inertia(2.0, [0.1, -0.05, 0.2], np.diag([0.02, 0.03, 0.015]))
    return Payload(
        link="link1",
        pi=pi,
        covariance=np.diag((0.01 * np.abs(pi).max() * np.ones(10)) ** 2),
        gain_covariance=np.outer(pi, pi) * 0.03**2,
        gain_uncertainty=0.03,
        parts=(
            LoadPart("first third", 1.95, 0.03),
            LoadPart("second third", np.nan, np.nan),
            LoadPart("a-recording-with-a-very-long-name.csv", 2.04, 0.02),
        ),
        losses=np.array([0.05, 0.02]),
        errors=(2.0, 1.1),
        status=Status(),
        provenance=ORIGIN,
    )


@pytest.fixture
def gains() -> DriveGains:
    return DriveGains(
        joints=("shoulder", "elbow"),
        factors=np.array([1.02, 0.95]),
        sigma=np.array([0.01, 0.02]),
        nominal=np.array([10.0, 4.0]),
        load_mass=2.8,
        link="link1",
        load_before=2.7,
        load_after=np.array([2.79, np.nan, 2.83]),
        block_uncertainty=0.03,
        total_least_squares=np.array([1.01, 0.96]),
        without_losses=np.array([1.05, 0.93]),
        errors_before=np.array([0.05, 0.06]),
        errors_after=np.array([0.04, 0.065]),
        losses=np.array([0.05, 0.0]),
        status=Status(),
        provenance=ORIGIN,
    )


@pytest.fixture
def written(tmp_path, experiment) -> Callable[..., Page]:
    """Write the page of a result and take it apart."""

    def write(
        result: Payload | DriveGains, of: LoadExperiment = experiment, **options: str
    ) -> Page:
        file = tmp_path / "report.html"
        if isinstance(result, Payload):
            write_payload_page(file, result, of, **options)
        else:
            write_gains_page(file, result, of, **options)
        assert os.listdir(tmp_path) == ["report.html"]
        return Page(file.read_text(encoding="utf-8"))

    return write


@pytest.fixture(params=["payload", "gains"])
def result(request) -> Payload | DriveGains:
    return request.getfixturevalue(request.param)


def test_sections_stand_in_order_and_the_navigation_leads_to_them(written, result):
    page = written(result)
    sections = PAYLOAD_SECTIONS if isinstance(result, Payload) else GAIN_SECTIONS
    assert [a["id"] for tag, a in page.tags if tag == "section"] == sections
    links = [a["href"] for tag, a in page.tags if tag == "a"]
    assert links[1:] == [f"#{name}" for name in sections]
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_nothing_is_fetched_and_nothing_else_can_run(written, result, tmp_path):
    page = written(result)
    source = (tmp_path / "report.html").read_text(encoding="utf-8")
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv"))
    assert policy is not None
    for name in ("style", "script"):
        text = re.findall(rf"<{name}>(.*?)</{name}>", source, re.DOTALL)
        assert len(text) == 1
        digest = base64.b64encode(hashlib.sha256(text[0].encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert not any("style" in a or any(key.startswith("on") for key in a) for _, a in page.tags)
    assert not re.search(r"(?:src|href)=\"(?!#|data:,)", source)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_do_no_harm(written, result, text):
    plain = written(result, made_experiment(("a", "b"), "c"), title="t", command="u")
    hostile = made_experiment((text, f"{text}2"), text)
    changed = replace(result, link=text, status=Status(notes=(text,)))
    page = written(changed, hostile, title=text, command=text)
    assert page.all("h1") == [text]
    assert text in page.of_id("findings")
    assert text in page.of_id("command")
    assert page.all("script")[0] == plain.all("script")[0]
    known = {tag for tag, _ in plain.tags}
    assert {tag for tag, _ in page.tags} - known <= {"ol", "li"}  # of the advice


def test_a_load_and_its_interval(written, payload):
    page = written(payload, command="bodysense identify")
    assert page.all("h1") == ["Payload of seen"]
    low, high = payload.mass_interval()
    tiles = page.all("dd", "value")
    assert tiles[0] == "2.000 kg"
    assert f"95 %: {low:.3f} to {high:.3f} kg" in page.of_id("verdict")
    assert tiles[1] == f"± {1.96 * payload.sigma_mass_data:.3f} kg"
    assert tiles[2] == f"± {1.96 * 0.06:.3f} kg"
    mass = page.of_id("mass")
    assert "first third: 1.950 kg" in mass
    assert "second third: " not in mass
    assert "…th-a-very-long-name.csv: 2.040 kg" in mass
    assert "a-recording-with-a-very-long-name.csv" in mass
    assert "drive gains that may be off by 3 %" in mass
    assert page.all("span", "grade") == ["good"]
    assert "bodysense identify" in page.of_id("provenance")
    assert "cd" * 32 in page.of_id("provenance")


def test_the_interval_is_drawn_to_scale(written, payload):
    page = written(payload)
    (total,) = page.attributes("rect", "total")
    (noise,) = page.attributes("rect", "noise")
    ratio = float(noise["width"] or 0) / float(total["width"] or 1)
    assert ratio == pytest.approx(payload.sigma_mass_data / payload.sigma_mass, abs=0.01)


def test_the_centre_stands_where_it_is(written, payload):
    """In each view, its offset from the origin of the frame is to the scale of the ticks."""
    page = written(payload)
    centres = page.attributes("circle", "centre")
    arms = page.attributes("path", "arm")
    assert len(centres) == len(arms) == 3
    for (a, b), centre, arm in zip(((0, 1), (0, 2), (1, 2)), centres, arms, strict=True):
        x0, y0 = map(float, re.findall(r"M([\d.]+),([\d.]+)L", arm["d"] or "")[0])
        x = float(centre["cx"] or 0) - x0, y0 - float(centre["cy"] or 0)  # up is less
        assert x[0] * payload.com[b] == pytest.approx(x[1] * payload.com[a], abs=0.03)
        assert np.sign(x[0]) == np.sign(payload.com[a])


def test_error_ellipses_are_those_of_the_covariance(written, payload):
    """Semi-axes in proportion to the roots of the covariance's eigenvalues."""
    page = written(payload)
    for (a, b), ellipse in zip(
        ((0, 1), (0, 2), (1, 2)), page.attributes("ellipse", "error"), strict=True
    ):
        values = np.linalg.eigvalsh(payload.com_covariance[np.ix_([a, b], [a, b])])
        ratio = float(ellipse["ry"] or 0) / float(ellipse["rx"] or 1)
        assert ratio == pytest.approx(np.sqrt(values[0] / values[1]), abs=0.01)


def test_losses_of_each_joint(written, payload, experiment):
    page = written(payload)
    losses = page.of_id("losses")
    for joint in experiment.robot.joint_names:
        assert joint in losses
    kept = experiment.problem.n_losses > 0
    assert ("losses do not make them smaller, and are left out" in losses) is not kept
    assert ("5.0 %" in losses) is kept


def test_a_load_that_is_not_there(written, payload):
    page = written(replace(payload, status=Status.failed("No load is visible: 0 kg.")))
    assert page.all("span", "grade") == ["failed"]
    assert page.all("p", "sentence") == ["No load is visible: 0 kg."]
    assert "Most of the interval comes from the drive gains" not in page.of_id("verdict")
    assert page.all("dd", "value") == []
    sections = [name for name in PAYLOAD_SECTIONS if name != "body"]
    assert [a["id"] for tag, a in page.tags if tag == "section"] == sections


def test_a_mass_is_not_drawn_below_zero(written, payload):
    parts = (LoadPart("first third", -2.6, 0.1), LoadPart("last third", 2.0, 0.1))
    page = written(replace(payload, parts=parts))
    mass = page.of_id("mass")
    assert re.search(r"^0\.0$", mass, re.MULTILINE)  # the first tick
    assert not re.search("^\N{MINUS SIGN}", mass, re.MULTILINE)


def test_the_centre_from_each_part(written, payload):
    part = LoadPart("first third", 1.95, 0.03, (0.1, -0.05, 0.2), (0.001, 0.002, 0.003))
    page = written(replace(payload, parts=(part,)))
    assert "(100.0 ± 1.0, -50.0 ± 2.0, 200.0 ± 3.0) mm" in page.of_id("mass")


def test_an_arm_that_was_taken_from_its_file(written, payload, experiment):
    page = written(payload, replace(experiment, unloaded=()))
    assert "with the arm as its file describes it" in page.all("p", "sentence")[0]


def test_gains_of_no_use_are_not_to_be_pasted(written, gains):
    page = written(replace(gains, status=Status.failed("Torques are predicted worse.")))
    assert page.all("span", "grade") == ["failed"]
    assert "Write the gains into" not in page.of_id("verdict")
    assert not any(a.get("id") == "gain-line" for _, a in page.tags)


def test_what_the_status_notes_is_advice(written, payload):
    page = written(replace(payload, status=Status(notes=("The mass is known to 12 % only.",))))
    assert page.all("span", "grade") == ["fair"]
    assert "The mass is known to 12 % only." in page.of_id("verdict")


def test_warnings_of_the_doctor_are_advice(written, payload, experiment):
    warned = replace(experiment.loaded[0], findings=(Finding("gap", "warning", "t", "a", "b"),))
    page = written(payload, replace(experiment, loaded=(warned,)))
    assert page.all("span", "grade") == ["fair"]
    assert "full seen.csv, t: a; b." in page.of_id("verdict")


def test_findings_of_every_recording(written, result):
    findings = written(result).of_id("findings")
    for words in ("with the load", "full seen.csv", "without it", "empty seen.csv", "garbage-rows"):
        assert words in findings


def test_gains_in_numbers_and_words(written, gains):
    page = written(gains)
    assert page.all("h1") == ["Drive gains of seen"]
    assert page.of_id("gain-line") == "gain: [10.2, 3.8]"
    table = page.of_id("gains")
    for words in ("10.20", "3.800", "1 % more load makes every gain 1 % larger", "5.0 %", "6.5 %"):
        assert words in table
    assert f"up to {100 * gains.model_sensitivity:.1f} %" in table
    load = page.of_id("load")
    assert "2.790 kg" in load
    assert "blocks 2: 2.830 kg" in load
    assert page.all("dd", "value")[:2] == ["2.8 kg", "2.700 kg"]


def test_what_gains_leave_open_is_advised(written, gains):
    verdict = written(gains).of_id("verdict")
    assert f"--gain-uncertainty {gains.gain_uncertainty:.2g}" in verdict
    assert "for the load as given" in verdict


def test_a_load_without_mass_is_shown(written, payload):
    page = written(replace(payload, pi=np.zeros(10), status=Status.failed("No load is visible.")))
    assert page.all("span", "grade") == ["failed"]
    assert page.attributes("circle", "centre") == []


def test_gains_are_drawn_to_scale(written, gains):
    page = written(gains)
    dots = [float(a["cx"] or 0) for a in page.attributes("circle", "value")]
    (one,) = {a["d"] for a in page.attributes("path", "zero")}
    nominal = float((one or "").removeprefix("M").split(",")[0])
    assert (dots[0] - nominal) / (nominal - dots[1]) == pytest.approx(0.02 / 0.05, abs=0.01)


def test_a_line_for_another_file(written, gains):
    page = written(gains, line="drive_gain: {elbow: 3}")
    assert page.of_id("gain-line") == "drive_gain: {elbow: 3}"


def test_gains_without_losses(written, gains):
    page = written(replace(gains, losses=np.zeros(2), without_losses=gains.factors))
    assert "Friction that grows with the load was not observed" in page.of_id("gains")


def test_a_folder_that_is_missing(payload, experiment, tmp_path):
    with pytest.raises(FileWriteError, match="does not exist"):
        write_payload_page(tmp_path / "no" / "report.html", payload, experiment)
