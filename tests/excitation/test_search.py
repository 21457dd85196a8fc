from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_info, threadpool_limits

from bodysense.errors import TrajectoryError
from bodysense.excitation.limits import Clearance
from bodysense.excitation.motion_family import MotionFamily
from bodysense.excitation.motion_problem import Evaluation
from bodysense.excitation.search import Progress, Search, _BarrierSearch


@pytest.fixture
def search_of(robot_of, problem_of):
    """Makes searches for a motion of a TX40."""
    robot = robot_of("tx40").with_friction("coulomb", width=0.05)

    def make(*clearances: Clearance, seconds: float = 30.0, iterations: int | None = None):
        family = MotionFamily("fourier", 4.0, False, 4)
        problem = problem_of(robot, family=family, clearances=clearances)
        return Search(problem, np.random.default_rng(0), seconds, iterations)

    return make


@dataclass
class Wall:
    """Nothing is ever clear of it."""

    def slacks(self, q):
        return np.array([0]), np.array([-1.0]), np.zeros((1, q.shape[1]))


@dataclass
class Broken:
    """It fails."""

    def slacks(self, q):
        raise ZeroDivisionError("broken")


def test_the_best_keeps_the_limits_and_beats_all_starts(search_of):
    search = search_of(iterations=250)
    search.run(1, None)
    assert search.status == "enough"
    assert search.best is not None
    assert search.problem.feasible(search.best)
    assert search.best_value < min(search.starts)
    assert search.start_value == pytest.approx(np.median(search.starts))
    assert [value for _, value in search.history][-1] == search.best_value
    assert search.problem.evaluate(search.best, 1.0).value == pytest.approx(search.best_value)


def test_nothing_is_compiled_while_the_clock_runs(search_of, monkeypatch):
    """Not even where the first motions do not keep the limits, so that nothing is evaluated."""
    search, called = search_of(Wall(), seconds=0.2), []
    pull = type(search.problem.regressor).pull

    def noted(self, *args):
        called.append(search._begun)
        return pull(self, *args)

    monkeypatch.setattr(type(search.problem.regressor), "pull", noted)
    with contextlib.suppress(TrajectoryError):
        search.run(1, None)
    assert called == [0.0]


def test_time_before_the_clock_does_not_count(search_of, monkeypatch):
    search = search_of(seconds=0.2)
    compiled = type(search.problem).compile

    def slow(self):
        time.sleep(1.0)
        compiled(self)

    monkeypatch.setattr(type(search.problem), "compile", slow)
    search.run(1, None)
    assert 0.2 <= search.elapsed < 0.9


def test_two_threads_share_the_work(search_of):
    search = search_of(iterations=200)
    told: list[Progress] = []
    search.run(2, told.append)
    assert search.best is not None
    assert told[-1].value == search.best_value
    assert search.problem.feasible(search.best)


def test_more_steps_are_never_worse(search_of):
    few, many = (search_of(iterations=n) for n in (20, 200))
    few.run(1, None)
    many.run(1, None)
    assert many.best_value < few.best_value


def test_no_motion_at_all_keeps_the_limits(search_of):
    with pytest.raises(TrajectoryError, match="not even a small one"):
        search_of(Wall()).run(1, None)


def test_an_error_in_a_thread_is_raised(search_of):
    with pytest.raises(ZeroDivisionError, match="broken"):
        search_of(Broken()).run(2, None)


@dataclass
class Failing:
    """It is clear of everything, until it fails."""

    search: list[Search]

    def slacks(self, q):
        if self.search and len(self.search[0].history) > 3:
            raise ZeroDivisionError("broken")
        return np.array([0]), np.array([0.99]), np.zeros((1, q.shape[1]))


def test_an_error_after_a_first_motion_keeps_it(search_of):
    failing = Failing([])
    search = search_of(failing)
    failing.search.append(search)
    search.run(2, None)
    assert search.best is not None
    assert search.status == "failed"
    assert any("broken" in note for note in search.notes)


def test_a_start_that_fails_later_is_no_error(search_of, rng):
    search = search_of(iterations=40)
    search.run(1, None)
    closed = search_of(Wall())
    closed.best, closed._begun = search.best, np.inf
    assert closed._random(rng) is None
    assert "some random starts" in closed.notes[0]


def test_the_condition_number_is_told_whatever_the_criterion(search_of):
    search = search_of(iterations=150)
    told: list[Progress] = []
    search.run(1, told.append)
    problem = search.problem
    (motion,) = problem.motions(search.best)
    t = problem.times
    W = problem.regressor.rows(*motion(t), np.ones(6)).reshape(-1, problem.theta_base.size)
    assert problem.condition(search.best) == pytest.approx(np.linalg.cond(W), rel=1e-6)
    seen = [now for now in told if np.isfinite(now.value)]
    assert all(1.0 < now.condition < np.inf for now in seen)
    assert seen


def test_linear_algebra_has_one_thread_meanwhile(search_of):
    def of_blas() -> set[int]:
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        before, during = of_blas(), []
        search_of(iterations=5).run(1, lambda now: during.append(of_blas()))
        assert of_blas() == before
    assert during
    assert all(now == {1} for now in during)


# The interior-point search on problems whose solution is known, or found by scipy.


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
    climb = _BarrierSearch(problem, x)
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
    climb = _BarrierSearch(Box(rng.normal(scale=2.0, size=6)), np.zeros((1, 3, 2)))
    last = climb.best_value
    while not climb.done:
        climb.step()
        assert (np.abs(climb.best) < 1.0).all()
        assert climb.best_value <= last
        last = climb.best_value


def test_a_start_outside_is_done_at_once():
    assert _BarrierSearch(Box(np.zeros(2)), np.full((1, 1, 2), 1.5)).done


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
