"""The interior-point search on problems whose solution is known, or found by scipy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize

from bodysense.excitation.motion_problem import Evaluation
from bodysense.excitation.search import BarrierSearch


@dataclass
class Box:
    """Minimise |x - target|² / 2 within |x| < 1, behind the interface of a motion problem."""

    target: np.ndarray
    evaluations: int = 0

    def longest_step(self, x, d):
        with np.errstate(divide="ignore"):
            return float((np.where(d > 0, 1.0 - x, 1.0 + x) / np.abs(d)).min())

    def evaluate(self, x, order):
        self.evaluations += 1
        n = x.size
        if not (np.abs(x) < 1.0).all():
            nothing = np.zeros(n)
            return Evaluation(np.inf, np.inf, np.inf, nothing, nothing, np.zeros((n, n)))
        y = x.ravel()
        f = 0.5 * float(((y - self.target) ** 2).sum())
        b = -float(np.log(1.0 - y**2).sum())
        slope = 2.0 * y / (1.0 - y**2)
        bend = np.diag(2.0 * (1.0 + y**2) / (1.0 - y**2) ** 2)
        return Evaluation(f, f, b, y - self.target, slope, bend)


def finished(problem, x, most=2000):
    climb = BarrierSearch(problem, x)
    while not climb.done and climb.iterations < most:
        climb.step()
    assert climb.done
    return climb


def test_minimum_inside_and_at_the_limits():
    problem = Box(np.array([0.3, -0.5, 3.0, -2.0]))
    climb = finished(problem, np.zeros((1, 2, 2)))
    np.testing.assert_allclose(climb.best.ravel(), [0.3, -0.5, 1.0, -1.0], atol=5e-3)
    assert (np.abs(climb.best) < 1.0).all()


def test_every_iterate_that_it_keeps_is_inside_and_none_is_worse(rng):
    climb = BarrierSearch(Box(rng.normal(scale=2.0, size=6)), np.zeros((1, 3, 2)))
    last = climb.best_value
    while not climb.done:
        climb.step()
        assert (np.abs(climb.best) < 1.0).all()
        assert climb.best_value <= last
        last = climb.best_value


def test_a_start_outside_is_done_at_once():
    assert BarrierSearch(Box(np.zeros(2)), np.full((1, 1, 2), 1.5)).done


@dataclass
class Valley(Box):
    """Rosenbrock's function in a box: bent, and badly scaled."""

    def evaluate(self, x, order):
        at = super().evaluate(x, order)
        if not np.isfinite(at.barrier):
            return at
        a, b = x.ravel()
        f = (0.5 - a) ** 2 + 100.0 * (b - a**2) ** 2
        gradient = np.array([-2 * (0.5 - a) - 400 * a * (b - a**2), 200 * (b - a**2)])
        return Evaluation(f, f, at.barrier, gradient, at.barrier_gradient, at.barrier_curvature)


def test_a_bent_valley_as_deep_as_scipy_finds_it():
    climb = finished(Valley(np.zeros(2)), np.array([[[-0.9, 0.9]]]))
    found = minimize(
        lambda x: (0.5 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2,
        [-0.9, 0.9],
        bounds=[(-1, 1)] * 2,
    )
    assert climb.best_value == pytest.approx(found.fun, abs=1e-3)
    assert climb.iterations < 300
