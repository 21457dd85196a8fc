from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from bodysense.errors import FileReadError, ShapeError
from bodysense.identification import Identification, Iteration, Status
from bodysense.identification.identification import positive_parameters
from bodysense.robot import Robot, base_parameters, load_robot


@pytest.fixture(scope="module")
def robot() -> Robot:
    return load_robot("tx40-coupled")


@pytest.fixture(scope="module")
def found(robot) -> Identification:
    rng = np.random.default_rng(0)
    base = base_parameters(robot)
    p, b = robot.layout.size, base.size
    A = rng.normal(size=(b, b))
    return Identification(
        method="wls",
        prior=robot,
        base=base,
        theta=robot.theta * 1.01,
        covariance=A @ A.T,
        sigma=rng.uniform(0.1, 1.0, p),
        resolution=np.linspace(0.0, 1.0, p),
        base_resolution=np.linspace(0.0, 1.0, b),
        noise=rng.uniform(0.1, 1.0, (2, 6)),
        correlation_time=np.array([0.1, 0.2]),
        status=Status(True, "Solved."),
        trace=(Iteration(2.0, 0.5), Iteration(1.0, 1e-4)),
        provenance={"seed": 3, "logs": ["Größe"], "none": None},
    )


@pytest.fixture
def saved(found, tmp_path) -> Path:
    found.save(tmp_path / "result")
    return tmp_path / "result"


def edit(folder: Path, **changes: object) -> None:
    path = folder / "identification.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# -- what follows from the arrays -------------------------------------------------------------


def test_labels_follow_from_resolutions(found):
    layout = found.prior.layout
    expected = {
        ("Fv1", 0.0): "not identifiable",
        ("Fv2", 0.0099): "not identifiable",
        ("Fv3", 0.011): "driven by the prior",
        ("Fv4", 0.89): "driven by the prior",
        ("Fv5", 0.91): "identified",
        ("Fv6", 1.0): "identified",
        # It shows only within ZZ1 + YY2 + …: the data cannot know it by itself.
        ("ZZ1", 1.0): "driven by the prior",
        ("M1", 0.0): "not identifiable",
    }
    shares = np.zeros_like(found.resolution)
    for name, share in expected:
        shares[layout.index(name)] = share
    labels = replace(found, resolution=shares).labels
    assert {key: labels[layout.index(key[0])] for key in expected} == expected
    assert set(found.base_labels) == {"identified", "driven by the prior", "not identifiable"}
    assert found.base_labels[0] == "not identifiable"
    assert found.base_labels[-1] == "identified"


def test_base_parameters_and_intervals(found):
    np.testing.assert_allclose(found.theta_base, found.base.mapping @ found.theta)
    sigma = np.sqrt(np.diag(found.covariance))
    np.testing.assert_allclose(found.sigma_base, sigma)
    lower, upper = found.interval()
    reach = norm.ppf(0.975) * sigma
    np.testing.assert_allclose(lower, found.theta_base - reach, rtol=0, atol=1e-3)
    np.testing.assert_allclose(upper, found.theta_base + reach, rtol=0, atol=1e-3)
    np.testing.assert_allclose(np.subtract(*found.interval(0.6826894921)), -2.0 * sigma)
    with pytest.raises(ShapeError, match="between 0 and 1"):
        found.interval(1.96)


def test_the_robot_has_the_identified_parameters(found, robot):
    np.testing.assert_array_equal(found.robot.theta, found.theta)
    np.testing.assert_array_equal(found.prior.theta, robot.theta)
    assert found.robot.joint_names == robot.joint_names


def test_drives_that_must_not_be_negative(robot):
    names = [robot.layout.names[k] for k in positive_parameters(robot)]
    expected = [f"{term}{j}" for term in ("Ia", "Fv", "Fc") for j in range(1, 7)]
    assert set(names) == {*expected, "Fvm6", "Fcm6"}
    offset = robot.with_friction("stribeck-offset")
    names = {offset.layout.names[k] for k in positive_parameters(offset)}
    assert "Fs3" in names
    assert not any(name.startswith("Fo") for name in names)  # an offset has either sign


@pytest.mark.parametrize("name", ["Ia3", "Fv1", "Fc6", "Fvm6"])
def test_negative_drives_are_not_consistent(found, name):
    assert found.consistent
    theta = found.theta.copy()
    theta[found.prior.layout.names.index(name)] = -1e-9
    bad = replace(found, theta=theta)
    assert bad.negative_drives == (name,)
    assert not bad.consistent
    assert "NOT physically consistent" in bad.summary()


