"""Robust least squares: the minimum of Huber's cost, and what outliers do not do to it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from bodysense.errors import UnknownNameError
from bodysense.identification import identifier
from bodysense.identification.prior import Prior

METHODS = [identifier("irls"), identifier("irls", weighting="window")]


def gross(rng: np.random.Generator, tau: np.ndarray) -> np.ndarray:
    """One torque in twenty is far off, always to the same side."""
    wrong = rng.random(tau.shape) < 0.05
    return np.where(wrong, tau + rng.uniform(5.0, 30.0, tau.shape), tau)


@pytest.fixture(scope="module")
def dirty(simulate):
    return simulate(0.1, n_t=500, disturb=gross)


def test_huber_is_the_minimum_of_hubers_cost(dirty):
    problem, prior = dirty.problem, Prior.of(dirty.problem)
    weighing = identifier("irls", tolerance=1e-10, iterations=300).estimate(problem, prior)
    scale = weighing.sigma[dirty.log, dirty.joint]
    # Columns of one length, so that a general minimiser can do it.
    A, z = dirty.Y / scale[:, None], dirty.y / scale
    length = np.linalg.norm(A, axis=0)
    A = A / length
    k = 1.345

    def cost(x):
        u = A @ x - z
        small = np.abs(u) <= k
        value = np.where(small, 0.5 * u**2, k * np.abs(u) - 0.5 * k**2).sum()
        return value, A.T @ np.clip(u, -k, k)

    start = np.linalg.lstsq(A, z, rcond=None)[0]
    best = minimize(cost, start, jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 5000})
    found = problem.base.to_base(weighing.theta) * length
    value, slope = cost(found)
    assert np.abs(slope).max() < 1e-4 * np.abs(cost(start)[1]).max()
    assert value == pytest.approx(best.fun, rel=1e-9)
    np.testing.assert_allclose(found, best.x, atol=1e-4 * np.abs(best.x).max())


def test_levels_are_medians_of_the_final_residuals(dirty):
    problem, prior = dirty.problem, Prior.of(dirty.problem)
    weighing = identifier("irls", tolerance=1e-9, iterations=300).estimate(problem, prior)
    residual = dirty.y - dirty.Y @ problem.base.to_base(weighing.theta)
    for joint in range(3):
        level = np.median(np.abs(residual[dirty.joint == joint])) / 0.6744897501960817
        assert weighing.sigma[0, joint] == pytest.approx(level, rel=1e-3)
        assert level == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.weights.weighting)
def test_outliers_do_little(method, dirty, simulate):
    size = Prior.of(dirty.problem).size_base

    def error(found) -> float:
        return float(np.linalg.norm((found.theta_base - dirty.truth) / size))

    robust, plain = error(method.fit(dirty.problem)), error(identifier("ols").fit(dirty.problem))
    clean = error(identifier("ols").fit(simulate(0.1, n_t=500).problem))
    assert robust < 0.1 * plain
    assert robust < 3.0 * clean


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.weights.weighting)
def test_without_outliers_next_to_nothing_is_lost(method, simulate):
    errors = np.zeros(2)
    for seed in range(8):
        simulated = simulate(0.1, n_t=300, seed=seed)
        for k, one in enumerate((method, identifier("ols"))):
            wrong = one.fit(simulated.problem).theta_base - simulated.truth
            errors[k] += np.sum((simulated.Y @ wrong) ** 2)
    # 95 % efficiency; the same noise for both.
    assert errors[0] < 1.15 * errors[1]


def test_weights_of_the_window_never_grow(dirty, monkeypatch):
    problem, prior = dirty.problem, Prior.of(dirty.problem)
    seen = []
    factors = type(problem).weighted_factors

    def watched(self, weights):
        if weights is not None:
            seen.append(np.concatenate([w.ravel() for w in weights]))
        return factors(self, weights)

    monkeypatch.setattr(type(problem), "weighted_factors", watched)
    weighing = identifier("irls", weighting="window", tolerance=0.0, iterations=8).estimate(
        problem, prior
    )
    steps = np.array(seen[:8])
    assert len(weighing.trace) == 8
    assert (np.diff(steps, axis=0) <= 0.0).all()
    assert (np.diff(steps, axis=0) < 0.0).any()
    assert steps.min() == 0.0  # outliers are out
    assert np.median(steps[-1]) == 1.0


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.weights.weighting)
def test_weights_as_functions_of_the_residual(method):
    u = np.array([0.0, 1.0, -1.345, 2.0, -3.0, 4.0, 100.0])
    weights = method.weights._row_factor(u) ** 2
    if method.weights.weighting == "huber":
        np.testing.assert_allclose(weights, np.minimum(1.0, 1.345 / np.maximum(np.abs(u), 1e-9)))
    else:
        np.testing.assert_allclose(weights, [1, 1, 1, 1, 0.25, 0, 0], atol=1e-15)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.weights.weighting)
def test_noise_free_data_give_the_truth(method, simulate):
    simulated = simulate(0.0)
    found = method.fit(simulated.problem)
    np.testing.assert_allclose(found.theta_base, simulated.truth, atol=1e-8)


def test_an_unknown_weighting_is_refused():
    with pytest.raises(UnknownNameError, match="'huber'"):
        identifier("irls", weighting="hubert")
