from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bodysense.errors import BodysenseError, MismatchError, RobotFileError, UnknownNameError
from bodysense.robot.io.actuator_file import parse_actuation, with_actuator_file
from bodysense.robot.io.load import load_robot
from bodysense.schema import read_yaml

JOINTS = ("shoulder", "elbow", "wrist")

FULL = yaml.safe_load("""
gear_ratio: [50, -40, 30]
drive_gain: {shoulder: 12.5, elbow: 6}
rotor_inertia: {elbow: 0.2}
coupling:
  - {ratio: 0.5, joint: elbow, motor: wrist}
coupled_terms: {Fvm: 0.1, Fcm: {wrist: 0.5}}
friction:
  model: stribeck
  coefficients: {Fv: 0.1, Fc: [1.0, 0.5, 0.25], Fs: {elbow: 0.7}}
  shape: {width: 0.01, vs: [0.1, 0.2, 0.3]}
controller: {kp: 100, kd: {shoulder: 1, elbow: 2, wrist: 3}, ki: {wrist: 4}, rate: 1e3}
acceleration_limit: {shoulder: 10}
""")


def test_every_key_lands_where_it_belongs():
    found = parse_actuation(FULL, JOINTS, "here")
    assert found.actuators.gear_ratio.tolist() == [50, -40, 30]
    assert found.actuators.drive_gain.tolist() == [12.5, 6, 1]
    assert found.actuators.coupling.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0.5, 1]]
    assert found.actuators.coupled == (("Fvm", 2), ("Fcm", 2))
    assert {k: v.tolist() for k, v in found.coefficients.items()} == {
        "Ia": [0, 0.2, 0],
        "Fv": [0.1, 0.1, 0.1],
        "Fc": [1.0, 0.5, 0.25],
        "Fs": [0, 0.7, 0],
        "Fvm": [0.1],
        "Fcm": [0.5],
    }
    assert found.friction.model.name == "stribeck"
    assert found.friction.shape.tolist() == [[0.01, 0.1, 2], [0.01, 0.2, 2], [0.01, 0.3, 2]]
    assert found.controller is not None
    assert found.controller.kd.tolist() == [1, 2, 3]
    assert found.controller.ki.tolist() == [0, 0, 4]
    assert found.controller.rate == 1000.0
    assert found.acceleration_limit.tolist() == [10, np.inf, np.inf]


def test_a_matrix_and_its_entries_give_the_same_coupling():
    matrix = {"coupling": [[1, 0, 0], [0, 1, 0], [0, 0.5, 1]], "coupled_terms": ["Iam"]}
    found = parse_actuation(matrix, JOINTS, "here")
    assert found.actuators.coupling.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0.5, 1]]
    assert found.actuators.coupled == (("Iam", 2),)


@pytest.mark.parametrize("empty", [None, {}])
def test_an_empty_section_is_direct_drives_without_friction(empty):
    found = parse_actuation(empty, JOINTS, "here")
    assert found.actuators.gear_ratio.tolist() == [1, 1, 1]
    assert found.friction.model.name == "coulomb"
    assert {k: v.tolist() for k, v in found.coefficients.items()} == {
        "Ia": [0, 0, 0],
        "Fv": [0, 0, 0],
        "Fc": [0, 0, 0],
    }
    assert found.controller is None
    assert np.isinf(found.acceleration_limit).all()


def test_what_the_file_leaves_out_keeps_the_known_value():
    known = {"Ia": [1, 2, 3], "Fv": [4, 5, 6], "Fc": 7.0, "Fo": 8.0}
    table = {"rotor_inertia": {"elbow": 9}, "friction": {"coefficients": {"Fv": {"wrist": 9}}}}
    found = parse_actuation(table, JOINTS, "here", own=known)
    assert {k: v.tolist() for k, v in found.coefficients.items()} == {
        "Ia": [1, 9, 3],
        "Fv": [4, 5, 9],
        "Fc": [7, 7, 7],
    }


def test_a_wanted_law_keeps_what_it_shares_with_the_file():
    found = parse_actuation(FULL, JOINTS, "here", friction="offset")
    assert found.friction.model.name == "offset"
    assert found.friction.shape.tolist() == [[0.01], [0.01], [0.01]]
    assert found.coefficients["Fc"].tolist() == [1.0, 0.5, 0.25]
    assert found.coefficients["Fo"].tolist() == [0, 0, 0]
    assert "Fs" not in found.coefficients


def test_arrays_cannot_be_written_to():
    found = parse_actuation(FULL, JOINTS, "here")
    with pytest.raises(ValueError, match="read-only"):
        found.coefficients["Ia"][0] = 1.0


