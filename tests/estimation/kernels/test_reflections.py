"""Products of small matrices, and reflections there and back, against numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from bodysense.estimation._kernels import conditioning, reflections, small

# Python cannot call the kernels themselves.


@njit
def take_in(R, heads, columns, new, k, kept):
    reflections.take_in(R, heads, columns, new, k, kept)


@njit
def give_back(kept, heads, u, n, k, columns):
    reflections.give_back(kept, heads, u, n, k, columns)


@njit
def shorten(V, rows, columns, out):
    return reflections.shorten(V, rows, columns, out)


@njit
def whiten(R, size, B, columns):
    conditioning.whiten(R, size, B, columns)
    return conditioning._log_diagonal(R, size)


@njit
def products(A, B, C, rows, depth, columns, out, more):
    small.product(A, B, rows, depth, columns, out)
    small.add_product(-1.0, A, B, rows, depth, columns, more)
    small.add_transposed_product(0.5, C, B, rows, depth, columns, more)


seeds = st.integers(0, 2**32 - 1)


def triangle(rng, n, r, empty):
    """A triangle with columns behind it, of whose rows some know nothing yet."""
    R = np.concatenate([np.triu(rng.normal(size=(n, n))), rng.normal(size=(n, r))], axis=1)
    R[: min(empty, n)] = 0.0
    return R


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 9), st.integers(0, 8), st.integers(0, 5), st.integers(0, 7))
def test_take_in_keeps_the_normal_equations(seed, n, k, r, empty):
    rng = np.random.default_rng(seed)
    R, new = triangle(rng, n, r, empty), rng.normal(size=(k + 1, n + r))
    new[:, rng.integers(n)] = 0.0
    before, last = np.concatenate([R, new[:k]]), new[k].copy()
    take_in(R, n, n + r, new, k, np.full((n, 2 + k), np.nan))
    new[:k, :n] = 0.0  # spent
    after = np.concatenate([R, new[:k]])
    np.testing.assert_allclose(after.T @ after, before.T @ before, atol=1e-12 * (1 + n + k) * 10)
    np.testing.assert_array_equal(np.tril(R[:, :n], -1), 0.0)
    np.testing.assert_array_equal(new[k], last)


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 9), st.integers(0, 8), st.integers(1, 9), st.integers(0, 7))
def test_give_back_undoes_take_in(seed, n, k, columns, empty):
    """(R; N)ᵀ (u; n) is the same with the sources before and after."""
    rng = np.random.default_rng(seed)
    R, N = triangle(rng, n, 0, empty), rng.normal(size=(k, n))
    before, kept = np.concatenate([R, N]), np.full((n, 2 + k), np.nan)
    take_in(R, n, n, N.copy(), k, kept)
    u, more = rng.normal(size=(n, columns)), rng.normal(size=(k, columns))
    f, size = R.T @ u, np.linalg.norm(u) ** 2 + np.linalg.norm(more) ** 2
    give_back(kept, n, u, more, k, columns)
    np.testing.assert_allclose(before.T @ np.concatenate([u, more]), f, atol=1e-12 * (n + k) * 10)
    assert abs(np.linalg.norm(u) ** 2 + np.linalg.norm(more) ** 2 - size) < 1e-12 * (1.0 + size)


def test_large_and_small_sources_keep_their_digits():
    """A source of 1e-8 beside one of 1e6, both to all digits: covariances would lose it."""
    R, N = np.diag([1e6, 0.0]), np.array([[1e6, 0.0], [0.0, 1e-8]])
    take_in(R, 2, 2, N, 2, np.zeros((2, 4)))
    np.testing.assert_allclose(np.abs(np.diag(R)), [np.sqrt(2.0) * 1e6, 1e-8], rtol=1e-14)


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 9), st.integers(1, 20), st.integers(0, 3))
def test_shorten_keeps_the_covariance(seed, rows, columns, dependent):
    rng = np.random.default_rng(seed)
    V = np.full((rows + 1, columns + 2), 7.0)
    V[:rows, :columns] = rng.normal(size=(rows, columns))
    V[: min(dependent, rows), :columns] = 0.0
    covariance = V[:rows, :columns] @ V[:rows, :columns].T
    out = np.full((rows + 1, rows + 1), 7.0)
    left = shorten(V, rows, columns, out)
    assert left == min(rows, columns)
    np.testing.assert_allclose(
        out[:rows, :left] @ out[:rows, :left].T, covariance, atol=1e-12 * 400
    )
    np.testing.assert_array_equal(V[rows], 7.0)
    np.testing.assert_array_equal(out[rows], 7.0)


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(1, 9), st.integers(0, 4))
def test_whiten_solves_with_the_triangle(seed, n, columns):
    rng = np.random.default_rng(seed)
    R, B = np.triu(rng.normal(size=(n, n))) + 3.0 * np.eye(n), rng.normal(size=(n, columns))
    expected = np.linalg.solve(R.T, B)
    assert abs(whiten(R, n, B, columns) - np.linalg.slogdet(R)[1]) < 1e-12
    np.testing.assert_allclose(B, expected, rtol=1e-9, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 9), st.integers(0, 9), st.integers(1, 14), st.integers(0, 3))
def test_products(seed, m, depth, n, spare):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(m, depth + spare)), rng.normal(size=(depth, n))
    C = rng.normal(size=(depth, m))
    out, more = np.full((m, n + spare), 7.0), np.ones((m, n))
    products(A, B, C, m, depth, n, out, more)
    AB = A[:, :depth] @ B
    np.testing.assert_allclose(out[:, :n], AB, atol=1e-13)
    np.testing.assert_array_equal(out[:, n:], 7.0)
    np.testing.assert_allclose(more, 1.0 - AB + 0.5 * C.T @ B, atol=1e-12)
