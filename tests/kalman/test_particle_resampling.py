"""Drawing particles anew is unbiased, and spreading them keeps mean and covariance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.kalman.particle import _effective_size, _moments, _shrunk, _systematic


def test_copies_are_right_on_average(rng):
    weights = rng.dirichlet(0.3 * np.ones(12))
    draws = 4000
    counts = sum(np.bincount(_systematic(weights, rng), minlength=12) for _ in range(draws)) / draws
    share = 12 * weights % 1.0
    error = np.sqrt(share * (1.0 - share) / draws)  # a copy more or less, by chance
    assert (np.abs(counts - 12 * weights) <= 4.5 * error + 1e-12).all()


@given(
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=40).filter(lambda w: sum(w) > 1e-3),
    st.integers(0, 1000),
)
def test_the_number_of_copies_is_the_next_integer(weights, seed):
    w = np.array(weights) / np.sum(weights)
    counts = np.bincount(_systematic(w, np.random.default_rng(seed)), minlength=w.size)
    assert counts.sum() == w.size
    assert (np.abs(counts - w.size * w) < 1.0 + 1e-9).all()
    assert (counts[w == 0.0] == 0).all()


def test_one_particle_that_carries_all_is_copied():
    weights = np.array([0.0, 0.0, 1.0, 0.0])
    assert _effective_size(weights) == 1.0
    np.testing.assert_array_equal(_systematic(weights, np.random.default_rng(0)), 2)
    assert _effective_size(np.full(5, 0.2)) == pytest.approx(5.0)


def test_moments_are_those_of_numpy(rng):
    X, weights = rng.normal(size=(50, 3)), rng.dirichlet(np.ones(50))
    mean, covariance = _moments(X, weights)
    np.testing.assert_allclose(mean, np.average(X, axis=0, weights=weights))
    np.testing.assert_allclose(covariance, np.cov(X.T, aweights=weights, ddof=0))


@pytest.mark.parametrize("shrinkage", [0.5, 0.9, 0.98])
def test_shrinking_and_jitter_keep_mean_and_covariance(shrinkage, rng):
    n = 200_000
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + [1.0, -5.0, 20.0]
    mean, covariance = _moments(X, np.full(n, 1.0 / n))
    new_mean, new_covariance = _moments(
        _shrunk(X, mean, covariance, shrinkage, rng), np.full(n, 1.0 / n)
    )
    sigma = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((new_mean - mean) / sigma, 0.0, atol=5.0 / np.sqrt(n))
    np.testing.assert_allclose(
        (new_covariance - covariance) / np.outer(sigma, sigma), 0.0, atol=10.0 / np.sqrt(n)
    )


def test_a_singular_cloud_stays_in_its_plane(rng):
    X = np.outer(rng.normal(size=20), [1.0, 2.0, -1.0])
    mean, covariance = _moments(X, np.full(20, 0.05))
    moved = _shrunk(X, mean, covariance, 0.9, rng)
    np.testing.assert_allclose(moved[:, 1], 2.0 * moved[:, 0], atol=1e-6)
