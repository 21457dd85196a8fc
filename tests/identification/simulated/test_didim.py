"""DIDIM: a fixed point, the truth without noise, and over robots that can exist."""

from __future__ import annotations

import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from bodysense.identification import Preprocessing, Regression, identifier
from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.consistent.relaxation import MARGIN
from bodysense.identification.prior import Prior
from bodysense.robot import suggested_controller
from bodysense.spatial import pseudo_inertia_from_pi

EVERY = ("iv", "didim", "cloe", "clie", "pc-iv", "pc-didim", "pc-cloe")
every_method = pytest.mark.parametrize("name", EVERY)


def dense(problem: Regression, sigma):
    """Rows (rows, b) and torques (rows,) that count, divided by their noise."""
    Y, y = [], []
    for block in problem.blocks():
        scale = block.use / sigma[block.log]
        Y.append((block.Y * scale[:, :, None]).reshape(-1, problem.size))
        y.append((block.y * scale).ravel())
    return np.concatenate(Y), np.concatenate(y)


# -- the truth ---------------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("n", [2, 3])
def test_data_without_noise_give_the_truth(name, n, arm, record):
    recorded = record(arm(n), rate=500.0)
    found = identifier(name, integrator="rk4").fit(recorded.problem)
    assert found.status.ok
    assert found.status.message == "Solved."
    assert (recorded.errors(found) < 1e-4).all()
    assert 1 <= len(found.trace) <= 10


@every_method
def test_the_tx40(name, tx40, record, off):
    recorded = record(tx40, duration=4.0, rate=500.0)
    found = identifier(name, integrator="rk4").fit(recorded.problem)
    assert found.status.ok
    assert (recorded.errors(found) < 1e-4).all()


@every_method
@pytest.mark.parametrize(("integrator", "error"), [("rk2", 1e-3), ("euler", 0.1)])
def test_coarser_integrators_come_close(name, integrator, error, record):
    recorded = record(rate=500.0)
    found = identifier(name, integrator=integrator).fit(recorded.problem)
    assert found.status.ok
    assert (recorded.errors(found) < error).all()


@every_method
def test_without_a_reference_too(name, record):
    recorded = record(rate=1000.0, told=False)
    found = identifier(name, integrator="rk4").fit(recorded.problem)
    assert found.status.ok
    assert "does not hold the controller's reference" in found.status.message
    assert (recorded.errors(found) < 5e-3).all()


@pytest.mark.parametrize("name", ["didim", "pc-didim", "cloe", "clie"])
def test_recorded_velocities_and_accelerations_do_not_matter(name, record, rng):
    """What least squares lives on; these use it for nothing but a start."""
    recorded = record(rate=500.0)
    motion = recorded.problem.motions[0]
    v, a = (x * (1.0 + 0.3 * rng.normal(size=x.shape)) for x in (motion.v, motion.a))
    v[0] = motion.v[0]
    spoilt = replace(recorded.problem, motions=(replace(motion, v=v, a=a),))
    assert recorded.errors(identifier("wls").fit(spoilt)).max() > 0.02
    found = identifier(name, integrator="rk4", tolerance=1e-6, iterations=20).fit(spoilt)
    assert found.status.ok
    assert (recorded.errors(found) < 1e-4).all()


@every_method
def test_sharp_friction(name, arm, record):
    recorded = record(arm(width=0.0), rate=500.0, still_speed=0.02)
    found = identifier(name, integrator="rk4").fit(recorded.problem)
    assert found.status.ok
    assert (recorded.errors(found) < 2e-3).all()


@every_method
def test_from_a_noisy_log(name, record, arm):
    recorded = record(filtered=Preprocessing(cutoff=20.0), torque_noise=0.1, duration=6.0)
    found = identifier(name).fit(recorded.problem)
    assert found.status.ok
    truth = recorded.problem.base.to_base(recorded.robot.theta)
    lower, upper = found.interval()
    assert ((lower <= truth) & (truth <= upper)).mean() > 0.7
    assert np.median(recorded.errors(found)) < 0.05
    np.testing.assert_array_equal(found.theta, identifier(name).theta(recorded.problem))


# -- the fixed point ---------------------------------------------------------------------------


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("width", [0.02, 0.0])
def test_nothing_is_left_along_the_simulated_rows(told, width, arm, record):
    """Ws(θ)ᵀ Σ⁻¹ (y - Ws(θ) θ) = 0 at convergence, thesis eq (41)."""
    recorded = record(
        arm(width=width), filtered=Preprocessing(cutoff=20.0), torque_noise=0.2, told=told
    )
    method, prior = identifier("didim", tolerance=1e-9, iterations=40), Prior.of(recorded.problem)
    found = method.estimate(recorded.problem, prior)
    assert found.converged
    # What is simulated is the nearest robot that can exist.
    theta = consistent_least_squares(prior, found.stack).theta
    simulated = method.weights.simulation.loop(recorded.problem).simulated(theta[None])[0]
    W, y = dense(simulated, found.sigma)
    e = y - W @ prior.to_base(found.theta)
    slack = np.abs(W.T @ e) / np.linalg.norm(W, axis=0) / np.linalg.norm(e)
    assert slack.max() < (1e-5 if width > 0.0 else 1e-3)  # a jump moves with the estimate


