"""Ordinary and weighted least squares, total least squares and ridge, against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import ShapeError
from bodysense.identification import Regression, identifier
from bodysense.identification.linear.least_squares import TotalLeastSquares
from bodysense.identification.prior import Prior
from bodysense.identification.solution import noise_levels, rounding_levels
from bodysense.robot import inverse_dynamics

NOISE = ((0.1, 1.0, 0.02), (0.5, 0.05, 0.3))


def dense(Y: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(Y, y, rcond=None)[0]


@pytest.fixture(scope="module")
def uneven(simulate):
    """Two logs whose joints have noise of very different sizes."""
    return simulate(NOISE, logs=2, n_t=1500)


def test_ols_is_the_least_squares_solution(uneven):
    found = identifier("ols").fit(uneven.problem)
    np.testing.assert_allclose(found.theta_base, dense(uneven.Y, uneven.y), rtol=1e-8)
    assert found.status.ok
    assert found.status.message == "Solved."
    residual = uneven.y - uneven.Y @ found.theta_base
    weighing = identifier("ols").estimate(uneven.problem, Prior.of(uneven.problem))
    wanted = np.sqrt(residual @ residual / (residual.size - uneven.problem.size))
    np.testing.assert_allclose(weighing.sigma, wanted, rtol=1e-9)


def test_what_the_data_do_not_reach_stays_nearest_to_the_prior(uneven):
    found, prior = identifier("ols").fit(uneven.problem), Prior.of(uneven.problem)
    change = (found.theta - prior.theta) / prior.size
    B = prior.mapping * prior.size
    # A change without any part in B's null space.
    np.testing.assert_allclose(np.linalg.pinv(B) @ (B @ change), change, atol=1e-8)


def test_wls_finds_the_noise_of_every_log_and_joint(uneven):
    found = identifier("wls").fit(uneven.problem)
    # 1500 samples: a standard deviation is known to 1 / sqrt(3000), 2 %.
    np.testing.assert_allclose(found.noise, NOISE, rtol=0.08)


def test_wls_is_the_solution_with_rows_divided_by_their_noise(uneven):
    weighing = identifier("wls", tolerance=1e-9, iterations=100).estimate(
        uneven.problem, Prior.of(uneven.problem)
    )
    theta_base = uneven.problem.base.to_base(weighing.theta)
    scale = weighing.sigma[uneven.log, uneven.joint]
    wanted = dense(uneven.Y / scale[:, None], uneven.y / scale)
    np.testing.assert_allclose(theta_base, wanted, rtol=1e-7)
    # A fixed point: the residuals' own levels are the weights.
    residual = uneven.y - uneven.Y @ wanted
    freedom = 1500 - uneven.problem.size / 6
    for log in range(2):
        for joint in range(3):
            mine = residual[(uneven.log == log) & (uneven.joint == joint)]
            level = np.sqrt(mine @ mine / freedom)
            assert weighing.sigma[log, joint] == pytest.approx(level, rel=1e-6)


def test_wls_is_nearer_to_the_truth_than_ols_where_noise_differs(simulate):
    errors = {"ols": 0.0, "wls": 0.0}
    for seed in range(5):
        simulated = simulate(NOISE, logs=2, n_t=400, seed=seed)
        size = Prior.of(simulated.problem).size_base
        for method in (identifier("ols"), identifier("wls")):
            error = (method.fit(simulated.problem).theta_base - simulated.truth) / size
            errors[method.name] += float(error @ error)
    assert errors["wls"] < 0.5 * errors["ols"]


def test_weights_that_do_not_settle_are_told(uneven):
    status = identifier("wls", tolerance=0.0, iterations=2).fit(uneven.problem).status
    assert status.ok
    assert "had not converged" in status.message


def test_noise_levels_count_what_the_fit_has_used_up(simulate):
    """Twenty fits of few rows: without counting, noise would come out a third too small."""
    levels = []
    for seed in range(20):
        simulated = simulate(0.5, n_t=20, seed=seed)
        theta = dense(simulated.Y, simulated.y)
        levels.append(noise_levels(simulated.problem, theta) ** 2)
    assert np.sqrt(np.mean(levels)) == pytest.approx(0.5, rel=0.1)


def test_noise_free_data_do_not_divide_by_zero(simulate):
    simulated = simulate(0.0)
    for method in (identifier("ols"), identifier("wls"), identifier("tls"), identifier("ridge")):
        found = method.fit(simulated.problem)
        np.testing.assert_allclose(found.theta_base, simulated.truth, atol=1e-8)
        assert (found.noise > 0.0).all()


def test_a_joint_that_stands_keeps_what_only_its_motion_shows(small_arm, base_of, sines):
    _, q, v, a = sines(3, 4, 400, 100.0)
    q[:, 2], v[:, 2], a[:, 2] = 0.4, 0.0, 0.0
    tau = inverse_dynamics(small_arm, q, v, a)
    theta = small_arm.theta.copy()
    theta[small_arm.layout.rotor.start :] *= 1.3
    prior = small_arm.with_parameters(theta)
    problem = Regression.from_samples(prior, q, v, a, tau, rate=100.0, base=base_of(small_arm))
    found = identifier("wls").fit(problem)
    layout = small_arm.layout
    assert "does not excite" in found.status.message
    unexcited = identifier("wls").estimate(problem, Prior.of(problem)).unexcited
    assert {"Fv3", "Fc3", "Ia3"} < set(unexcited)
    for name in ("Fv3", "Fc3", "Ia3"):
        k = layout.index(name)
        assert found.theta[k] == pytest.approx(theta[k], rel=1e-6)
        assert found.labels[k] == "not identifiable"
    for name in ("Fv1", "Fc2"):
        k = layout.index(name)
        assert found.theta[k] == pytest.approx(small_arm.theta[k], rel=1e-6)
        assert found.labels[k] == "identified"


def test_tls_is_the_last_singular_vector_of_the_whole(uneven):
    last = np.linalg.svd(np.column_stack([uneven.Y, uneven.y]), full_matrices=False)[2][-1]
    found = identifier("tls").fit(uneven.problem)
    np.testing.assert_allclose(found.theta_base, -last[:-1] / last[-1], rtol=1e-6)


def test_tls_without_a_solution_says_so(simulate):
    simulated = simulate(0.1)
    prior, stack = Prior.of(simulated.problem), simulated.problem.stack(np.ones((1, 3)))
    # Torques at right angles to all columns, smaller than a column: no finite solution.
    stack = type(stack)(stack.A, np.zeros(simulated.problem.size), 1e12, stack.rows)
    solution = TotalLeastSquares().solve(simulated.problem, prior, stack)
    assert "no solution" in solution.failure
    assert "Use wls" in solution.failure
    assert np.isfinite(solution.theta).all()


@pytest.mark.parametrize("spread", [0.01, 0.3, 5.0])
def test_ridge_solves_the_normal_equations(uneven, spread):
    problem, prior = uneven.problem, Prior.of(uneven.problem)
    weighing = identifier("ridge", spread=spread).estimate(problem, prior)
    scale = weighing.sigma[uneven.log, uneven.joint]
    A, z = (uneven.Y / scale[:, None]) @ prior.mapping, uneven.y / scale
    # In units of the prior's spread, which makes the equations well conditioned.
    d = spread * prior.size
    H = (A * d).T @ (A * d) + np.eye(d.size)
    x = np.linalg.solve(H, (A * d).T @ (z - A @ prior.theta))
    np.testing.assert_allclose((weighing.theta - prior.theta) / d, x, atol=1e-7)


def test_ridge_goes_from_the_prior_to_weighted_least_squares(uneven):
    prior, wls = Prior.of(uneven.problem), identifier("wls").fit(uneven.problem)
    tight = identifier("ridge", spread=1e-9).fit(uneven.problem)
    np.testing.assert_allclose(tight.theta, prior.theta, atol=1e-6)
    loose = identifier("ridge", spread=1e5).fit(uneven.problem)
    error = (loose.theta_base - wls.theta_base) / prior.size_base
    assert np.abs(error).max() < 1e-6


@pytest.mark.parametrize("spread", [0.0, -1.0, np.nan, np.inf])
def test_a_spread_without_meaning_is_refused(spread):
    with pytest.raises(ShapeError, match="spread is"):
        identifier("ridge", spread=spread)


@pytest.mark.parametrize(
    "method",
    [identifier("ols"), identifier("wls"), identifier("ridge")],
    ids=lambda method: method.name,
)
def test_torques_that_are_exactly_zero(method, simulate):
    """Nothing to divide by: no overflow (warnings are errors), and finite numbers all over."""
    problem = simulate(0.0, disturb=lambda rng, tau: np.zeros_like(tau)).problem
    found = method.fit(problem)
    assert found.status.ok
    for values in (found.theta, found.covariance, found.sigma, found.noise):
        assert np.isfinite(values).all()
    assert found.status.message == "Solved."
    if method.name != "ridge":  # which keeps to the prior where it can
        assert (np.abs(found.theta_base) < 1e-9 * Prior.of(problem).size_base).all()


def test_levels_of_rounding_are_those_of_the_torques_if_there_are_any(simulate):
    problem = simulate(0.0).problem
    np.testing.assert_array_equal(rounding_levels(problem), problem.finest * problem.torque_size)
    silent = simulate(0.0, disturb=lambda rng, tau: np.zeros_like(tau)).problem
    np.testing.assert_array_equal(rounding_levels(silent), np.full(3, silent.finest))