BAD = {
    "unknown key": ({"gear_ration": 5}, UnknownNameError, "'gear_ratio'"),
    "joint of another robot": ({"gear_ratio": {"hip": 5}}, MismatchError, "'hip'.*another robot"),
    "wrong length": ({"drive_gain": [1, 2]}, MismatchError, "drive_gain: 2 values for 3 joints"),
    "NaN": ({"drive_gain": float("nan")}, RobotFileError, "drive_gain: expected a finite number"),
    "infinite in a list": (
        {"gear_ratio": [1, 1, float("inf")]},
        RobotFileError,
        "wrist: expected a finite number, got inf",
    ),
    "truth value": ({"gear_ratio": True}, RobotFileError, "expected a finite number, got True"),
    "text": ({"gear_ratio": "fast"}, RobotFileError, "expected a finite number, got 'fast'"),
    "zero ratio": ({"gear_ratio": 0}, BodysenseError, "here: gear_ratio .* zero"),
    "negative rotor": ({"rotor_inertia": [0, -1, 0]}, RobotFileError, "'elbow' has -1"),
    "no acceleration": ({"acceleration_limit": 0}, RobotFileError, "give a positive number"),
    "friction is a word": ({"friction": "coulomb"}, RobotFileError, "expected a mapping"),
    "unknown law": ({"friction": {"model": "culomb"}}, UnknownNameError, "'coulomb'"),
    "law is a number": ({"friction": {"model": 3}}, RobotFileError, "3 is not a name"),
    "term of another law": (
        {"friction": {"coefficients": {"Fs": 1}}},
        UnknownNameError,
        "'Fs'.*Fv, Fc",
    ),
    "shape of another law": ({"friction": {"shape": {"vs": 1}}}, UnknownNameError, "'vs'.*width"),
    "negative width": ({"friction": {"shape": {"width": -1}}}, BodysenseError, "here: width"),
    "coupling is a number": ({"coupling": 1}, RobotFileError, "neither a matrix nor a list"),
    "too few rows": ({"coupling": [[1, 0, 0]]}, RobotFileError, "1 rows for 3 joints"),
    "short row": ({"coupling": [[1, 0]] * 3}, MismatchError, "row 1: 2 values"),
    "diagonal": ({"coupling": [[2, 0, 0], [0, 1, 0], [0, 0, 1]]}, BodysenseError, "diagonal"),
    "singular": ({"coupling": [[1, 1, 0], [1, 1, 0], [0, 0, 1]]}, BodysenseError, "singular"),
    "entry without ratio": (
        {"coupling": [{"motor": "wrist", "joint": "elbow"}]},
        RobotFileError,
        "entry 1: ratio missing",
    ),
    "entry of another robot": (
        {"coupling": [{"motor": "hip", "joint": "elbow", "ratio": 1}]},
        UnknownNameError,
        "unknown joint 'hip'.*entry 1, motor",
    ),
    "motor on its own joint": (
        {"coupling": [{"motor": "elbow", "joint": "elbow", "ratio": 1}]},
        RobotFileError,
        "moves that joint anyway",
    ),
    "entry twice": (
        {"coupling": [{"motor": "wrist", "joint": "elbow", "ratio": 1}] * 2},
        RobotFileError,
        "entry 2: .* earlier entry",
    ),
    "coupled terms without coupling": (
        {"coupled_terms": {"Fvm": 1}},
        RobotFileError,
        "add `coupling`",
    ),
    "unknown coupled term": ({"coupled_terms": ["Fvn"]}, UnknownNameError, "'Fvm'"),
    "coupled terms no list": ({"coupled_terms": 3}, RobotFileError, "expected a list of names"),
    "controller without rate": (
        {"controller": {"kp": 1, "kd": 1}},
        RobotFileError,
        "controller: rate missing",
    ),
    "controller without a joint": (
        {"controller": {"kp": {"elbow": 1}, "kd": 1, "rate": 1}},
        RobotFileError,
        "kp: shoulder, wrist missing",
    ),
    "rate zero": ({"controller": {"kp": 1, "kd": 1, "rate": 0}}, BodysenseError, "positive"),
}


@pytest.mark.parametrize(("table", "kind", "message"), BAD.values(), ids=BAD.keys())
def test_bad_tables_are_named_with_a_remedy(table, kind, message):
    with pytest.raises(kind, match=message) as caught:
        parse_actuation(table, JOINTS, "here")
    assert "here" in str(caught.value)


@given(st.data())
def test_any_value_in_any_place_gives_a_table_or_a_named_error(data):
    junk = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=4,
    )
    table = copy.deepcopy(FULL)
    place = table
    key = data.draw(st.sampled_from(sorted(place)))
    while isinstance(place[key], dict) and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place)))
    place[key] = data.draw(junk)
    message = ""
    try:
        found = parse_actuation(table, JOINTS, "here")
    except BodysenseError as error:
        message = str(error)
    if message:
        assert "here" in message
    else:
        assert all(np.isfinite(value).all() for value in found.coefficients.values())


def test_a_file_is_read(tmp_path: Path):
    path = tmp_path / "drives.yaml"
    path.write_text(yaml.safe_dump(FULL))
    found = parse_actuation(read_yaml(path), JOINTS, str(path))
    assert found.actuators.gear_ratio.tolist() == [50, -40, 30]


BAD_FILES = {
    "empty": (b" \n", "is empty"),
    "list": (b"[1, 2]", "holds a list"),
    "number as key": (b"1: 2", "names as keys"),
    "broken": (b"gear_ratio: [1, 2\nfriction: 3", "line 2, column"),
    "key twice": (b"gear_ratio: 1\ngear_ratio: 2\n", "line 2: the key 'gear_ratio' occurs twice"),
    "code": (b"gear_ratio: !!python/object/apply:os.getcwd []", "could not determine a constr"),
    "not text": (b"\xff\xfe\x00", "not valid YAML"),
    "control characters": (b"gear_ratio: \x07", "not valid YAML"),
    "too deep": (b"a: " + b"[" * 5000, "line 1: brackets are nested deeper than 50 levels"),
    "loop": (b"gear_ratio: &a [*a]", "the alias"),
    "bad date": (b"gear_ratio: 2020-99-99", "not valid YAML"),
}


@pytest.mark.parametrize(("content", "message"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_files_are_named_with_the_reason(content, message, tmp_path: Path):
    path = tmp_path / "drives.yaml"
    path.write_bytes(content)
    with pytest.raises(BodysenseError, match=message) as caught:
        with_actuator_file(load_robot("tx40"), path)
    assert "drives.yaml" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(RobotFileError, match=r"drives\.yaml.*check the path"):
        with_actuator_file(load_robot("tx40"), tmp_path / "drives.yaml")
