"""Recursive least squares against the least-squares problem of all samples at once."""

from __future__ import annotations

import dataclasses
import time
from functools import reduce

import numpy as np
import pytest

from bodysense.errors import ShapeError
from bodysense.identification import identifier
from bodysense.identification.online import RecursiveLeastSquares, RecursiveState, RegressionSample
from bodysense.identification.prior import Prior
from bodysense.robot import base_parameters, inverse_dynamics


def replay(method: RecursiveLeastSquares, state: RecursiveState, samples) -> RecursiveState:
    return reduce(method.step, samples, state)


@pytest.fixture(scope="module")
def simulated(simulate):
    return simulate(0.3, n_t=300)


def samples_of(simulated, sigma: float = 0.3) -> list[RegressionSample]:
    """One for each instant."""
    Y = simulated.Y.reshape(300, 3, -1)
    y = simulated.y.reshape(300, 3)
    return [RegressionSample(Y[k], y[k], np.full(3, sigma)) for k in range(300)]


def batch(simulated, forgetting: float, spread: float, sigma: float = 0.3):
    """Estimate and covariance by normal equations of all rows and the prior's, decayed."""
    prior = Prior.of(simulated.problem)
    decay = np.repeat(forgetting ** (299.0 - np.arange(300)), 3)
    P = np.linalg.inv(prior.base_factor @ prior.base_factor.T) / spread**2
    information = (simulated.Y.T * decay) @ simulated.Y / sigma**2 + P
    right = (simulated.Y.T * decay) @ simulated.y / sigma**2 + P @ prior.theta_base
    return np.linalg.solve(information, right), np.linalg.inv(information)


