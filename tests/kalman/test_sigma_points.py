"""Moments from sigma points against the weighted sums of the textbook, and exact cases."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import ShapeError
from bodysense.kalman import CentralDifferences, CovarianceFilter, RootFilter, Unscented

FORMS = (CovarianceFilter, RootFilter)
both_forms = pytest.mark.parametrize("form", FORMS)


class Curved:
    """A moving part with every kind of curvature, and noise."""

    n_parameters = 3
    n_moving = 2
    H = np.eye(2, 5)
    sigma = np.ones(2)

    def advance(self, k, X):
        a, b, c, q, v = X.T
        return np.stack((q + 0.3 * v * a + b**3, np.sin(q) * c + np.exp(0.2 * v) - a * b), axis=1)

    def tangent(self, k, x):
        raise NotImplementedError

    def noise(self, k, x):
        return np.array([[0.1, 0.0, 0.05], [0.0, 0.2, 0.1]])

    def parameter_noise(self, k):
        return None


@pytest.fixture
def start(rng):
    return rng.normal(size=5), np.tril(0.5 * rng.normal(size=(5, 5)))


def images(model, X):
    return np.concatenate((X[:, :3], model.advance(0, X)), axis=1)


def noise(model):
    Q = np.zeros((5, 5))
    Q[3:, 3:] = model.noise(0, None) @ model.noise(0, None).T
    return Q


@both_forms
@pytest.mark.parametrize(
    ("alpha", "beta", "kappa"),
    [(1.0, 2.0, 0.0), (0.1, 2.0, 0.0), (0.7, 1.0, 3.0), (1.0, 1.0, -2.0), (1.2, 2.5, -4.5)],
)
def test_unscented_moments_are_the_textbooks_sums(form, alpha, beta, kappa, start):
    (x, S), n, model = start, 5, Curved()
    lam = alpha**2 * (n + kappa) - n
    points = [x, *(x + np.sqrt(n + lam) * S.T), *(x - np.sqrt(n + lam) * S.T)]
    w_mean = np.full(2 * n + 1, 0.5 / (n + lam))
    w_mean[0] = lam / (n + lam)
    w_cov = w_mean.copy()
    w_cov[0] += 1.0 - alpha**2 + beta
    Z = images(model, np.array(points))
    mean = w_mean @ Z
    P = (Z - mean).T @ np.diag(w_cov) @ (Z - mean) + noise(model)
    method = form(Unscented(alpha, beta, kappa))
    state = method.predict(model, 0, method.start(x, S))
    np.testing.assert_allclose(state.mean, mean, atol=1e-10)
    np.testing.assert_allclose(state.covariance, P, atol=1e-10)


@both_forms
@pytest.mark.parametrize("h", [np.sqrt(3.0), 1.0, 2.5])
def test_central_difference_moments_are_the_textbooks_sums(form, h, start):
    (x, S), n, model = start, 5, Curved()
    centre = images(model, x[None])[0]
    ahead, behind = images(model, x + h * S.T), images(model, x - h * S.T)
    mean = (h**2 - n) / h**2 * centre + (ahead + behind).sum(axis=0) / (2.0 * h**2)
    first, second = ahead - behind, ahead + behind - 2.0 * centre
    P = first.T @ first / (4.0 * h**2) + (h**2 - 1.0) / (4.0 * h**4) * second.T @ second
    method = form(CentralDifferences(h))
    state = method.predict(model, 0, method.start(x, S))
    np.testing.assert_allclose(state.mean, mean, atol=1e-10)
    np.testing.assert_allclose(state.covariance, P + noise(model), atol=1e-10)


@pytest.mark.parametrize(
    "method",
    [
        CovarianceFilter(Unscented()),
        RootFilter(Unscented()),
        CovarianceFilter(Unscented(1.0, 2.0, 1.0)),
        RootFilter(Unscented(0.01)),
        CovarianceFilter(CentralDifferences()),
        RootFilter(CentralDifferences(2.0)),
    ],
)
def test_the_mean_of_a_quadratic_is_exact(method, start, rng):
    A = rng.normal(size=(2, 5, 5))

    class Quadratic(Curved):
        def advance(self, k, X):
            return np.einsum("ki,mij,kj->km", X, A, X)

    x, S = start
    state = method.predict(Quadratic(), 0, method.start(x, S))
    exact = np.einsum("i,mij,j->m", x, A, x) + np.einsum("mij,ij->m", A, S @ S.T)
    np.testing.assert_allclose(state.mean[3:], exact, atol=1e-9)


def test_one_state_and_a_square_have_their_exact_variance():
    """x² of a normal x has the variance 4 x̄² P + 2 P², which both families reproduce."""

    class Square(Curved):
        n_parameters, n_moving = 0, 1
        H, sigma = np.ones((1, 1)), np.ones(1)

        def advance(self, k, X):
            return X**2

        def noise(self, k, x):
            return np.zeros((1, 0))

    kinds = (Unscented(1.0, 2.0, 0.0), CentralDifferences())
    for method in (form(kind) for form in FORMS for kind in kinds):
        state = method.predict(Square(), 0, method.start([0.7], [[0.5]]))
        assert state.mean[0] == pytest.approx(0.7**2 + 0.25)
        assert state.covariance[0, 0] == pytest.approx(4 * 0.49 * 0.25 + 2 * 0.25**2)


@pytest.mark.parametrize(
    ("kind", "settings", "word"),
    [
        (Unscented, {"alpha": 0.0}, "alpha"),
        (Unscented, {"alpha": -1.0}, "alpha"),
        (Unscented, {"alpha": np.nan}, "alpha"),
        (Unscented, {"alpha": 1.0, "beta": 0.5}, "beta"),
        (Unscented, {"beta": -1.0}, "beta"),
        (Unscented, {"kappa": np.inf}, "kappa"),
        (CentralDifferences, {"h": 0.9}, "h is"),
        (CentralDifferences, {"h": np.nan}, "h is"),
    ],
)
def test_settings_that_would_subtract_are_refused(kind, settings, word):
    with pytest.raises(ShapeError, match=word):
        kind(**settings)


@both_forms
def test_a_kappa_that_leaves_no_spread_is_refused(form, start):
    method = form(Unscented(kappa=-5.0))
    with pytest.raises(ShapeError, match=r"kappa is -5: with 5 states, give more than -5"):
        method.predict(Curved(), 0, method.start(*start))
