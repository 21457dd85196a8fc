"""The smoother against the least-squares problem of all samples at once."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.kalman import FILTERS, run_filter, smooth, state_filter


def batch(model, mean, S, y, restarts):
    """Means and covariances of all states at once, given all measurements at once.

    The weighted least-squares solution for the stacked states, written with the covariance that
    they have before any measurement, which may be singular.
    """
    n_t, n, p = y.shape[0], mean.size, model.n_parameters
    prior, C = np.zeros((n_t, n)), np.zeros((n_t, n, n_t, n))
    prior[0], C[0, :, 0] = mean, S @ S.T
    for k in range(1, n_t):
        A, Q, u = model.whole(k - 1)
        if k in restarts:
            start, root = restarts[k]
            A, Q, u = np.diag(np.arange(n) < p).astype(float), np.zeros((n, n)), np.zeros(n)
            u[p:], Q[p:, p:] = start, root @ root.T
        prior[k] = A @ prior[k - 1] + u
        C[k, :, :k] = np.einsum("ab,bkc->akc", A, C[k - 1, :, :k])
        C[:k, :, k] = np.einsum("akc->kca", C[k, :, :k])
        C[k, :, k] = A @ C[k - 1, :, k - 1] @ A.T + Q
    C = C.reshape(n_t * n, n_t * n)
    seen = ~np.isnan(y.ravel())
    H = np.kron(np.eye(n_t), model.H)[seen]
    R = np.diag(np.tile(model.sigma**2, n_t)[seen])
    K = np.linalg.solve(H @ C @ H.T + R, H @ C).T
    x = prior.ravel() + K @ (y.ravel()[seen] - H @ prior.ravel())
    P = (C - K @ H @ C).reshape(n_t, n, n_t, n)
    return x.reshape(n_t, n), np.array([P[k, :, k] for k in range(n_t)])


@pytest.mark.parametrize("walk", [False, True])
@pytest.mark.parametrize("name", sorted(FILTERS))
def test_linear_systems_are_smoothed_as_by_one_least_squares_problem(name, walk, linear, rng):
    model = linear(rng, 2, 2, 1, walk=walk)
    mean, S = rng.normal(size=4), np.tril(rng.normal(size=(4, 4))) + 2.0 * np.eye(4)
    _, y = model.simulate(rng, mean, S, 15)
    y[4:6] = np.nan
    restarts = {9: (np.array([0.5, -0.5]), np.array([[1.0, 0.0], [0.3, 0.8]]))}
    run = run_filter(state_filter(name), model, mean, S, y, keep_history=True, restarts=restarts)
    smoothed = smooth(run.history)
    means, covariances = batch(model, mean, S, y, restarts)
    assert smoothed.ok, smoothed.message
    np.testing.assert_allclose(smoothed.means, means, atol=1e-9)
    np.testing.assert_allclose(smoothed.covariances, covariances, atol=1e-9)


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_parameters_that_do_not_walk_are_the_same_at_all_samples(name, pendulum, swing, rng):
    _, y = swing(pendulum, rng, 60)
    start, S = np.array([0.0, 3.0, 0.0, 0.4, 0.0]), np.diag([0.5, 1.0, 0.3, 0.2, 0.2])
    run = run_filter(state_filter(name), pendulum, start, S, y, keep_history=True)
    smoothed = smooth(run.history)
    assert smoothed.ok, smoothed.message
    np.testing.assert_allclose(
        smoothed.means[:, :3], np.tile(run.state.mean[:3], (60, 1)), atol=1e-6
    )
    before = np.array([covariance.diagonal() for _, covariance in run.history.corrected])
    after = np.diagonal(smoothed.covariances, axis1=1, axis2=2)
    assert (after <= before * (1.0 + 1e-6)).all()


def test_smoothing_comes_closer_to_the_truth(linear, rng):
    model = linear(rng, 1, 3, 1, n_t=200)
    mean, S = np.zeros(4), np.eye(4)
    x, y = model.simulate(rng, mean, S, 200)
    run = run_filter(state_filter("srekf"), model, mean, S, y, keep_history=True)
    smoothed = smooth(run.history)
    assert np.square(smoothed.means - x).sum() < 0.9 * np.square(run.means - x).sum()


def test_states_without_any_spread_are_left_as_they_are(linear, rng):
    """A parameter known for sure makes all covariances singular."""
    model = linear(rng, 2, 2, 1)
    mean, S = rng.normal(size=4), np.diag([0.0, 1.0, 1.0, 1.0])
    _, y = model.simulate(rng, mean, S, 20)
    run = run_filter(state_filter("srukf"), model, mean, S, y, keep_history=True)
    smoothed = smooth(run.history)
    assert smoothed.ok, smoothed.message
    np.testing.assert_allclose(smoothed.means[:, 0], mean[0], atol=1e-9)
    np.testing.assert_allclose(smoothed.covariances[:, 0, 0], 0.0, atol=1e-12)
