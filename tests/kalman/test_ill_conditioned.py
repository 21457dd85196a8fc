"""A huge prior and tiny noise: plain forms say that they are lost, square-root forms go on.

The reference computes with 80 digits.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

from bodysense.kalman import run_filter, state_filter

N_T = 12


class Shift:
    """A known mixing of two parameters into two moving entries, hardly any noise."""

    n_parameters = 2
    n_moving = 2
    H = np.array([[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1e-3]])
    sigma = np.full(2, 1e-7)
    F = np.array([[1.0, 1.0, 0.5, 0.0], [1.0, 1.001, 0.25, 0.5]])

    def advance(self, k, X):
        return X @ self.F.T

    def tangent(self, k, x):
        return self.F @ x, self.F

    def noise(self, k, x):
        return 1e-7 * np.eye(2)

    def parameter_noise(self, k):
        return None


MEAN = np.zeros(4)
FACTOR = 1e6 * np.eye(4)


@pytest.fixture(scope="module")
def measured():
    rng = np.random.default_rng(3)
    x, ys = np.array([3.0, -2.0, 0.4, 0.7]), []
    for k in range(N_T):
        if k:
            x = np.concatenate((x[:2], Shift.F @ x + 1e-7 * rng.normal(size=2)))
        ys.append(Shift.H @ x + Shift.sigma * rng.normal(size=2))
    return np.array(ys)


@pytest.fixture(scope="module")
def reference(measured):
    """Mean and covariance of a Kalman filter in decimals, one scalar measurement at a time."""

    def exact(array):
        return np.vectorize(lambda v: Decimal(float(v)), otypes=[object])(array)

    with localcontext() as context:
        context.prec = 80
        x, P = exact(MEAN), exact(FACTOR) @ exact(FACTOR).T
        A = exact(np.vstack((np.eye(2, 4), Shift.F)))
        Q = exact(np.diag([0.0, 0.0, 1e-7, 1e-7])) @ exact(np.diag([0.0, 0.0, 1e-7, 1e-7]))
        for k in range(N_T):
            if k:
                x, P = A @ x, A @ P @ A.T + Q
            for h, s, value in zip(
                exact(Shift.H), exact(Shift.sigma), exact(measured[k]), strict=True
            ):
                gain = P @ h / (h @ P @ h + s * s)
                x, P = x + gain * (value - h @ x), P - np.outer(gain, h @ P)
        return x.astype(float), P.astype(float)


@pytest.mark.parametrize("name", ["ekf", "ukf", "cdkf"])
def test_plain_forms_end_with_advice(name, measured):
    run = run_filter(state_filter(name), Shift(), MEAN, FACTOR, measured)
    assert not run.ok
    assert "lost its definiteness" in run.message
    assert f"sr{name}" in run.message
    assert np.isfinite(run.state.mean).all()
    assert np.isfinite(run.state.factor).all()


@pytest.mark.parametrize("name", ["srekf", "srukf", "srcdkf"])
def test_square_root_forms_match_eighty_digits(name, measured, reference):
    run = run_filter(state_filter(name), Shift(), MEAN, FACTOR, measured)
    mean, P = reference
    sigma = np.sqrt(np.diag(P))
    assert run.ok, run.message
    np.testing.assert_allclose(run.state.sigma, sigma, rtol=1e-8)
    np.testing.assert_allclose((run.state.mean - mean) / sigma, 0.0, atol=1e-4)
    np.testing.assert_allclose(
        run.state.covariance / np.outer(sigma, sigma), P / np.outer(sigma, sigma), atol=1e-7
    )
