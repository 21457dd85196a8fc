"""The consistent estimate against another formulation, another solver, and its own optimality."""

from __future__ import annotations

import dataclasses
import warnings

import cvxpy as cp
import numpy as np
import pytest

from bodysense.identification import identifier
from bodysense.identification.consistent import projection
from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.consistent.relaxation import MARGIN, Relaxation
from bodysense.spatial import random_pi


@pytest.fixture
def unused(monkeypatch) -> None:
    def solve(*args, **kwargs):
        pytest.fail("the solver was called")

    monkeypatch.setattr(projection, "_solve_conic", solve)


def test_another_solver_finds_the_same_minimum(case, pseudo_inertia):
    x = cp.Variable(case.prior.size.size)
    theta = case.prior.theta + cp.multiply(case.prior.size, x)
    constraints = [theta[case.drives] / case.prior.size[case.drives] >= 0.0]
    for link, unit in zip(case.links, case.units, strict=True):
        scaled = cp.diag(unit) @ pseudo_inertia(theta[link], cp.bmat) @ cp.diag(unit)
        constraints.append((scaled + scaled.T) / 2.0 >> MARGIN * np.eye(4))
    fit = cp.sum_squares(case.A @ theta - case.z) / case.z.size
    program = cp.Problem(cp.Minimize(fit + cp.sum_squares(x) / case.z.size), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program.solve(solver=cp.SCS, eps=1e-9, max_iters=200_000)
    assert program.status == cp.OPTIMAL
    solution = consistent_least_squares(case.prior, case.stack)
    assert not solution.failure
    assert case.cost(solution.theta) == pytest.approx(case.cost(theta.value), rel=1e-5)
    np.testing.assert_allclose(
        case.prior.mapping @ solution.theta / case.prior.size_base,
        case.prior.mapping @ theta.value / case.prior.size_base,
        atol=5e-3,
    )


def test_links_and_drives_can_exist_with_a_margin(case):
    theta = consistent_least_squares(case.prior, case.stack).theta
    assert case.smallest(theta) >= 0.5 * MARGIN
    assert case.smallest(theta) < 2.0 * MARGIN  # the constraint is what holds it
    assert (theta[case.drives] >= 0.0).all()


def test_every_way_into_the_consistent_set_leads_uphill(case, rng):
    theta = consistent_least_squares(case.prior, case.stack).theta
    away = (theta - case.prior.theta) / case.prior.size**2
    slope = 2.0 * (case.A.T @ (case.A @ theta - case.z) + away)
    cost, tried = case.cost(theta), 0
    for size in 10.0 ** rng.uniform(-3, 0, 300):
        # The sum of consistent robots is consistent: they are a convex cone.
        other = theta.copy()
        for link, pi in zip(case.links, random_pi(rng, 3), strict=True):
            other[link] += size * pi
            other[link] *= rng.uniform(0.5, 1.5)
        other[case.drives] *= rng.uniform(0.5, 1.5, case.drives.size)
        if case.smallest(other) < MARGIN:
            continue
        assert slope @ (other - theta) > -1e-5 * cost
        tried += 1
    assert tried > 100


def test_base_parameters_of_a_consistent_estimate_are_left_alone(simulate, make_case, unused):
    case = make_case(simulate([[2e-3, 1e-3, 5e-4]], n_t=400, off=0.0), [[2.0, 1.0, 0.5]])
    solution = consistent_least_squares(case.prior, case.stack)
    # Ridge regression by the normal equations.
    d = case.prior.size
    H = (case.A * d).T @ (case.A * d) + np.eye(d.size)
    x = np.linalg.solve(H, (case.A * d).T @ (case.z - case.A @ case.prior.theta))
    np.testing.assert_allclose((solution.theta - case.prior.theta) / d, x, atol=1e-8)
    assert case.smallest(solution.theta) > MARGIN


def test_a_tighter_prior_is_followed(case):
    loose = consistent_least_squares(case.prior, case.stack)
    tight = consistent_least_squares(case.prior, case.stack, Relaxation(weight=1e4))
    away = [np.linalg.norm((s.theta - case.prior.theta) / case.prior.size) for s in (loose, tight)]
    assert away[1] < 0.3 * away[0]
    assert case.cost(tight.theta, weight=1e4) <= case.cost(loose.theta, weight=1e4)


@pytest.mark.parametrize(
    "method", [identifier("pc-ols"), identifier("pc-wls"), identifier("pc-irls")]
)
def test_identifiers_return_what_can_exist(method, case):
    found = method.fit(case.problem)
    assert found.status.ok
    assert found.consistent
    assert (found.sigma > 0.0).all()


def test_the_noise_of_the_constrained_fit_is_that_of_the_free_one(case):
    """A constraint that pulls the fit away must not look like noise."""
    free = identifier("wls").estimate(case.problem, case.prior)
    consistent = identifier("pc-wls").estimate(case.problem, case.prior)
    np.testing.assert_array_equal(free.sigma, consistent.sigma)


@pytest.mark.parametrize(
    "method", [identifier("pc-ols"), identifier("pc-wls"), identifier("pc-irls")]
)
def test_a_solver_that_fails_is_a_status_with_advice(method, simulate, monkeypatch):
    simulated = simulate([[4.0, 2.0, 1.0]], n_t=80, off=0.3)
    monkeypatch.setattr(projection, "_solve_conic", lambda *args: (None, "out of luck"))
    found = method.fit(simulated.problem)
    assert not found.status.ok
    assert "There is no consistent solution (out of luck)" in found.status.message
    assert "unconstrained" in found.status.message
    assert "bodysense doctor" in found.status.message
    for values in (found.theta, found.sigma, found.covariance, found.resolution):
        assert np.isfinite(values).all()


def test_a_solver_that_stops_too_early_is_noticed(case, monkeypatch):
    monkeypatch.setattr(projection, "_solve_conic", lambda Q, q, rows: (np.zeros(q.size), "Solved"))
    solution = consistent_least_squares(case.prior, case.stack)
    assert "stopped before the links were consistent" in solution.failure
    assert np.isfinite(solution.theta).all()


def test_estimates_far_from_the_possible_are_no_trouble(case):
    """A solver's tolerances are about one; these are a million noises away."""
    strong = dataclasses.replace(case.stack, A=1e6 * case.stack.A, z=1e6 * case.stack.z)
    solution = consistent_least_squares(case.prior, strong)
    assert not solution.failure
    weak = consistent_least_squares(case.prior, strong, Relaxation(weight=1e12))
    plain = consistent_least_squares(case.prior, case.stack)
    np.testing.assert_allclose(
        (weak.theta - plain.theta) / case.prior.size, 0.0, atol=1e-4
    )  # the same problem in other units
