"""Every identifier knows what the data cannot say."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from bodysense.identification import IDENTIFIERS, Regression
from bodysense.identification.prior import Prior
from bodysense.robot import inverse_dynamics

# What these files share lies beside them, and is no part of a package.
sys.path.insert(0, str(Path(__file__).parent))

from identifier_subjects import (
    FILTERS,
    ROUGH,
    base_of,
    every_method,
    every_method_but_particles,
    fitted,
    off,
    require_sound,
    subject,
    tx40,
)
from recorded_subjects import noisy_problem

LEANS_ON_PRIOR = {"ridge", "rls", "energy"} | FILTERS
"""They have an answer for every direction, and no reason to complain about one."""


@every_method_but_particles
def test_labels_tell_what_the_data_can_say(method):
    problem = noisy_problem(method, 800, noise=0.02)
    found = fitted(method, problem)
    require_sound(found)
    layout, base = problem.robot.layout, problem.base
    without = [name for k, name in enumerate(layout.names) if not base.mapping[:, k].any()]
    assert {"M1", "MX1", "MZ1"} <= set(without)
    label = dict(zip(layout.names, found.labels, strict=True))
    assert {label[name] for name in without} == {"not identifiable"}
    # The prior's variance is all that is known of these.
    places = [layout.names.index(name) for name in without]
    np.testing.assert_allclose(found.sigma[places], Prior.of(problem).size[places])
    np.testing.assert_allclose(found.theta[places], problem.robot.theta[places], rtol=0.5)
    joints = range(1, problem.n_joints + 1)
    drives = [f"{term}{j}" for term in ("Fv", "Fc") for j in joints]
    assert {label[name] for name in drives} == {"identified"}
    assert set(found.base_labels) == {"identified"}


@every_method_but_particles
def test_a_joint_that_never_moves_keeps_its_prior(method):
    moving = tuple(j for j in range(subject(method).n_joints) if j != 2)
    problem = noisy_problem(method, 600, moving=moving)
    found = fitted(method, problem)
    require_sound(found)
    assert found.status.ok
    names = problem.robot.layout.names
    label = dict(zip(names, found.labels, strict=True))
    for name in ("Ia3", "Fv3", "Fc3"):
        assert label[name] == "not identifiable", name
        k = names.index(name)
        # The border of what can exist may push a little even there.
        rel = 0.1 if IDENTIFIERS[method].consistent else 1e-6
        assert found.theta[k] == pytest.approx(problem.robot.theta[k], rel=rel)
    for j in moving:
        name = f"Fv{j + 1}" if j in (0, 3, 5) else f"Fc{j + 1}"
        assert label[name] == "identified", name
    assert "identified" in found.base_labels
    assert set(found.base_labels) != {"identified"}


@every_method_but_particles
def test_one_moving_joint_tells_of_itself_alone(method):
    n = subject(method).n_joints
    one = 5 if n == 6 else 2
    problem = noisy_problem(method, 600, moving=(one - 1,))
    found = fitted(method, problem)
    require_sound(found)
    assert found.status.ok
    label = dict(zip(problem.robot.layout.names, found.labels, strict=True))
    for term in ("Fv", "Fc"):
        assert label[f"{term}{one}"] == "identified"
        others = set(range(1, n + 1)) - {one}
        assert {label[f"{term}{j}"] for j in others} == {"not identifiable"}
    assert found.base_labels.count("identified") < problem.size / 2
    if not IDENTIFIERS[method].consistent and method not in LEANS_ON_PRIOR:
        assert "does not excite" in found.status.message


@pytest.mark.parametrize("moving", [(0, 1), (1,)])
@pytest.mark.parametrize("method", sorted(FILTERS - ROUGH))
def test_rounding_does_not_tell_of_standing_joints(method, moving):
    problem = noisy_problem(method, 200, moving=moving)
    (motion,) = problem.motions
    tau = motion.tau * (1.0 + 1e-13 * np.random.default_rng(1).normal(size=motion.tau.shape))
    rounded = Regression.of(
        problem.robot,
        [dataclasses.replace(motion, tau=tau, tau_raw=tau)],
        problem.settings,
        problem.base,
    )
    found, again = fitted(method, problem), fitted(method, rounded)
    assert found.status == again.status
    apart = (again.theta_base - found.theta_base) / found.sigma_base
    np.testing.assert_allclose(apart, 0.0, atol=1e-3)


@every_method
def test_standing_still_tells_no_friction(method):
    problem = noisy_problem(method, 300, moving=())
    found = fitted(method, problem)
    require_sound(found)
    layout = problem.robot.layout
    drives = slice(layout.rotor.start, layout.size)
    assert set(found.labels[drives]) == {"not identifiable"}
    friction = slice(layout.rotor.stop, layout.size)
    np.testing.assert_allclose(found.theta[friction], problem.robot.theta[friction], rtol=1e-6)


@every_method
@pytest.mark.parametrize("n_t", [9, 12, 20])
def test_few_rows_are_no_reason_to_be_sure(method, n_t, states_of):
    """54 rows and more for 52 unknowns: intervals must be as wide as the errors."""
    inside = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        q, v, a = states_of(tx40(), rng, n_t)
        tau = inverse_dynamics(tx40(), q, v, a) + 0.5 * rng.normal(size=(n_t, 6))
        problem = Regression.from_samples(
            off(tx40(), rng), q, v, a, tau, rate=100.0, base=base_of(tx40())
        )
        found = fitted(method, problem)
        require_sound(found)
        assert set(found.base_labels) != {"identified"}
        if method in FILTERS:  # which take samples for a motion, and these are none
            return
        lower, upper = found.interval()
        truth = base_of(tx40()).to_base(tx40().theta)
        inside.append(((lower <= truth) & (truth <= upper)).mean())
    assert np.mean(inside) > (0.6 if n_t == 9 else 0.85)