@pytest.mark.parametrize("spread", [0.1, 1.0])
def test_without_forgetting_it_is_the_estimate_of_all_samples(simulated, spread):
    method = RecursiveLeastSquares(spread=spread)
    state = replay(method, method.init(Prior.of(simulated.problem)), samples_of(simulated))
    theta, covariance = batch(simulated, 1.0, spread)
    np.testing.assert_allclose(state.theta_base, theta, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(state.covariance, covariance, rtol=1e-6, atol=1e-12)
    assert state.steps == 300


def test_with_forgetting_old_samples_count_less(simulated):
    """The prior is fed back in turns, so that only its own share is not exact."""
    method = RecursiveLeastSquares(forgetting=0.98, spread=30.0)
    state = replay(method, method.init(Prior.of(simulated.problem)), samples_of(simulated))
    theta, covariance = batch(simulated, 0.98, 30.0)
    sigma = np.sqrt(np.diag(covariance))
    assert (np.abs(state.theta_base - theta) < 1e-2 * sigma).all()
    np.testing.assert_allclose(np.sqrt(np.diag(state.covariance)), sigma, rtol=1e-2)


def test_the_prior_is_not_forgotten_where_nothing_moves(simulated):
    """Rows without information: the variance stays near the prior's, for ever."""
    prior = Prior.of(simulated.problem)
    method = RecursiveLeastSquares(forgetting=0.99, spread=0.5)
    state = method.init(prior)
    before = np.sqrt(np.diag(state.covariance))
    still, n = np.zeros((20_000, 3, simulated.problem.size)), 20_000
    state = method.advance(state, still, np.zeros((n, 3)), np.ones((n, 3)))
    np.testing.assert_allclose(state.theta_base, prior.theta_base, rtol=1e-10)
    # Within one turn through the prior's rows the oldest has lost (1 - 0.99^b).
    np.testing.assert_allclose(np.sqrt(np.diag(state.covariance)), before, rtol=0.3)


@pytest.mark.parametrize("forgetting", [0.99, 0.9, 0.5])
def test_the_prior_is_not_forgotten_however_short_the_memory(simulated, forgetting):
    prior = Prior.of(simulated.problem)
    method = RecursiveLeastSquares(forgetting=forgetting)
    silent = RegressionSample(np.zeros((3, prior.theta_base.size)), np.zeros(3), np.ones(3))
    state = replay(method, method.init(prior), [silent] * 1000)
    variance = np.diag(state.covariance) / np.diag(prior.base_factor @ prior.base_factor.T)
    assert variance.min() > 0.5
    assert variance.max() < 2.0


def test_before_any_sample_it_is_the_prior(simulated):
    prior = Prior.of(simulated.problem)
    state = RecursiveLeastSquares(spread=0.5).init(prior)
    np.testing.assert_array_equal(state.theta_base, prior.theta_base)
    expected = 0.25 * prior.base_factor @ prior.base_factor.T
    np.testing.assert_allclose(state.covariance, expected, rtol=1e-9, atol=1e-15)


def test_steps_are_pure_and_can_be_replayed(simulated):
    method = RecursiveLeastSquares(forgetting=0.999)
    samples = samples_of(simulated)
    state = start = method.init(Prior.of(simulated.problem))
    kept = start.triangle.copy()
    states = [state]
    for sample in samples:
        state = method.step(state, sample)
        states.append(state)
    np.testing.assert_array_equal(start.triangle, kept)
    again = replay(method, states[100], samples[100:])
    assert again.triangle.tobytes() == state.triangle.tobytes()
    many = method.advance(
        start, *(np.array([getattr(s, name) for s in samples]) for name in ("Y", "y")),
        np.array([1.0 / s.sigma for s in samples]),
    )  # fmt: skip
    assert many.triangle.tobytes() == state.triangle.tobytes()
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.steps = 3
    for array in (state.triangle, state.theta_base, state.covariance):
        assert not array.flags.writeable


def test_rows_of_infinite_noise_do_not_count(simulated):
    method = RecursiveLeastSquares()
    state = method.init(Prior.of(simulated.problem))
    for sample in samples_of(simulated)[:50]:
        silent = dataclasses.replace(sample, sigma=np.array([0.3, np.inf, 0.3]))
        lonely = RegressionSample(sample.Y[[0, 2]], sample.y[[0, 2]], np.full(2, 0.3))
        left, right = method.step(state, silent), method.step(state, lonely)
        np.testing.assert_allclose(left.theta_base, right.theta_base, rtol=1e-9, atol=1e-12)
        state = left


@pytest.mark.parametrize("forgetting", [1.0, 0.999])
def test_a_million_steps_leave_it_well_conditioned(simulated, forgetting):
    """The covariance form would have lost symmetry and sign long before."""
    prior = Prior.of(simulated.problem)
    method = RecursiveLeastSquares(forgetting=forgetting)
    Y = np.tile(simulated.Y.reshape(300, 3, -1), (10, 1, 1))
    y = np.tile(simulated.y.reshape(300, 3), (10, 1))
    weight = np.full(y.shape, 1.0 / 0.3)
    state: RecursiveState = method.init(prior)
    for _ in range(20):
        state = method.advance(state, Y, y, weight)
    early = state
    for _ in range(314):
        state = method.advance(state, Y, y, weight)
    assert state.steps > 1_000_000
    assert not np.tril(state.triangle, -1).any()
    assert np.linalg.cond(state.triangle[:-1, :-1] * prior.size_base) < 1e4
    sigma = np.sqrt(np.diag(state.covariance))
    if forgetting == 1.0:
        P = np.linalg.inv(prior.base_factor @ prior.base_factor.T)
        information = 3340.0 * simulated.Y.T @ simulated.Y / 0.09 + P
        right = 3340.0 * simulated.Y.T @ simulated.y / 0.09 + P @ prior.theta_base
        expected = np.linalg.solve(information, right)
        np.testing.assert_allclose(state.theta_base, expected, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(sigma**2, np.diag(np.linalg.inv(information)), rtol=1e-6)
    else:  # the same motion again and again: only the turn of the prior's rows is another
        assert (np.abs(state.theta_base - early.theta_base) < 0.05 * sigma).all()
        np.testing.assert_allclose(np.sqrt(np.diag(early.covariance)), sigma, rtol=0.05)


def test_a_step_is_fast(simulate, tx40):
    """52 base parameters, six joints: some 25 µs, of which half are the reflections."""
    simulated = simulate(0.3, robot=tx40, n_t=300)
    method = RecursiveLeastSquares(forgetting=0.999)
    state = method.init(Prior.of(simulated.problem))
    Y, y = simulated.Y.reshape(300, 6, -1), simulated.y.reshape(300, 6)
    assert Y.shape[2] == 52
    samples = [RegressionSample(Y[k], y[k], np.full(6, 0.3)) for k in range(300)]
    replay(method, state, samples[:5])
    times = []
    for _ in range(20):
        start = time.perf_counter()
        replay(method, state, samples)
        times.append((time.perf_counter() - start) / 300)
    assert min(times) < 100e-6  # on a busy machine too


def test_a_sample_of_measurements(simulated, small_arm, base_of):
    motion = simulated.problem.motions[0]
    row = motion.q[7], motion.v[7], motion.a[7], motion.tau[7]
    sample = RegressionSample.of(small_arm, base_of(small_arm), *row, sigma=[0.1, np.inf, 0.2])
    np.testing.assert_allclose(sample.Y, simulated.Y.reshape(300, 3, -1)[7], rtol=1e-12)
    np.testing.assert_array_equal(sample.y, motion.tau[7])
    np.testing.assert_array_equal(sample.sigma, [0.1, np.inf, 0.2])


def test_friction_that_grows_with_the_load_takes_the_load_of_theta(small_arm):
    robot = small_arm.with_friction("coulomb-load", width=0.02, coefficients={"Fl": 0.1})
    base, q, v, a = base_parameters(robot), *np.random.default_rng(3).normal(size=(3, 3))
    heavier = robot.theta.copy()
    heavier[robot.layout.inertial] *= 2.0
    tau = inverse_dynamics(robot, q[None], v[None], a[None], theta=heavier)[0]
    sample = RegressionSample.of(robot, base, q, v, a, tau, theta=heavier)
    np.testing.assert_allclose(sample.Y @ base.to_base(heavier), tau, rtol=1e-9)
    other = RegressionSample.of(robot, base, q, v, a, tau)
    assert np.abs(other.Y @ base.to_base(heavier) - tau).max() > 1e-3


def test_a_sample_without_noise(small_arm, base_of):
    zero = np.zeros(3)
    with pytest.raises(ShapeError, match=r"sigma of joint 2 is 0: give a positive"):
        RegressionSample.of(
            small_arm, base_of(small_arm), zero, zero, zero, zero, sigma=[1.0, 0.0, 1.0]
        )


@pytest.mark.parametrize("forgetting", [0.0, -1.0, 1.1, float("nan")])
def test_forgetting_that_cannot_be_meant(forgetting):
    with pytest.raises(ShapeError, match=r"forgetting is .* above 0 and up to 1"):
        RecursiveLeastSquares(forgetting=forgetting)


@pytest.mark.parametrize("spread", [0.0, -1.0, float("inf")])
def test_a_spread_that_cannot_be_meant(spread):
    with pytest.raises(ShapeError, match=r"spread is .*: give a positive number"):
        RecursiveLeastSquares(spread=spread)


def test_rows_of_another_robot(simulated):
    method = RecursiveLeastSquares()
    state = method.init(Prior.of(simulated.problem))
    with pytest.raises(ShapeError, match="do not fit"):
        method.step(state, RegressionSample(np.zeros((3, 4)), np.zeros(3), np.ones(3)))


def test_ridge_is_the_same_with_the_same_weights(simulated):
    prior = Prior.of(simulated.problem)
    weighing = identifier("ridge", spread=0.4).estimate(simulated.problem, prior)
    method = RecursiveLeastSquares(spread=0.4)
    state = method.init(prior)
    Y, y = simulated.Y.reshape(300, 3, -1), simulated.y.reshape(300, 3)
    state = method.advance(state, Y, y, np.tile(1.0 / weighing.sigma, (300, 1)))
    ridge = simulated.problem.base.to_base(weighing.theta)
    np.testing.assert_allclose(state.theta_base, ridge, rtol=1e-8, atol=1e-9)
