"""The consistent estimate against another formulation, another solver, and its own optimality."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest

from bodysense.identification.consistent.pc_irls import ConsistentIRLS
from bodysense.identification.consistent.pc_ols import ConsistentOLS
from bodysense.identification.consistent.pc_wls import ConsistentWLS
from bodysense.identification.consistent.projection import MARGIN, SPREAD, consistent_least_squares
from bodysense.identification.linear.wls import WLS
from bodysense.identification.prior import Prior
from bodysense.spatial import random_pi


def pseudo_inertia(pi, bmat=np.block):
    """By hand: second moments of mass, first moments, mass."""
    m, x, y, z, xx, xy, yy, xz, yz, zz = (pi[k] for k in range(10))
    return bmat(
        [
            [(yy + zz - xx) / 2.0, -xy, -xz, x],
            [-xy, (xx + zz - yy) / 2.0, -yz, y],
            [-xz, -yz, (xx + yy - zz) / 2.0, z],
            [x, y, z, m],
        ]
    )


class Case:
    """Noisy data of few samples: the unconstrained estimate cannot exist."""

    def __init__(self, simulated) -> None:
        self.simulated, self.problem = simulated, simulated.problem
        self.prior = Prior.of(self.problem)
        self.sigma = np.array([[2.0, 1.0, 0.5]])
        self.stack = self.problem.stack(self.sigma)
        scale = self.sigma[0, simulated.joint]
        self.A = (simulated.Y / scale[:, None]) @ self.prior.mapping
        self.z = simulated.y / scale
        layout = self.problem.robot.layout
        self.links = [layout.link(k) for k in range(3)]
        self.drives = np.arange(layout.rotor.start, layout.size)  # Ia, Fv, Fc: none negative
        self.units = [
            np.append(np.full(3, 1.0 / length), 1.0) / np.sqrt(mass)
            for mass, length in zip(self.prior.link_mass, self.prior.link_length, strict=True)
        ]

    def cost(self, theta, spread=SPREAD) -> float:
        x = (theta - self.prior.theta) / (spread * self.prior.size)
        return float(np.sum((self.A @ theta - self.z) ** 2) + x @ x)

    def slope(self, theta) -> np.ndarray:
        away = (theta - self.prior.theta) / (SPREAD * self.prior.size) ** 2
        return 2.0 * (self.A.T @ (self.A @ theta - self.z) + away)

    def smallest(self, theta) -> float:
        return min(
            np.linalg.eigvalsh(pseudo_inertia(theta[link]) * unit * unit[:, None])[0]
            for link, unit in zip(self.links, self.units, strict=True)
        )


@pytest.fixture(scope="module", params=[0, 1, 2])
def case(request, simulate) -> Case:
    made = Case(simulate([[4.0, 2.0, 1.0]], n_t=80, seed=request.param, off=0.3))
    theta_free = np.linalg.lstsq(
        np.vstack([made.A * made.prior.size, np.eye(made.prior.size.size)]),
        np.append(made.z, made.prior.theta / made.prior.size),
        rcond=None,
    )[0]
    assert made.smallest(theta_free * made.prior.size) < 0.0
    return made


@pytest.fixture
def unused(monkeypatch) -> None:
    def solve(self, *args, **kwargs):
        pytest.fail("the solver was called")

    monkeypatch.setattr(cp.Problem, "solve", solve)


def test_another_solver_finds_the_same_minimum(case):
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
    solution = consistent_least_squares(case.problem, case.prior, case.stack)
    assert not solution.failure
    assert case.cost(solution.theta) == pytest.approx(case.cost(theta.value), rel=1e-5)
    np.testing.assert_allclose(
        case.prior.mapping @ solution.theta / case.prior.size_base,
        case.prior.mapping @ theta.value / case.prior.size_base,
        atol=5e-3,
    )


def test_links_and_drives_can_exist_with_a_margin(case):
    theta = consistent_least_squares(case.problem, case.prior, case.stack).theta
    assert case.smallest(theta) >= 0.5 * MARGIN
    assert case.smallest(theta) < 2.0 * MARGIN  # the constraint is what holds it
    assert (theta[case.drives] >= 0.0).all()


def test_every_way_into_the_consistent_set_leads_uphill(case, rng):
    theta = consistent_least_squares(case.problem, case.prior, case.stack).theta
    slope, cost, tried = case.slope(theta), case.cost(theta), 0
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


def test_base_parameters_of_a_consistent_estimate_are_left_alone(simulate, unused):
    case = Case(simulate([[2e-3, 1e-3, 5e-4]], n_t=400, off=0.0))
    solution = consistent_least_squares(case.problem, case.prior, case.stack)
    # Ridge regression by the normal equations.
    d = case.prior.size
    H = (case.A * d).T @ (case.A * d) + np.eye(d.size)
    x = np.linalg.solve(H, (case.A * d).T @ (case.z - case.A @ case.prior.theta))
    np.testing.assert_allclose((solution.theta - case.prior.theta) / d, x, atol=1e-8)
    assert case.smallest(solution.theta) > MARGIN


def test_a_tighter_prior_is_followed(case):
    loose = consistent_least_squares(case.problem, case.prior, case.stack)
    tight = consistent_least_squares(case.problem, case.prior, case.stack, spread=0.01)
    away = [np.linalg.norm((s.theta - case.prior.theta) / case.prior.size) for s in (loose, tight)]
    assert away[1] < 0.3 * away[0]
    assert case.cost(tight.theta, 0.01) <= case.cost(loose.theta, 0.01)


@pytest.mark.parametrize("method", [ConsistentOLS(), ConsistentWLS(), ConsistentIRLS()])
def test_identifiers_return_what_can_exist(method, case):
    found = method.fit(case.problem)
    assert found.status.ok
    assert found.consistent
    assert (found.sigma > 0.0).all()


def test_the_noise_of_the_constrained_fit_is_that_of_the_free_one(case):
    """A constraint that pulls the fit away must not look like noise."""
    free = WLS().estimate(case.problem, case.prior)
    consistent = ConsistentWLS().estimate(case.problem, case.prior)
    np.testing.assert_array_equal(free.sigma, consistent.sigma)


def raises(self, *args, **kwargs):
    raise cp.error.SolverError("out of luck")


def finds_nothing(self, *args, **kwargs):
    return None


@pytest.mark.parametrize("method", [ConsistentOLS(), ConsistentWLS(), ConsistentIRLS()])
@pytest.mark.parametrize(
    ("solve", "said"), [(raises, "out of luck"), (finds_nothing, "No consistent robot was found")]
)
def test_a_solver_that_fails_is_a_status_with_advice(method, solve, said, simulate, monkeypatch):
    simulated = simulate([[4.0, 2.0, 1.0]], n_t=80, off=0.3)
    monkeypatch.setattr(cp.Problem, "solve", solve)
    found = method.fit(simulated.problem)
    assert not found.status.ok
    assert said in found.status.message
    assert "unconstrained" in found.status.message
    assert "bodysense doctor" in found.status.message
    for values in (found.theta, found.sigma, found.covariance, found.resolution):
        assert np.isfinite(values).all()


def test_a_solver_that_stops_too_early_is_noticed(case, monkeypatch):
    def stops(self, *args, **kwargs):
        for variable in self.variables():
            variable.value = np.zeros(variable.shape)

    monkeypatch.setattr(cp.Problem, "solve", stops)
    solution = consistent_least_squares(case.problem, case.prior, case.stack)
    assert "stopped before the links were consistent" in solution.failure
    assert np.isfinite(solution.theta).all()
