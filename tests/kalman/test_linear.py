"""All six filters on linear systems, where they all are the textbook's Kalman filter."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from bodysense.kalman import FILTERS, run_filter, state_filter

CASES = [(0, 3, 2), (4, 3, 2), (5, 2, 1), (1, 1, 3)]


@pytest.fixture(params=sorted(FILTERS))
def method(request):
    return state_filter(request.param)


@pytest.mark.parametrize("walk", [False, True])
@pytest.mark.parametrize(("p", "m", "n_y"), CASES)
def test_the_textbooks_filter_is_reproduced(method, linear, kalman, rng, p, m, n_y, walk):
    model = linear(rng, p, m, n_y, walk=walk and p > 0)
    mean, S = rng.normal(size=p + m), np.tril(rng.normal(size=(p + m, p + m)))
    _, y = model.simulate(rng, mean, S, 60)
    y[5, 0] = y[7:9] = np.nan
    run = run_filter(method, model, mean, S, y)
    means, covariances, innovations, nis, log_likelihood = kalman(model, mean, S @ S.T, y)
    assert run.ok, run.message
    assert run.steps == 60
    np.testing.assert_allclose(run.means, means, rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.state.covariance, covariances[-1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.innovations, innovations, rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.nis, nis, rtol=1e-8)
    assert run.log_likelihood == pytest.approx(log_likelihood, rel=1e-9)


def test_the_history_holds_what_the_textbook_says(method, linear, kalman, rng):
    model = linear(rng, 2, 2, 2, walk=True)
    mean, S = rng.normal(size=4), np.tril(rng.normal(size=(4, 4)))
    _, y = model.simulate(rng, mean, S, 20)
    history = run_filter(method, model, mean, S, y, keep_history=True).history
    means, covariances, *_ = kalman(model, mean, S @ S.T, y)
    corrected = zip(*history.corrected, strict=True)
    for result, expected in zip(corrected, (means, covariances), strict=True):
        np.testing.assert_allclose(np.array(result), expected, atol=1e-9)
    for k in range(19):
        A, Q, u = model.whole(k)
        np.testing.assert_allclose(history.predicted[k + 1][0], A @ means[k] + u, atol=1e-9)
        P = A @ covariances[k] @ A.T + Q
        np.testing.assert_allclose(history.predicted[k + 1][1], P, atol=1e-9)
        np.testing.assert_allclose(history.crosses[k + 1], (covariances[k] @ A.T)[:, 2:], atol=1e-9)


def test_predict_and_update_are_what_a_run_does(method, linear, rng):
    model = linear(rng, 2, 3, 2)
    y = rng.normal(size=(2, 2))
    state, innovation, variance = method.update(model, 0, method.start([0] * 5, np.eye(5)), y[0])
    np.testing.assert_allclose(innovation, y[0])
    np.testing.assert_allclose(variance, np.diag(model.H @ model.H.T + np.diag(model.sigma**2)))
    kept = state.mean.copy(), state.covariance.copy()
    after = method.update(model, 1, method.predict(model, 0, state), y[1])[0]
    np.testing.assert_array_equal(state.mean, kept[0])  # nothing that went in was changed
    np.testing.assert_array_equal(state.covariance, kept[1])
    run = run_filter(method, model, np.zeros(5), np.eye(5), y)
    np.testing.assert_array_equal(run.state.mean, after.mean)
    np.testing.assert_array_equal(run.state.covariance, after.covariance)


def test_absent_measurements_change_nothing(method, linear, rng):
    model = linear(rng, 2, 2, 2)
    start = method.start(np.ones(4), np.eye(4))
    state, innovation, _ = method.update(model, 0, start, np.full(2, np.nan))
    assert np.isnan(innovation).all()
    np.testing.assert_array_equal(state.mean, start.mean)
    np.testing.assert_array_equal(state.covariance, start.covariance)
    run = run_filter(method, model, np.ones(4), np.eye(4), np.full((5, 2), np.nan))
    assert run.ok
    assert run.log_likelihood == 0.0
    assert np.isnan(run.nis).all()


def test_a_restart_forgets_the_moving_part_alone(method, linear, kalman, rng):
    model = linear(rng, 3, 2, 2)
    mean, S = np.zeros(5), np.eye(5)
    _, y = model.simulate(rng, mean, S, 20)
    new_mean, new_S = rng.normal(size=2), np.array([[0.5, 0.0], [0.2, 0.7]])
    run = run_filter(method, model, mean, S, y, restarts={8: (new_mean, new_S)})
    first_means, first, *_ = kalman(model, mean, S, y[:8])
    x = np.concatenate((first_means[-1][:3], new_mean))
    P = np.zeros((5, 5))
    P[:3, :3], P[3:, 3:] = first[-1][:3, :3], new_S @ new_S.T
    model.u = model.u[8:]
    means, covariances, *_ = kalman(model, x, P, y[8:])
    np.testing.assert_allclose(run.means, [*first_means, *means], atol=1e-9)
    np.testing.assert_allclose(run.state.covariance, covariances[-1], atol=1e-9)


def test_innovations_are_chi_square_on_a_consistent_model(method, linear, rng):
    model = linear(rng, 3, 2, 2, n_t=800)
    mean, S = np.zeros(5), np.eye(5)
    _, y = model.simulate(rng, mean, S, 800)
    run = run_filter(method, model, mean, S, y)
    low, high = chi2.ppf([1e-4, 1.0 - 1e-4], 2 * 800)
    assert low < run.nis.sum() < high
    assert "1 if consistent" in run.summary()
