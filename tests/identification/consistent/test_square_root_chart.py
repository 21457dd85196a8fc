"""Steps over square roots: their derivative, and why eq (175) is none."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.identification.consistent.relaxation import LinkMatrices
from bodysense.identification.consistent.sqp import _SquareRootChart
from bodysense.spatial.manifolds import SquareRoot


@pytest.fixture
def chart(case) -> _SquareRootChart:
    return _SquareRootChart(case.prior, LinkMatrices(case.prior), 1e-4, 1e-5)


def test_a_robot_comes_back_from_its_factors(case, chart):
    at = chart.near(case.prior.theta, 1e-12)
    np.testing.assert_allclose(at.theta / case.prior.size, case.prior.theta / case.prior.size)
    assert (at.diagonal > 0.0).all()
    assert (np.triu(at.C, 1) == 0.0).all()


def test_links_that_cannot_exist_are_moved_inside(case, chart):
    theta = -case.prior.theta
    at = chart.near(theta, 0.05)
    assert case.smallest(at.theta) == pytest.approx(0.05 + 1e-4)
    assert (at.theta[case.prior.positive] >= 0.0).all()


def test_the_jacobian_is_that_of_a_step(case, chart, rng):
    at = chart.near(case.prior.theta, 0.01)
    J, h = chart.jacobian(at), 1e-6
    for k in range(J.shape[1]):
        step = np.zeros(J.shape[1])
        step[k] = h
        change = (chart.stepped(at, step).theta - chart.stepped(at, -step).theta) / (2.0 * h)
        np.testing.assert_allclose(J[:, k] / case.prior.size, change / case.prior.size, atol=1e-7)


def test_moderate_steps_are_straight(case, chart, rng):
    """The quadratic part is taken out again, so that theta follows the derivative exactly."""
    at = chart.near(case.prior.theta, 0.01)
    step = 0.1 * rng.uniform(-1.0, 1.0, chart.jacobian(at).shape[1])
    step[10 * chart.n :] = 0.0
    there = chart.stepped(at, step).theta
    linear = at.theta + chart.jacobian(at) @ step
    np.testing.assert_allclose(there / case.prior.size, linear / case.prior.size, atol=1e-12)


def test_any_step_leads_to_a_robot_that_can_exist(case, chart, rng):
    at = chart.near(case.prior.theta, 0.01)
    for size in 10.0 ** rng.uniform(-2.0, 2.0, 200):
        at_far = chart.stepped(at, size * rng.normal(size=10 * chart.n + chart.others.size))
        assert case.smallest(at_far.theta) >= 1e-4 * (1.0 - 1e-6)
        assert (at_far.diagonal >= 1e-5).all()
        assert (at_far.theta[case.prior.positive] >= 0.0).all()


# -- eq (175) ---------------------------------------------------------------------------------


def test_holding_one_factor_of_a_square_goes_to_and_fro():
    """X² = y by x ← y / x: the step is twice as long as Newton's, and never ends."""
    y, x = 4.0, 1.0
    seen = []
    for _ in range(10):
        x = y / x
        seen.append(x)
    assert seen == [4.0, 1.0] * 5
    x = 1.0
    for _ in range(8):
        x = x + (y - x**2) / (2.0 * x)
    assert x == pytest.approx(2.0, abs=1e-12)


def bilinear_factor(rho):
    """Thesis eq (173), rows in Pinocchio's order: pi = A(ρ) ρ."""
    C11, C21, C22, C31, C32, C33, C41, C42, C43, C44 = rho
    return np.array(
        [
            [0, 0, 0, 0, 0, 0, C41, C42, C43, C44],
            [0, 0, 0, 0, 0, 0, C11, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, C21, C22, 0, 0],
            [0, 0, 0, 0, 0, 0, C31, C32, C33, 0],
            [0, C21, C22, C31, C32, C33, 0, 0, 0, 0],
            [0, -C11, 0, 0, 0, 0, 0, 0, 0, 0],
            [C11, 0, 0, C31, C32, C33, 0, 0, 0, 0],
            [0, 0, 0, -C11, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, -C21, -C22, 0, 0, 0, 0, 0],
            [C11, C21, C22, 0, 0, 0, 0, 0, 0, 0],
        ]
    )


def test_the_frozen_product_has_half_the_derivative(rng):
    """Along the factor itself: A(ρ) ρ = theta, and the derivative along ρ is 2 theta."""
    manifold = SquareRoot(epsilon=0.0)
    for _ in range(20):
        rho = rng.normal(size=10)
        h = 1e-6
        ahead, behind = (manifold.to_pi((1.0 + s * h) * rho) for s in (1.0, -1.0))
        derivative = (ahead - behind) / (2.0 * h)
        frozen = bilinear_factor(rho) @ rho
        np.testing.assert_allclose(derivative, 2.0 * frozen, rtol=1e-6, atol=1e-8)


def test_holding_one_factor_does_not_find_a_robot(rng):
    """The iteration of eq (175) for one link whose parameters are measured without noise."""
    manifold = SquareRoot(epsilon=0.0)
    truth = manifold.to_pi([1.0, 0.2, 0.9, 0.1, 0.3, 1.1, 0.2, -0.1, 0.3, 1.0])
    rho = manifold.from_pi(1.3 * truth)
    newton, away = rho.copy(), []
    for _ in range(40):
        rho = np.linalg.solve(bilinear_factor(rho), truth)
        away.append(np.abs(manifold.to_pi(rho) - truth).max())
        newton = newton + np.linalg.solve(manifold.jacobian(newton), truth - manifold.to_pi(newton))
    assert min(away[-10:]) > 0.1
    np.testing.assert_allclose(manifold.to_pi(newton), truth, atol=1e-12)
