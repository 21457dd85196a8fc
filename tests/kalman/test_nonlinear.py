"""The filters on a pendulum with unknown parameters, and on a system with exact answers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from bodysense.kalman import FILTERS, run_filter, state_filter

START = np.array([0.0, 3.0, 0.0, 0.4, 0.0])
SPREAD = np.diag([1.0, 2.0, 0.5, 0.2, 0.2])


def numerical_tangent(model, k, x, step=1e-6):
    """Derivative of `advance` by central differences."""
    ahead, behind = (model.advance(k, x + s * step * np.eye(x.size)) for s in (1.0, -1.0))
    return (ahead - behind).T / (2.0 * step)


@pytest.mark.parametrize(
    ("plain", "root"), [("ekf", "srekf"), ("ukf", "srukf"), ("cdkf", "srcdkf")]
)
def test_square_root_and_plain_forms_agree(plain, root, pendulum, swing, rng):
    _, y = swing(pendulum, rng, 300)
    y[40:50] = np.nan
    a, b = (run_filter(state_filter(name), pendulum, START, SPREAD, y) for name in (plain, root))
    assert a.ok, a.message
    assert b.ok, b.message
    np.testing.assert_allclose(a.means, b.means, rtol=0, atol=1e-8)
    np.testing.assert_allclose(a.state.covariance, b.state.covariance, rtol=0, atol=1e-8)
    assert a.log_likelihood == pytest.approx(b.log_likelihood, abs=1e-6)


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_the_pendulums_parameters_are_found(name, pendulum, swing, rng):
    truth, y = swing(pendulum, rng, 800)
    run = run_filter(state_filter(name), pendulum, START, SPREAD, y)
    error = (run.state.mean - truth) / run.state.sigma
    assert run.ok, run.message
    assert (run.state.sigma < 0.3 * np.diag(SPREAD)).all()
    assert np.abs(error).max() < 4.0
    assert run.nis.mean() == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("name", ["ekf", "srekf"])
def test_the_extended_filter_is_the_textbooks_with_a_numerical_tangent(name, pendulum, swing, rng):
    """Parameters times velocities: bilinear, and the reference differentiates on its own."""
    _, y = swing(pendulum, rng, 60)
    run = run_filter(state_filter(name), pendulum, START, SPREAD, y)
    x, P = START, SPREAD @ SPREAD
    for k in range(60):
        if k:
            A = np.vstack((np.eye(3, 5), numerical_tangent(pendulum, k - 1, x)))
            Q = np.zeros((5, 5))
            Q[3:, 3:] = pendulum.noise(k, x) @ pendulum.noise(k, x).T
            x = np.concatenate((x[:3], pendulum.advance(k - 1, x[None])[0]))
            P = A @ P @ A.T + Q
        H = pendulum.H
        S = H @ P @ H.T + np.diag(pendulum.sigma**2)
        K = P @ H.T @ np.linalg.inv(S)
        x, P = x + K @ (y[k] - H @ x), P - K @ S @ K.T
    np.testing.assert_allclose(run.state.mean, x, atol=1e-6)
    np.testing.assert_allclose(run.state.covariance, P, atol=1e-6)


def test_families_agree_where_the_spread_is_small(pendulum, swing, rng):
    _, y = swing(pendulum, rng, 100)
    runs = [
        run_filter(state_filter(name), pendulum, START, 1e-3 * SPREAD, y)
        for name in sorted(FILTERS)
    ]
    for one, other in pairwise(runs):
        np.testing.assert_allclose(one.state.mean, other.state.mean, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_a_random_walk_lets_parameters_follow_a_change(name, pendulum):
    """The load on the pendulum grows; without a walk the filter clings to its average."""
    x, y = np.array([0.3, 4.0, 0.2, 0.5, 0.0]), []
    for k in range(400):
        y.append(x[3:4])
        load = 4.0 if k < 200 else 6.0
        x = np.concatenate(([0.3, load, 0.2], pendulum.advance(k, x[None])[0]))

    class Walking(type(pendulum)):
        def parameter_noise(self, k):
            return np.full(3, 1e-3) if k % 5 == 0 else None

    still, walking = (
        run_filter(state_filter(name), model, START, SPREAD, y) for model in (pendulum, Walking())
    )
    assert still.ok, still.message
    assert walking.ok, walking.message
    assert abs(walking.state.mean[1] - 6.0) < 0.5
    assert abs(walking.state.mean[1] - 6.0) < abs(still.state.mean[1] - 6.0)
