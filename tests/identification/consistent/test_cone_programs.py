"""Programs given to Clarabel by hand against the same ones written for a modelling layer."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from bodysense.identification.consistent.projection import _ConicRows, _matrix_rows, _solve_conic


def symmetric(rng, *shape) -> np.ndarray:
    M = rng.normal(size=(4, 4, *shape))
    return M + np.swapaxes(M, 0, 1)


@pytest.mark.parametrize("diagonal", [True, False])
def test_all_kinds_of_rows_against_cvxpy(diagonal, rng):
    n = 12
    for _ in range(5):
        root = rng.normal(size=(n, n))
        Q = rng.uniform(0.5, 2.0, n) if diagonal else root @ root.T + np.eye(n)
        q = rng.normal(size=n)
        inside = rng.normal(size=n)
        E, G = rng.normal(size=(2, n)), rng.normal(size=(5, n))
        slope, offset = symmetric(rng, n), symmetric(rng)
        offset += (0.3 - np.linalg.eigvalsh(offset + slope @ inside)[0]) * np.eye(4)
        e, g = E @ inside, G @ inside + rng.uniform(0.0, 0.3, 5)
        rows = [_ConicRows("equal", E, e), _ConicRows("at most", G, g), _matrix_rows(slope, offset)]
        found, word = _solve_conic(Q, q, rows)
        assert word in ("Solved", "AlmostSolved")
        x = cp.Variable(n)
        P = sum(slope[:, :, k] * x[k] for k in range(n)) + offset
        full = np.diag(Q) if diagonal else Q
        constraints = [E @ x == e, G @ x <= g, P >> 0]
        program = cp.Problem(cp.Minimize(0.5 * cp.quad_form(x, full) + q @ x), constraints)
        program.solve(solver=cp.SCS, eps=1e-9, max_iters=100_000)
        np.testing.assert_allclose(found, x.value, atol=1e-5)
        assert np.linalg.eigvalsh(slope @ found + offset)[0] > -1e-8


def test_what_cannot_be_is_said():
    rows = [
        _ConicRows("at most", np.eye(2), np.full(2, -1.0)),
        _ConicRows("at most", -np.eye(2), np.zeros(2)),
    ]
    found, word = _solve_conic(np.ones(2), np.zeros(2), rows)
    assert found is None
    assert "Infeasible" in word


def test_without_rows_it_is_a_linear_system():
    found, _ = _solve_conic(np.array([2.0, 4.0]), np.array([-2.0, 4.0]), [])
    np.testing.assert_allclose(found, [1.0, -1.0], atol=1e-9)
