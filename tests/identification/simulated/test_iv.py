"""Instrumental variables: as in a textbook, without bias, and over robots that can exist."""

from __future__ import annotations

import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from bodysense.identification import Preprocessing, Regression, identifier, motions
from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.consistent.relaxation import MARGIN
from bodysense.identification.prior import Prior
from bodysense.identification.solution import noise_levels
from bodysense.simulation import rollout
from bodysense.spatial import pseudo_inertia_from_pi


def dense(problem: Regression, sigma):
    """Rows (rows, b) and torques (rows,) that count, divided by their noise."""
    Y, y = [], []
    for block in problem.blocks():
        scale = block.use / sigma[block.log]
        Y.append((block.Y * scale[:, :, None]).reshape(-1, problem.size))
        y.append((block.y * scale).ravel())
    return np.concatenate(Y), np.concatenate(y)


def noisy(record, seed: int = 0, **settings):
    return record(
        filtered=Preprocessing(cutoff=20.0),
        position_noise=2e-4,
        torque_noise=0.2,
        rate=500.0,
        seed=seed,
        **settings,
    )


@pytest.mark.parametrize("width", [0.02, 0.0])
def test_as_in_a_textbook(width, arm, record):
    """β = (Zᵀ Σ⁻¹ W)⁻¹ Zᵀ Σ⁻¹ y, thesis eq (30), with the instruments of the last iterate."""
    recorded = noisy(record, robot=arm(width=width))
    problem, prior = recorded.problem, Prior.of(recorded.problem)
    method = identifier("iv")
    theta = recorded.robot.theta  # any will do to simulate with
    simulated = method.weights.simulation.loop(problem).simulated(theta[None])[0]
    found = method.weights.refit(
        problem, prior, simulated, theta, method.solver.reduced_solver(problem, prior)
    )
    sigma = noise_levels(problem, prior.to_base(theta))
    np.testing.assert_array_equal(found.sigma, sigma)
    W, y = dense(problem, sigma)
    Z, _ = dense(simulated, sigma)
    expected = np.linalg.solve(Z.T @ W, Z.T @ y)
    size = prior.size_base
    np.testing.assert_allclose(prior.to_base(found.theta) / size, expected / size, atol=1e-8)
    assert found.stack.rows == int(sum(block.use.sum() for block in problem.blocks()))
    # What no parameters can explain: torques that the instruments do not reach.
    left = y - Z @ np.linalg.lstsq(Z, y, rcond=None)[0]
    assert found.stack.rest == pytest.approx(left @ left, rel=1e-6)


def test_the_covariance_is_that_of_instruments(record):
    """With white noise on torques, eq (31) without the prior: (Zᵀ W)⁻¹ Zᵀ Z (Wᵀ Z)⁻¹."""
    recorded = record(duration=8.0, rate=100.0, torque_noise=0.3)
    found = identifier("iv").fit(recorded.problem)
    simulated = (
        identifier("iv").weights.simulation.loop(recorded.problem).simulated(found.theta[None])[0]
    )
    W, _ = dense(recorded.problem, found.noise)
    Z, _ = dense(simulated, found.noise)
    half = np.linalg.solve(Z.T @ W, Z.T)
    np.testing.assert_allclose(found.sigma_base, np.sqrt(np.diag(half @ half.T)), rtol=0.35)


def test_nothing_is_left_along_the_instruments(record):
    """A fixed point: Zᵀ Σ⁻¹ (y - W β) = 0 with instruments simulated by β itself."""
    recorded = record(filtered=Preprocessing(cutoff=20.0), torque_noise=0.2, rate=500.0)
    problem, prior = recorded.problem, Prior.of(recorded.problem)
    method = identifier("iv", tolerance=1e-9, iterations=30)
    found = method.estimate(problem, prior)
    assert found.converged
    # What is simulated is the nearest robot that can exist.
    theta = consistent_least_squares(prior, found.stack).theta
    simulated = method.weights.simulation.loop(problem).simulated(theta[None])[0]
    W, y = dense(problem, found.sigma)
    Z, _ = dense(simulated, found.sigma)
    e = y - W @ prior.to_base(found.theta)
    slack = np.abs(Z.T @ e) / np.linalg.norm(Z, axis=0) / np.linalg.norm(e)
    assert slack.max() < 1e-5
    changes = [step.change for step in found.trace]
    assert changes[-1] < 1e-6
    assert len(changes) < 15


