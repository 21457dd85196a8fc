"""`Payload` and `DriveGains`: derived numbers, words, and files."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from bodysense.errors import FileReadError, MismatchError, ShapeError
from bodysense.identification.payload.drive_gains import DriveGains
from bodysense.identification.payload.parts import LoadPart
from bodysense.identification.payload.payload import Payload
from bodysense.robot import inverse_dynamics, with_payload
from bodysense.spatial.pseudo_inertia import inertia_at_com, pi_from_mass_com_inertia
from bodysense.status import Status

COM, INERTIA = np.array([0.1, -0.05, 0.2]), np.diag([0.02, 0.03, 0.015])


@pytest.fixture
def payload(rng) -> Payload:
    pi = pi_from_mass_com_inertia(2.0, COM, INERTIA)
    root = rng.normal(size=(10, 10)) * 1e-3
    return Payload(
        link="link4",
        pi=pi,
        covariance=root @ root.T,
        gain_covariance=np.outer(pi, pi) * 0.02**2,
        gain_uncertainty=0.02,
        parts=(
            LoadPart("first third", 1.9, 0.1),
            LoadPart("second third", 2.1, 0.2, (0.1, -0.05, 0.2), (0.01, 0.02, 0.03)),
            LoadPart("last third", np.nan, np.nan),
        ),
        losses=np.array([0.01, 0.02, 0.0, 0.0]),
        errors=(2.0, 1.1),
        status=Status(notes=("Look again.", "Twice.")),
        provenance={"robot": {"name": "arm"}},
    )


def test_centre_and_inertia(payload):
    np.testing.assert_allclose(payload.com, COM)
    np.testing.assert_allclose(payload.inertia, INERTIA, atol=1e-15)


def test_deviations_are_those_of_samples(payload, rng):
    samples = rng.multivariate_normal(payload.pi, payload.total_covariance, 40000)
    com = samples[:, 1:4] / samples[:, :1]
    np.testing.assert_allclose(payload.sigma_com, com.std(axis=0), rtol=0.03)
    np.testing.assert_allclose(
        payload.com_covariance, np.cov(com.T), atol=0.03 * np.max(payload.sigma_com) ** 2
    )
    inertia = inertia_at_com(samples)
    np.testing.assert_allclose(payload.sigma_inertia, inertia.std(axis=0), rtol=0.05)


def test_the_interval_of_the_mass(payload):
    low, high = payload.mass_interval()
    assert high - low == pytest.approx(2 * 1.959964 * payload.sigma_mass)
    assert payload.mass_interval(0.5)[1] < high
    wide = replace(payload, covariance=1e4 * np.eye(10))
    assert wide.mass_interval()[0] == 0.0


@pytest.mark.parametrize("level", [0.0, 1.0, np.nan, 95.0])
def test_a_level_that_cannot_be_meant(payload, level):
    with pytest.raises(ShapeError, match=r"level is .*between 0 and 1"):
        payload.mass_interval(level)


def test_the_robot_with_its_load(payload, arm, rng):
    held = payload.held_by(arm)
    q, v, a = rng.normal(size=(3, 5, 4))
    expected = with_payload(arm, 2.0, link="link4", com=COM, inertia=INERTIA)
    np.testing.assert_allclose(
        inverse_dynamics(held, q, v, a), inverse_dynamics(expected, q, v, a), atol=1e-10
    )


def test_a_load_in_words_and_json(payload):
    assert "link4 holds 2.000 kg (95 %: " in payload.summary()
    table = json.loads(json.dumps(payload.to_dict(), allow_nan=False))
    assert table["mass_of_parts"][1:] == [
        {
            "part": "second third",
            "mass_kg": 2.1,
            "mass_sigma_kg": 0.2,
            "com_m": [0.1, -0.05, 0.2],
            "com_sigma_m": [0.01, 0.02, 0.03],
        },
        {
            "part": "last third",
            "mass_kg": None,
            "mass_sigma_kg": None,
            "com_m": [None] * 3,
            "com_sigma_m": [None] * 3,
        },
    ]
    assert table["status"]["message"] == "Solved. Look again. Twice."
    assert table["mass_sigma_kg"] ** 2 == pytest.approx(
        table["mass_sigma_recordings_kg"] ** 2 + table["mass_sigma_gains_kg"] ** 2
    )


def test_a_load_is_saved_and_loaded(payload, tmp_path):
    payload.save(tmp_path)
    back = Payload.load(tmp_path)
    assert back.to_dict() == payload.to_dict()
    np.testing.assert_array_equal(back.pi, payload.pi)
    assert back.provenance == payload.provenance
    assert back.status == payload.status
    assert [str(part) for part in back.parts] == [str(part) for part in payload.parts]


def test_a_mass_below_zero(payload):
    negative = replace(payload, pi=-payload.pi)
    assert negative.mass_interval() == (0.0, 0.0)
    low, high = replace(negative, covariance=4.0 * np.eye(10)).mass_interval()
    assert low == 0.0 < high


@pytest.mark.parametrize(
    "changes",
    [
        {"pi": np.zeros(10)},
        {"covariance": np.full((10, 10), np.nan)},
        {"errors": (np.nan, np.inf)},
        {"losses": np.array([np.nan, 0.0])},
    ],
)
def test_what_is_not_known_is_null_in_json(payload, changes, tmp_path):
    strange = replace(payload, **changes)
    text = json.dumps(strange.to_dict(), allow_nan=False)
    others = {key: x for key, x in strange.to_dict().items() if key != "mass_of_parts"}
    assert "null" in json.dumps(others)
    strange.save(tmp_path)
    assert json.dumps(Payload.load(tmp_path).to_dict()) == text


def test_damaged_files_of_a_load(payload, tmp_path):
    payload.save(tmp_path)
    table = json.loads((tmp_path / "payload.json").read_text())
    (tmp_path / "payload.json").write_text(json.dumps({**table, "status": 3}))
    with pytest.raises(FileReadError, match="are damaged"):
        Payload.load(tmp_path)


@pytest.fixture
def gains() -> DriveGains:
    return DriveGains(
        joints=("one", "two"),
        factors=np.array([1.02, 0.95]),
        sigma=np.array([0.01, 0.02]),
        nominal=np.array([10.0, -4.0]),
        load_mass=2.8,
        link="tool",
        load_before=2.7,
        load_after=np.array([2.79, np.nan, 2.81]),
        block_uncertainty=0.03,
        total_least_squares=np.array([1.01, 0.96]),
        without_losses=np.array([1.05, 0.93]),
        errors_before=np.array([0.05, 0.06]),
        errors_after=np.array([0.04, 0.06]),
        losses=np.array([0.05, 0.0]),
        status=Status(notes=("Look again.", "Twice.")),
        provenance={"robot": {"name": "arm"}},
    )


def test_gains_and_their_deviations(gains):
    np.testing.assert_allclose(gains.gains, [10.2, -3.8])
    np.testing.assert_allclose(gains.sigma_gains, [0.1, 0.08])
    assert gains.model_sensitivity == pytest.approx(1.05 / 1.02 - 1.0)


def test_the_line_for_the_layout_file(gains):
    assert gains.layout_line() == "gain: [10.2, -3.8]"
    assert gains.layout_line(("two", "one")) == "gain: [-3.8, 10.2]"
    assert gains.layout_line(("two", "three", "one")) == "gain: [-3.8, 1, 10.2]"
    others = {"three": 7.0, "one": 3.0}
    assert gains.layout_line(("two", "three", "one"), others) == "gain: [-3.8, 7, 10.2]"


def test_a_layout_file_that_lacks_a_joint(gains):
    with pytest.raises(MismatchError, match="the layout has no one, only two: give the layout"):
        gains.layout_line(("two",))


def test_what_gains_leave_open_for_loads(gains):
    noise, model = np.median([0.01 / 1.02, 0.02 / 0.95]), 1.05 / 1.02 - 1.0
    assert gains.gain_uncertainty == 0.03
    assert replace(gains, block_uncertainty=0.0).gain_uncertainty == pytest.approx(noise)
    short = replace(gains, block_uncertainty=float("nan"))
    assert short.gain_uncertainty == pytest.approx(np.hypot(noise, model))
    sure = replace(gains, sigma=1e-4 * gains.sigma, block_uncertainty=0.001)
    assert sure.gain_uncertainty == 0.01


def test_a_status_in_words():
    assert (Status().ok, Status().message) == (True, "Solved.")
    failed = Status.failed("It broke.", ("Mend it.",))
    assert (failed.ok, failed.summary()) == (False, "It broke. Mend it.")
    assert Status.from_dict(json.loads(json.dumps(failed.to_dict()))) == failed


def test_gains_are_saved_and_loaded(gains, tmp_path):
    gains.save(tmp_path)
    back = DriveGains.load(tmp_path)
    assert json.dumps(back.to_dict(), allow_nan=False) == json.dumps(gains.to_dict())
    np.testing.assert_array_equal(back.load_after, gains.load_after)


def test_damaged_files_of_gains(gains, tmp_path):
    gains.save(tmp_path)
    text = (tmp_path / "drive_gains.json").read_text().replace('"two"', '"two", "three"')
    (tmp_path / "drive_gains.json").write_text(text)
    with pytest.raises(FileReadError, match="are damaged"):
        DriveGains.load(tmp_path)
