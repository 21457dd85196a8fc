"""The particle filter against the Kalman filter, and what happens when particles run out."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import ShapeError
from bodysense.kalman import ParticleFilter, run_filter, run_particles, state_filter


@pytest.mark.parametrize(("p", "m"), [(0, 2), (1, 1)])
def test_it_is_the_kalman_filter_on_average_on_a_linear_system(p, m, linear, rng):
    model = linear(rng, p, m, 2)
    mean, S = np.zeros(p + m), np.eye(p + m)
    _, y = model.simulate(rng, mean, S, 15)
    y[6] = np.nan
    exact = run_filter(state_filter("srekf"), model, mean, S, y)
    method = ParticleFilter(particles=2000, shrinkage=0.99)
    runs = [
        run_particles(method, model, mean, S, y, rng=np.random.default_rng(seed))
        for seed in range(30)
    ]
    assert all(run.ok and run.steps == 15 for run in runs)
    means = np.array([run.means for run in runs])
    error = means.std(axis=0, ddof=1) / np.sqrt(len(runs))
    # A ratio of sums is biased by the order of 1/n: allow for it beside four standard errors.
    assert (np.abs(means.mean(axis=0) - exact.means) < 4.0 * error + 2e-3).all()
    variances = np.mean([np.diag(run.state.covariance) for run in runs], axis=0)
    np.testing.assert_allclose(variances, exact.state.sigma**2, rtol=0.1)
    likelihoods = np.array([run.log_likelihood for run in runs])
    assert likelihoods.mean() == pytest.approx(
        exact.log_likelihood, abs=4.0 * likelihoods.std() / np.sqrt(30) + likelihoods.var()
    )
    np.testing.assert_allclose(
        np.mean([run.innovations[[0, 3]] for run in runs], axis=0),
        exact.innovations[[0, 3]],
        atol=0.05,
    )
    assert np.isnan(runs[0].nis[6])


def test_the_pendulums_parameters_are_found(pendulum, swing, rng):
    truth, y = swing(pendulum, rng, 200)
    start, S = np.array([0.0, 3.0, 0.0, 0.4, 0.0]), np.diag([0.5, 1.0, 0.3, 0.2, 0.2])
    run = run_particles(ParticleFilter(4000), pendulum, start, S, y, rng=rng)
    assert run.ok, run.message
    assert (np.abs(run.state.mean - truth) < 4.0 * run.state.sigma + 0.05).all()
    assert (run.state.sigma < np.diag(S)).all()


def test_the_same_seed_gives_the_same_run(pendulum, swing, rng):
    _, y = swing(pendulum, rng, 30)
    one, other = (
        run_particles(
            ParticleFilter(200),
            pendulum,
            np.zeros(5),
            0.5 * np.eye(5),
            y,
            rng=np.random.default_rng(4),
        )
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.means, other.means)


def test_a_restart_draws_the_moving_part_anew(linear, rng):
    model = linear(rng, 1, 2, 1)
    y = np.full((6, 1), np.nan)
    start, root = np.array([3.0, -2.0]), np.array([[0.1, 0.0], [0.05, 0.2]])
    run = run_particles(
        ParticleFilter(20_000),
        model,
        np.ones(3),
        np.eye(3),
        y,
        rng=rng,
        restarts={5: (start, root)},
    )
    np.testing.assert_allclose(run.state.mean[1:], start, atol=0.01)
    np.testing.assert_allclose(run.state.covariance[1:, 1:], root @ root.T, atol=3e-3)
    assert np.abs(run.state.covariance[0, 1:]).max() < 0.01


def test_parameters_walk_when_the_model_says_so(linear, rng):
    model = linear(rng, 2, 1, 1)
    model.walk = np.array([0.5, 0.0])
    run = run_particles(
        ParticleFilter(20_000),
        model,
        np.zeros(3),
        0.1 * np.eye(3),
        np.full((3, 1), np.nan),
        rng=rng,
    )
    np.testing.assert_allclose(np.diag(run.state.covariance)[:2], [0.51, 0.01], rtol=0.05)


def test_particles_that_all_run_away_end_the_run(linear, rng):
    model = linear(rng, 1, 2, 1)
    model.F = model.F * 1e8
    run = run_particles(ParticleFilter(50), model, np.ones(3), np.eye(3), np.zeros((9, 1)), rng=rng)
    assert not run.ok
    assert "no particle explains the measurement" in run.message
    assert "srukf" in run.message
    assert np.isfinite(run.state.mean).all()
    assert run.steps < 9


def test_some_particles_that_run_away_do_no_harm(linear, rng):
    class Escaping:
        def __init__(self, model):
            self._model = model

        def __getattr__(self, name):
            return getattr(self._model, name)

        def advance(self, k, X):
            new = self._model.advance(k, X)
            new[:5] = [[np.nan], [np.inf], [1e200], [-1e10], [np.nan]]
            return new

    model = linear(rng, 1, 1, 1)
    run = run_particles(
        ParticleFilter(500), Escaping(model), np.zeros(2), np.eye(2), np.zeros((9, 1)), rng=rng
    )
    assert run.ok, run.message
    assert np.isfinite(run.means).all()


def test_far_measurements_do_not_vanish_in_exponentials(linear, rng):
    """All likelihoods underflow; their ratios do not."""
    model = linear(rng, 0, 2, 1)
    model.sigma = np.array([1e-3])
    y = np.full((1, 1), 1e3)
    run = run_particles(ParticleFilter(300), model, np.zeros(2), np.eye(2), y, rng=rng)
    assert run.steps == 1
    assert np.isfinite(run.log_likelihood)
    assert np.isfinite(run.state.covariance).all()


def test_a_handful_of_particles_is_not_called_a_result(linear, rng):
    model = linear(rng, 20, 3, 3)
    model.sigma = np.full(3, 1e-3)
    mean, S = np.zeros(23), np.eye(23)
    _, y = model.simulate(rng, mean, S, 20)
    run = run_particles(ParticleFilter(100), model, mean, S, y, rng=rng)
    assert not run.ok
    assert "carry the weight" in run.message


@pytest.mark.parametrize(
    "settings",
    [
        {"particles": 1},
        {"resample_below": 0.0},
        {"resample_below": 1.5},
        {"shrinkage": 0.0},
        {"shrinkage": 1.1},
        {"shrinkage": np.nan},
    ],
)
def test_settings_without_meaning_are_refused(settings):
    with pytest.raises(ShapeError, match=next(iter(settings))):
        ParticleFilter(**settings)
