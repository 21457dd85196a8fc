"""Small dense matrices against numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from bodysense.estimation._kernels import small

# Python cannot call the kernels themselves.


@njit
def inverse(P, work, out):
    small.semidefinite_inverse(P, work, out)


@njit
def take_in(R, new, k):
    small.take_in(R, new, k)


@njit
def products(A, B, C, out, more):
    small.product(A, B, out)
    small.add_product(-2.0, A, B, more)
    small.add_product(0.5, C.T, B, more)
    small.add_product(1.0, A, B.T.copy().T, more)


@njit
def solved(S, B):
    log = small.factorise(S, 0.0)
    small.forward(S, B)
    small.backward(S, B)
    return log


seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 9), st.integers(0, 9), st.floats(-12.0, 12.0))
def test_semidefinite_inverse_is_generalised(seed, n, rank, size):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, min(rank, n))) * 10.0 ** (size / 2)
    P = root @ root.T
    J = np.full((n, n), np.nan)
    inverse(P, np.full((n + 1, n), np.nan), J)
    assert np.isfinite(J).all()
    np.testing.assert_allclose(J, J.T)
    scale = np.linalg.norm(P) * (1.0 + np.linalg.norm(P) * np.linalg.norm(J))
    assert np.linalg.norm(P @ J @ P - P) <= 1e-12 * scale


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(1, 8))
def test_semidefinite_inverse_of_a_definite_matrix_is_its_inverse(seed, n):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n)) + 3.0 * np.eye(n)
    scale = np.diag(10.0 ** rng.uniform(-8.0, 8.0, n))  # units far apart
    P = scale @ root @ root.T @ scale
    J = np.empty((n, n))
    inverse(P, np.empty((n + 1, n)), J)
    np.testing.assert_allclose(
        scale @ J @ scale, np.linalg.inv(root @ root.T), rtol=1e-7, atol=1e-9
    )


def test_semidefinite_inverse_leaves_out_what_has_no_variance():
    P = np.zeros((4, 4))
    P[1, 1], P[3, 3] = 4.0, 0.25
    J = np.empty((4, 4))
    inverse(P, np.empty((5, 4)), J)
    np.testing.assert_array_equal(J, np.diag([0.0, 0.25, 0.0, 4.0]))


def test_semidefinite_inverse_never_divides_by_what_rounding_left():
    v = np.array([1e-18, 1.0, 0.1])
    J = np.empty((3, 3))
    inverse(np.outer(v, v), np.empty((4, 3)), J)
    np.testing.assert_allclose(J, np.diag([0.0, 1.0, 0.0]))


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 9), st.integers(0, 8), st.integers(1, 5), st.integers(0, 7))
def test_take_in_keeps_the_normal_equations(seed, n, k, r, empty):
    rng = np.random.default_rng(seed)
    R = np.concatenate([np.triu(rng.normal(size=(n, n))), rng.normal(size=(n, r))], axis=1)
    R[: min(empty, n)] = 0.0  # nothing known yet
    new = rng.normal(size=(k + 1, n + r))
    new[:, rng.integers(n)] = 0.0
    before = np.concatenate([R, new[:k]])
    last = new[k].copy()
    take_in(R, new, k)
    after = np.concatenate([R, new[:k]])
    np.testing.assert_allclose(after.T @ after, before.T @ before, atol=1e-12 * (1 + n + k) * 10)
    np.testing.assert_array_equal(np.tril(R[:, :n], -1), 0.0)
    np.testing.assert_array_equal(new[:k, :n], 0.0)
    np.testing.assert_array_equal(new[k], last)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 9), st.integers(0, 9), st.integers(1, 14), st.integers(0, 3))
def test_products(seed, m, depth, n, spare):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(m, depth + spare)), rng.normal(size=(depth, n))
    C = rng.normal(size=(depth, m))
    out, more = np.full((m, n + spare), 7.0), np.ones((m, n))
    products(A, B, C, out, more)
    AB = A[:, :depth] @ B
    np.testing.assert_allclose(out[:, :n], AB, atol=1e-13)
    np.testing.assert_array_equal(out[:, n:], 7.0)
    np.testing.assert_allclose(more, 1.0 - AB + 0.5 * C.T @ B, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(1, 9), st.integers(1, 4), st.integers(0, 3))
def test_factors_solve(seed, n, r, spare):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n)) + 4.0 * np.eye(n)
    S, B = np.zeros((n, n + spare)), rng.normal(size=(n, r))
    S[:, :n] = root @ root.T
    expected = np.linalg.solve(S[:, :n], B)
    log = 0.5 * np.linalg.slogdet(S[:, :n])[1]
    assert abs(solved(S, B) - log) < 1e-10
    np.testing.assert_allclose(B, expected, rtol=1e-7, atol=1e-10)


def test_a_matrix_that_is_not_definite_gives_finite_factors():
    S, B = np.array([[1.0, 1.0], [1.0, 1.0]]), np.ones((2, 1))
    assert np.isfinite(solved(S, B))
    assert np.isfinite(B).all()
