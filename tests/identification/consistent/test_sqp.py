"""Sequential quadratic programming against the semidefinite program: the same minimum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.identification import identifier
from bodysense.identification.consistent import sqp
from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.consistent.relaxation import Relaxation
from bodysense.identification.consistent.sqp import square_root_least_squares
from bodysense.identification.identifier import settings_of
from bodysense.identification.knowledge import EqualLinks, Knowledge, Mirror
from bodysense.robot.shapes.hull import Hull

METHODS = [identifier("pc-sqp-ols"), identifier("pc-sqp-wls"), identifier("pc-sqp-irls")]


@pytest.mark.parametrize("kind", ["euclidean", "pullback", "entropic"])
def test_the_minimum_is_that_of_the_semidefinite_program(kind, case):
    expected = consistent_least_squares(case.prior, case.stack, Relaxation(kind))
    found, _ = square_root_least_squares(case.prior, case.stack, Relaxation(kind))
    assert not found.failure
    cost = case.cost(expected.theta, kind)
    assert case.cost(found.theta, kind) == pytest.approx(cost, rel=1e-6)
    np.testing.assert_allclose(
        found.theta / case.prior.size, expected.theta / case.prior.size, atol=5e-4
    )


def test_a_start_from_a_similar_problem_leads_to_the_same_place(case):
    similar = replace(case.stack, A=1.02 * case.stack.A, z=1.01 * case.stack.z)
    _, start = square_root_least_squares(case.prior, similar)
    cold, _ = square_root_least_squares(case.prior, case.stack)
    warm, _ = square_root_least_squares(case.prior, case.stack, start=start)
    assert not warm.failure
    assert case.cost(warm.theta) == pytest.approx(case.cost(cold.theta), rel=1e-6)


KNOWN = {
    "mass": Knowledge(total_mass=2.0),
    "masses": Knowledge(masses={"link2": 0.4}),
    "mirror": Knowledge(symmetric={"link1": (Mirror("x", 0.05), Mirror("y"))}),
    "equal": Knowledge(equal=(EqualLinks("link1", "link3"),)),
    "inside": Knowledge(com_inside={"link2": Hull.from_box([-0.1] * 3, [0.1] * 3)}),
    "both": Knowledge(total_mass=2.0, com_inside={"link3": Hull.from_box([-0.05] * 3, [0.1] * 3)}),
}


@pytest.mark.parametrize("kind", ["euclidean", "pullback", "entropic"])
@pytest.mark.parametrize("known", KNOWN)
def test_what_is_known_is_kept(known, kind, simulate, make_case):
    case = make_case(
        simulate([[4.0, 2.0, 1.0]], n_t=80, off=0.3), [[2.0, 1.0, 0.5]], knowledge=KNOWN[known]
    )
    expected = consistent_least_squares(case.prior, case.stack, Relaxation(kind))
    assert not expected.failure
    found, _ = square_root_least_squares(case.prior, case.stack, Relaxation(kind))
    assert not found.failure
    constraints, size = case.prior.constraints, case.prior.size
    missed = constraints.E @ found.theta - constraints.e
    assert (np.abs(missed) <= 1e-6 * np.linalg.norm(constraints.E * size, axis=1)).all()
    assert not constraints.broken(found.theta, size, 1e-6)
    cost = case.cost(expected.theta, kind)
    assert case.cost(found.theta, kind) == pytest.approx(cost, rel=1e-5)


def test_what_leaves_no_room_is_a_status_with_advice(simulate, make_case):
    far, near = Hull.from_box([1.0] * 3, [1.1] * 3), KNOWN["inside"].com_inside["link2"]
    knowledge = Knowledge(
        com_inside={"link1": near, "link2": far}, equal=(EqualLinks("link1", "link2"),)
    )
    case = make_case(simulate([[4.0, 2.0, 1.0]], n_t=80), knowledge=knowledge)
    found, _ = square_root_least_squares(case.prior, case.stack)
    assert "no consistent solution" in found.failure
    assert "known of the links" in found.failure


def test_an_iteration_that_does_not_settle_says_so(case, monkeypatch):
    monkeypatch.setattr(sqp, "_MOST_STEPS", 3)
    found, _ = square_root_least_squares(case.prior, case.stack)
    assert "not converged after 3 steps" in found.failure
    assert case.smallest(found.theta) > 0.0


def test_a_prior_that_cannot_exist_is_no_obstacle(case):
    theta = case.prior.theta.copy()
    theta[case.links[2]] = [1.0, *[0.0] * 9]  # a point
    prior = replace(case.prior, theta=theta)
    expected = consistent_least_squares(prior, case.stack)
    found, _ = square_root_least_squares(prior, case.stack)
    assert not found.failure
    np.testing.assert_allclose(found.theta / prior.size, expected.theta / prior.size, atol=5e-4)


@pytest.mark.parametrize("method", METHODS)
def test_identifiers_return_what_can_exist(method, case):
    found = method.fit(case.problem)
    assert found.status.ok
    assert found.consistent
    assert {"relaxation", "relaxation_weight"} <= set(settings_of(method))


@pytest.mark.parametrize("method", METHODS)
def test_consistent_in_every_one_of_many_noisy_problems(method, simulate):
    """The same motion and robot, noise as strong as the torques and stronger."""
    for seed in range(12):
        problem = simulate([[30.0, 20.0, 10.0]], n_t=40, seed=seed, off=0.3).problem
        found = method.fit(problem)
        assert found.status.ok, (seed, found.status)
        assert found.consistent, seed


def test_the_weight_is_chosen_as_by_the_others(simulate):
    problem = simulate(3.0, n_t=90).problem
    found = identifier("pc-sqp-wls", relaxation_weight=None).fit(problem)
    assert "chosen by the data" in found.status.message
    assert found.consistent