def test_one_refit_is_weighted_least_squares_on_the_simulated_rows(record):
    recorded = record(torque_noise=0.2)
    problem, prior = recorded.problem, Prior.of(recorded.problem)
    method, theta = identifier("didim"), recorded.robot.theta
    simulated = method.weights.simulation.loop(problem).simulated(theta[None])[0]
    found = method.weights.refit(
        problem, prior, simulated, theta, method.solver.reduced_solver(problem, prior)
    )
    assert found.rows is simulated
    W, y = dense(simulated, found.sigma)
    expected = np.linalg.solve(W.T @ W, W.T @ y)
    np.testing.assert_allclose(
        prior.to_base(found.theta) / prior.size_base,
        expected / prior.size_base,
        atol=1e-8,
    )


def test_the_same_problem_gives_the_same_bits(record):
    recorded = record(torque_noise=0.2)
    for name in EVERY:
        first, second = (identifier(name).fit(recorded.problem) for _ in range(2))
        assert first.theta.tobytes() == second.theta.tobytes()
        assert first.covariance.tobytes() == second.covariance.tobytes()
        assert first.trace == second.trace


# -- over robots that can exist ----------------------------------------------------------------


def test_a_dense_program_has_the_same_minimum(record, arm, off):
    """Eq (65) as printed, with the weak relaxation towards the prior."""
    recorded = record(prior=off(arm(), 0.3, 2), duration=1.0, rate=100.0, torque_noise=2.0)
    problem, prior = recorded.problem, Prior.of(recorded.problem)
    method, theta = identifier("pc-didim"), recorded.robot.theta
    simulated = method.weights.simulation.loop(problem).simulated(theta[None])[0]
    found = method.weights.refit(
        problem, prior, simulated, theta, method.solver.reduced_solver(problem, prior)
    )
    assert not found.failure
    W, y = dense(simulated, found.sigma)
    A = W @ prior.mapping
    x = cp.Variable(prior.size.size)
    unknown = prior.theta + cp.multiply(prior.size, x)
    constraints = [unknown[k] / prior.size[k] >= 0.0 for k in prior.positive]
    for link, m, r in zip(prior.links, prior.link_mass, prior.link_length, strict=True):
        unit = np.array([1.0 / r, 1.0 / r, 1.0 / r, 1.0]) / np.sqrt(m)
        P = sum(
            unknown[link][k] * (pseudo_inertia_from_pi(e) * unit * unit[:, None])
            for k, e in enumerate(np.eye(10))
        )
        constraints.append(P >> MARGIN * np.eye(4))
    cost = cp.sum_squares(A @ unknown - y) + cp.sum_squares(x)
    program = cp.Problem(cp.Minimize(cost), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program.solve(solver=cp.CLARABEL)
    assert program.status == cp.OPTIMAL
    e = A @ found.theta - y
    away = (found.theta - prior.theta) / prior.size
    assert e @ e + away @ away == pytest.approx(program.value, rel=1e-5)
    np.testing.assert_allclose(
        prior.to_base(found.theta) / prior.size_base,
        prior.to_base(unknown.value) / prior.size_base,
        atol=5e-3,
    )


@pytest.mark.parametrize("name", ["pc-didim", "pc-iv"])
@pytest.mark.parametrize("seed", range(6))
def test_its_robots_can_exist(name, seed, record, arm, off):
    recorded = record(
        prior=off(arm(), 0.3, seed), duration=1.0, rate=100.0, torque_noise=2.0, seed=seed
    )
    found = identifier(name).fit(recorded.problem)
    assert found.consistent
    assert np.isfinite(found.covariance).all()


def test_where_didim_is_consistent_they_are_the_same(record):
    recorded = record(duration=4.0, torque_noise=0.005)
    free, held = (
        identifier("didim").fit(recorded.problem),
        identifier("pc-didim").fit(recorded.problem),
    )
    assert free.consistent
    assert (np.abs(free.theta_base - held.theta_base) < 0.1 * free.sigma_base).all()
    np.testing.assert_allclose(held.sigma_base, free.sigma_base, rtol=0.05)


# -- gains that are not known ------------------------------------------------------------------


@every_method
def test_without_a_controller_it_says_what_depends_on_gains(name, record):
    recorded = record(told=False, torque_noise=0.1, rate=500.0)
    nobody = replace(recorded.problem.robot, controller=None)
    found = identifier(name).fit(replace(recorded.problem, robot=nobody))
    assert found.status.ok
    assert "no controller" in found.status.message
    assert "gains 10 %" in found.status.message
    assert np.median(recorded.errors(found)) < 0.05
    known = identifier(name).fit(recorded.problem)
    assert "gains" not in known.status.message


def test_gains_hardly_matter_where_the_simulation_follows_well(record):
    recorded = record(told=False, rate=1000.0, torque_noise=0.1)
    stiff = suggested_controller(recorded.robot, bandwidth=20.0, rate=4000.0)
    estimates = [
        identifier("didim").fit(
            replace(recorded.problem, robot=recorded.problem.robot.with_controller(c))
        )
        for c in (recorded.robot.controller, stiff)
    ]
    away = np.abs(estimates[0].theta_base - estimates[1].theta_base)
    assert (away < estimates[0].sigma_base).all()
