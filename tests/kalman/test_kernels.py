"""The compiled loops against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.compiled.triangles import absorb, add_variances, join
from bodysense.kalman._kernels.points import moving_size, pair_columns, pair_points


def upper(rng, n):
    return np.triu(rng.normal(size=(n, n)))


def test_points_lie_in_pairs_along_the_columns(rng):
    x, U = rng.normal(size=4), upper(rng, 4)
    X = pair_points(x, U, 1.7)
    np.testing.assert_allclose(X, [x, *(x + 1.7 * U), *(x - 1.7 * U)])


def test_columns_hold_differences_sums_and_noise(rng):
    values, E = rng.normal(size=(7, 2)), rng.normal(size=(2, 3))
    mean, columns = pair_columns(values, E, 1.5, 0.2, 0.3)
    ahead, behind = values[1:4], values[4:]
    sums = ahead + behind - 2.0 * values[0]
    np.testing.assert_allclose(mean, values[0] + sums.sum(axis=0) / 4.5)
    np.testing.assert_allclose(columns[:3], (ahead - behind) / 3.0)
    np.testing.assert_allclose(columns[3:6], np.sqrt(0.2) * sums)
    np.testing.assert_allclose(columns[6], np.sqrt(0.3) * sums.sum(axis=0))
    np.testing.assert_allclose(columns[7:], E.T)


@pytest.mark.parametrize("p", [0, 3])
def test_joined_factors_have_the_covariance_of_their_columns(rng, p):
    n = p + 4
    U, columns = upper(rng, n), rng.normal(size=(p + 9, 4))
    columns[:, 2] = 0.0  # nothing moves this entry: a zero on the diagonal, no division by it
    kept = columns.copy()
    new = join(U, columns, p)
    np.testing.assert_array_equal(np.tril(new, -1), 0.0)
    np.testing.assert_array_equal(new[:p, :p], U[:p, :p])
    np.testing.assert_allclose((new.T @ new)[p:, p:], kept.T @ kept, atol=1e-12)
    np.testing.assert_allclose((new.T @ new)[:p, p:], U[:p, :p].T @ kept[:p], atol=1e-12)
    assert (np.diag(new)[p:] >= 0.0).all()
    assert np.isfinite(new).all()


def test_added_variances_stand_on_the_diagonal(rng):
    U = upper(rng, 6)
    U[2] = 0.0  # a state known for sure
    variances = np.array([0.5, 0.0, 2.0, 1e-12])
    P = U.T @ U + np.diag([*variances, 0.0, 0.0])
    add_variances(U, variances)
    np.testing.assert_array_equal(np.tril(U, -1), 0.0)
    np.testing.assert_allclose(U.T @ U, P, atol=1e-12)


def test_scalar_measurements_are_the_joint_one(rng):
    n, n_y = 6, 4
    U, mean, H = upper(rng, n), rng.normal(size=n), rng.normal(size=(n_y, n))
    H[1] = np.eye(n)[2]
    sigma, y = rng.uniform(0.1, 1.0, n_y), rng.normal(size=n_y)
    y[3] = np.nan
    P, rows = U.T @ U, slice(0, 3)
    S = H @ P @ H.T + np.diag(sigma**2)
    K = P @ H[rows].T @ np.linalg.inv(S[rows, rows])
    nu = y - H @ mean
    expected = mean + K @ nu[rows], P - K @ H[rows] @ P
    innovation, variance, squared, log_det = absorb(mean, U, H, sigma, y)
    np.testing.assert_array_equal(np.tril(U, -1), 0.0)
    np.testing.assert_allclose(mean, expected[0], atol=1e-12)
    np.testing.assert_allclose(U.T @ U, expected[1], atol=1e-12)
    np.testing.assert_allclose(innovation, nu, atol=1e-12)
    np.testing.assert_allclose(variance, np.diag(S))
    assert squared == pytest.approx(nu[rows] @ np.linalg.solve(S[rows, rows], nu[rows]))
    assert log_det == pytest.approx(np.linalg.slogdet(S[rows, rows])[1])


def test_the_order_of_scalar_measurements_does_not_matter(rng):
    U, mean, H = upper(rng, 5), rng.normal(size=5), rng.normal(size=(3, 5))
    sigma, y = rng.uniform(0.1, 1.0, 3), rng.normal(size=3)
    other = mean.copy(), U.copy()
    absorb(mean, U, H, sigma, y)
    absorb(*other, H[::-1].copy(), sigma[::-1].copy(), y[::-1].copy())
    np.testing.assert_allclose(mean, other[0], atol=1e-12)
    np.testing.assert_allclose(U.T @ U, other[1].T @ other[1], atol=1e-12)


def test_extreme_noise_keeps_a_factor_finite(rng):
    U, mean, H = 1e8 * upper(rng, 5), rng.normal(size=5), rng.normal(size=(2, 5))
    absorb(mean, U, H, np.array([1e-140, 1e140]), np.ones(2))
    assert np.isfinite(U).all()
    assert np.isfinite(mean).all()


def test_the_size_of_the_moving_part_is_nan_when_anything_is(rng):
    mean, U = np.array([1e12, -3.0, 2.0]), np.eye(3)
    assert moving_size(mean, U, 1) == 3.0
    U[0, 0] = np.inf
    assert np.isnan(moving_size(mean, U, 1))
    assert np.isnan(moving_size(np.array([np.nan, 1.0, 1.0]), np.eye(3), 1))
