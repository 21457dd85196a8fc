"""Quadratic programs between bounds against another solver and their own optimality."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from bodysense.identification.consistent import projection as box_program
from bodysense.identification.consistent.projection import solve_box


def problem(rng, n, strength=1.0):
    root = rng.normal(size=(n, n)) * strength ** rng.uniform(-1.0, 1.0, n)
    lower, upper = -rng.uniform(0.0, 1.0, n), rng.uniform(0.0, 1.0, n)
    lower[rng.random(n) < 0.3], upper[rng.random(n) < 0.3] = -np.inf, np.inf
    return root, rng.normal(size=n) * 3.0, lower, upper


def test_against_bounded_least_squares(rng):
    for _ in range(30):
        A, b, lower, upper = problem(rng, int(rng.integers(1, 25)))
        H = A.T @ A + 1e-6 * np.eye(b.size)
        tall, right = np.vstack([A, 1e-3 * np.eye(b.size)]), np.append(b, np.zeros(b.size))
        expected = lsq_linear(tall, right, (lower, upper), method="bvls", tol=1e-14).x
        for guess in (None, expected, rng.normal(size=b.size)):
            found = solve_box(H, -A.T @ b, lower, upper, guess)
            np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("by_conic", [False, True])
def test_nothing_is_left_to_gain(by_conic, rng, monkeypatch):
    if by_conic:
        monkeypatch.setattr(box_program, "_MOST_GUESSES", 0)
    for _ in range(20):
        A, b, lower, upper = problem(rng, 20, strength=10.0)
        H, g = A.T @ A + 1e-3 * np.eye(20), -A.T @ b
        d = solve_box(H, g, lower, upper)
        assert ((d >= lower) & (d <= upper)).all()
        slope = H @ d + g
        size = 1e-5 * np.abs(g).max()
        assert (slope[d > lower + 1e-7] < size).all()
        assert (slope[d < upper - 1e-7] > -size).all()
