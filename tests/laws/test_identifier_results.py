"""Results of every identifier are repeatable, change nothing and survive their files."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bodysense.errors import FileReadError, UnknownNameError
from bodysense.identification import IDENTIFIERS, Identification, Regression, identifier
from bodysense.identification.identifier import settings_of

# What these files share lies beside them, and is no part of a package.
sys.path.insert(0, str(Path(__file__).parent))

from identifier_subjects import (
    FILTERS,
    RECORDED,
    TWINS,
    base_of,
    every_method,
    fitted,
    off,
    same,
    shoulder,
    states,
)
from recorded_subjects import small_problem

# -- repeatability ----------------------------------------------------------------------------


@every_method
def test_the_same_seed_gives_the_same_bits_whatever_was_fitted_before(method):
    first = fitted(method, small_problem(method), seed=5)
    problem = small_problem(method)
    fitted(method, problem.without(1), seed=1)
    other = fitted(method, small_problem(method, seed=9), seed=5)
    assert same(first, fitted(method, problem, seed=5))
    assert same(first, fitted(method, problem, seed=5))
    assert not same(first, other)


@every_method
def test_nothing_that_goes_in_is_changed(method):
    rng = np.random.default_rng(0)
    samples = (*states(200, rng, n=3), rng.normal(size=(200, 3)))
    if method in RECORDED:
        (motion,) = small_problem(method).motions
        samples = (motion.q, motion.v, motion.a, motion.tau.copy(), motion.reference)
    copies = [x.copy() for x in samples]
    prior = off(shoulder(), rng)
    theta = prior.theta.copy()
    for x in samples:
        x.flags.writeable = False
    *states_and_torques, reference = samples if method in RECORDED else (*samples, None)
    problem = Regression.from_samples(
        prior,
        *states_and_torques,
        rate=500.0 if method in RECORDED else 100.0,
        base=base_of(shoulder()),
        reference=reference,
    )
    before = [(block.Y.copy(), block.y.copy(), block.use.copy()) for block in problem.blocks()]
    fitted(method, problem)
    for x, copy in zip(samples, copies, strict=True):
        np.testing.assert_array_equal(x, copy)
    np.testing.assert_array_equal(prior.theta, theta)
    for block, (Y, y, use) in zip(problem.blocks(), before, strict=True):
        np.testing.assert_array_equal(block.Y, Y)
        np.testing.assert_array_equal(block.y, y)
        np.testing.assert_array_equal(block.use, use)


@pytest.mark.parametrize("method", sorted(IDENTIFIERS))
def test_methods_are_frozen_settings_with_a_name(method):
    made = identifier(method)
    assert made.name == method
    assert made == identifier(method)
    assert hash(made) == hash(identifier(method))
    json.dumps(dataclasses.asdict(made), allow_nan=False)
    json.dumps(settings_of(made), allow_nan=False)
    assert made == identifier(method, **settings_of(made))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.anything = 1
    with pytest.raises(UnknownNameError, match=f"setting of {method}"):
        identifier(method, anything=1)


@every_method
def test_results_are_frozen_and_name_their_method(method):
    found = fitted(method, small_problem(method))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.theta = np.zeros(3)
    assert found.method == method


@pytest.mark.parametrize("twin", sorted(TWINS))
def test_twins_have_no_part_of_their_own(twin):
    """So that laws of the others hold for them as well."""
    made, (one, other) = identifier(twin), map(identifier, TWINS[twin])
    if twin in FILTERS:
        assert dataclasses.replace(made, name="", engine=one.engine) == dataclasses.replace(
            one, name=""
        )
        assert type(made.engine.filter.kind) is type(one.engine.filter.kind) or (
            type(made.engine.filter.kind) is type(other.engine.filter.kind)
        )
        assert type(made.engine.filter) in (type(one.engine.filter), type(other.engine.filter))
        return
    if twin == "pc-cloe":
        assert dataclasses.replace(made, name=one.name, solver=one.solver) == one
    else:
        assert made.weights == one.weights
    assert made.solver == other.solver


# -- files ------------------------------------------------------------------------------------


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


@every_method
def test_results_come_back_from_their_files(method, tmp_path):
    problem = small_problem(method)
    found = fitted(method, problem)
    found = dataclasses.replace(found, provenance={"seed": 3, "logs": [{"source": "Größe"}]})
    found.save(tmp_path / "new")
    text = (tmp_path / "new" / "identification.json").read_text(encoding="utf-8")
    json.loads(text, parse_constant=refuse_constant)
    back = Identification.load(tmp_path / "new", problem.robot)
    assert same(found, back)
    assert back.method == method
    assert back.provenance == found.provenance
    assert back.prior is problem.robot
    assert back.labels == found.labels
    assert back.summary() == found.summary()
    np.testing.assert_array_equal(back.robot.theta, found.robot.theta)
    with pytest.raises(FileReadError, match="other parameters"):
        Identification.load(tmp_path / "new", problem.robot.with_friction("offset"))
    (tmp_path / "new" / "identification.npz").write_bytes(b"PK damaged")
    with pytest.raises(FileReadError, match=r"identification\.npz"):
        Identification.load(tmp_path / "new", problem.robot)