def campaign(arm, motion_of, off, position_noise: float, torque_noise: float):
    """Errors (30, b) in plausible sizes of OLS and IV, and whether intervals of IV hold.

    Encoders are noisy for the log alone: the controller would answer noise with motion.
    """
    robot = arm().with_friction("viscous", coefficients={})
    errors: dict[str, list] = {"ols": [], "iv": []}
    inside, base = [], None
    for seed in range(30):
        rng = np.random.default_rng(seed)
        run = rollout(
            robot,
            motion_of(2, 4.0, seed % 5),
            sampling_rate=500.0,
            integrator="rk4",
            differentiate=True,
        )
        run = replace(
            run,
            q_measured=run.q + position_noise * rng.normal(size=run.q.shape),
            tau_measured=run.tau + torque_noise * rng.normal(size=run.q.shape),
        )
        prior = off(robot, seed=seed)
        settings = Preprocessing().settled(prior, 40.0)  # so high that noise passes
        problem = Regression.of(prior, motions(prior, [[run.log()]], settings), settings, base)
        base, size = problem.base, Prior.of(problem).size_base
        truth = base.to_base(robot.theta)
        for method in (identifier("ols"), identifier("iv")):
            found = method.fit(problem)
            assert found.status.ok
            errors[method.name].append((found.theta_base - truth) / size)
        lower, upper = found.interval()
        inside.append((lower <= truth) & (truth <= upper))
    return {name: np.array(rows) for name, rows in errors.items()}, np.array(inside)


def test_noisy_positions_do_not_bias_it(arm, motion_of, off):
    errors, inside = campaign(arm, motion_of, off, 5e-4, 0.05)
    bias = {name: np.abs(rows.mean(axis=0)) for name, rows in errors.items()}
    rms = {name: np.sqrt(np.square(rows).mean(axis=0)) for name, rows in errors.items()}
    assert np.median(bias["ols"] / bias["iv"]) > 10.0
    assert bias["iv"].max() < 0.1 * bias["ols"].max()
    assert rms["iv"].max() < 0.1 * rms["ols"].max()
    # Errors of differentiated positions take turns, which no short window over lags sees in full:
    # intervals are too wide rather than too narrow.
    assert inside.mean() > 0.9


def test_intervals_hold_the_truth(arm, motion_of, off):
    _, inside = campaign(arm, motion_of, off, 2e-5, 0.3)
    assert 0.85 <= inside.mean() <= 0.99
    assert inside.mean(axis=0).min() > 0.7


# -- over robots that can exist ----------------------------------------------------------------


def hard(record, arm, off):
    """So much noise that least squares finds links that cannot exist."""
    return record(prior=off(arm(), 0.3, 2), duration=1.0, rate=100.0, torque_noise=2.0, told=True)


def test_a_dense_program_has_the_same_minimum(record, arm, off):
    """Eqs (66)-(67) as printed, with the weak relaxation towards the prior."""
    recorded = hard(record, arm, off)
    problem, prior = recorded.problem, Prior.of(recorded.problem)
    method = identifier("pc-iv")
    theta = recorded.robot.theta
    simulated = method.weights.simulation.loop(problem).simulated(theta[None])[0]
    solution = method.weights.refit(
        problem, prior, simulated, theta, method.solver.reduced_solver(problem, prior)
    )
    assert not solution.failure
    sigma = noise_levels(problem, prior.to_base(theta))
    W, y = dense(problem, sigma)
    Z, _ = dense(simulated, sigma)
    project = Z @ np.linalg.solve(Z.T @ Z, Z.T)
    A, b = project @ W @ prior.mapping, project @ y
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
    cost = cp.sum_squares(A @ unknown - b) + cp.sum_squares(x)
    program = cp.Problem(cp.Minimize(cost), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program.solve(solver=cp.CLARABEL)
    assert program.status == cp.OPTIMAL

    def value(at):
        e, away = A @ at - b, (at - prior.theta) / prior.size
        return e @ e + away @ away

    plain = identifier("iv")
    solve = plain.solver.reduced_solver(problem, prior)
    free = plain.weights.refit(problem, prior, simulated, theta, solve).theta
    assert value(solution.theta) == pytest.approx(program.value, rel=1e-5)
    assert not all(
        np.linalg.eigvalsh(pseudo_inertia_from_pi(free[link]))[0] > 0 for link in prior.links
    )
    np.testing.assert_allclose(
        prior.to_base(solution.theta) / prior.size_base,
        prior.to_base(unknown.value) / prior.size_base,
        atol=5e-3,
    )


def test_where_iv_is_consistent_they_are_the_same(record):
    recorded = record(duration=4.0, torque_noise=0.005)
    free, held = identifier("iv").fit(recorded.problem), identifier("pc-iv").fit(recorded.problem)
    assert free.consistent
    assert (np.abs(free.theta_base - held.theta_base) < 0.1 * free.sigma_base).all()
    np.testing.assert_allclose(held.sigma_base, free.sigma_base, rtol=0.05)


def test_torques_that_prefer_no_joint_or_motion_leave_it_where_least_squares_is(record):
    """Instruments that are the regressor itself: weighted least squares."""
    recorded = record(torque_noise=0.2)
    problem, prior = recorded.problem, Prior.of(recorded.problem)
    plain = identifier("wls").fit(problem)
    method = identifier("iv")
    again = method.weights.refit(
        problem, prior, problem, plain.theta, method.solver.reduced_solver(problem, prior)
    )
    np.testing.assert_allclose(
        prior.to_base(again.theta), plain.theta_base, atol=0.01 * plain.sigma_base.min()
    )