def test_the_summary_counts_what_was_found(found):
    n = found.base_labels.count("identified")
    assert found.summary() == (
        f"wls on {found.prior.name}: {n} of 54 base parameters identified, physically consistent. "
        "Solved."
    )
    assert found.summary() in repr(found)


# -- files ------------------------------------------------------------------------------------


def test_everything_comes_back(found, saved, robot):
    back = Identification.load(saved, robot)
    for name in ("theta", "covariance", "sigma", "resolution", "noise", "correlation_time"):
        assert getattr(back, name).tobytes() == getattr(found, name).tobytes()
        assert not getattr(back, name).flags.writeable
    assert back.trace == found.trace
    assert back.status == found.status
    assert back.provenance == found.provenance
    assert back.base_labels == found.base_labels
    assert sorted(os.listdir(saved)) == ["identification.json", "identification.npz"]


def test_known_base_parameters_are_not_computed_again(found, saved, robot):
    assert Identification.load(saved, robot, found.base).base is found.base


def test_a_robot_with_parameters_of_the_same_names_is_another_one(tmp_path):
    one, other = load_robot("tx40"), load_robot("rv2sq")
    assert one.layout.names == other.layout.names
    b, p = 52, one.layout.size
    Identification(
        method="wls",
        prior=one,
        base=base_parameters(one),
        theta=one.theta,
        covariance=np.eye(b),
        sigma=np.ones(p),
        resolution=np.ones(p),
        base_resolution=np.ones(b),
        noise=np.ones((1, 6)),
        correlation_time=np.ones(1),
        status=Status(True, "Solved."),
    ).save(tmp_path)
    assert Identification.load(tmp_path, one).method == "wls"
    with pytest.raises(FileReadError, match="of another robot than 'RV2SQ'"):
        Identification.load(tmp_path, other)


def test_another_friction_law_is_refused(saved, robot):
    with pytest.raises(FileReadError, match="same friction law and actuators"):
        Identification.load(saved, robot.with_friction("stribeck"))


def test_another_shape_of_the_friction_law_is_refused(saved, robot):
    with pytest.raises(FileReadError, match="same friction law and actuators"):
        Identification.load(saved, robot.with_friction(robot.friction.model, width=0.5))


def test_another_prior_is_refused(saved, robot):
    with pytest.raises(FileReadError, match="started from other values"):
        Identification.load(saved, robot.with_parameters(robot.theta * 1.1))


def test_a_missing_folder(tmp_path, robot):
    with pytest.raises(FileReadError, match=r"identification\.json"):
        Identification.load(tmp_path / "nowhere", robot)


def test_a_missing_file(saved, robot):
    (saved / "identification.json").unlink()
    with pytest.raises(FileReadError, match=r"identification\.json"):
        Identification.load(saved, robot)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "fine"},
        {"status": {"ok": True}},
        {"status": None},
        {"trace": 3},
        {"trace": [1.0]},
        {"trace": [{"cost": "much", "change": 1.0}]},
        {"provenance": 5},
        {"robot": "tx40"},
        {"robot": None},
    ],
)
def test_damaged_words_are_refused(saved, robot, changes):
    edit(saved, **changes)
    with pytest.raises(FileReadError, match=r"result"):
        Identification.load(saved, robot)


def test_a_damaged_prior_is_refused(saved, robot):
    card = json.loads((saved / "identification.json").read_text())["robot"]
    for theta in (None, "x", card["theta"][:-1], ["x"]):
        edit(saved, robot={**card, "theta": theta})
        with pytest.raises(FileReadError, match="started from other values"):
            Identification.load(saved, robot)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("theta", (3,)), ("covariance", (54,)), ("noise", (2, 5)), ("correlation_time", (3,))],
)
def test_arrays_of_other_shapes_are_refused(saved, robot, name, shape):
    with np.load(saved / "identification.npz") as stored:
        arrays = dict(stored)
    arrays[name] = np.ones(shape)
    np.savez(saved / "identification.npz", **arrays)
    with pytest.raises(FileReadError, match="do not belong together"):
        Identification.load(saved, robot)


def test_arrays_that_are_missing_are_named(saved, robot):
    with np.load(saved / "identification.npz") as stored:
        arrays = {name: stored[name] for name in stored if name != "sigma"}
    np.savez(saved / "identification.npz", **arrays)
    with pytest.raises(FileReadError, match="lacks sigma"):
        Identification.load(saved, robot)
