"""Output and input error: a minimum of the cost, whichever way it is searched for."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import ShapeError, UnknownNameError
from bodysense.identification import Preprocessing, identifier
from bodysense.identification.prior import Prior
from bodysense.identification.simulated import closed_loop
from bodysense.identification.simulated.linearised import SimulatedRows
from bodysense.simulation.sensitivities import Backend

BOTH = ("cloe", "clie")
QUANTITY = {"cloe": "q", "clie": "tau"}
both_errors = pytest.mark.parametrize("name", BOTH)
SEARCHES = ("lm", "nelder-mead", "differential-evolution")


@pytest.fixture(scope="module")
def noisy(record):
    return record(filtered=Preprocessing(cutoff=20.0), torque_noise=0.2, position_noise=2e-5)


def levels(rows: SimulatedRows, theta):
    """(n_logs, n) standard deviations of the residuals of an estimate."""
    squares, count = rows.squares(rows.residuals(theta[None])[0])
    return np.sqrt(squares / count)


def costs(rows: SimulatedRows, thetas, sigma):
    return np.array(
        [
            np.inf if run is None else (rows.squares(run)[0] / sigma**2).sum()
            for run in rows.residuals(thetas)
        ]
    )


@both_errors
def test_the_gradient_vanishes(name, noisy):
    method = identifier(name, tolerance=1e-6, iterations=30)
    found = method.fit(noisy.problem)
    assert found.status.ok
    prior = Prior.of(noisy.problem)
    rows = SimulatedRows(method.simulation.loop(noisy.problem), QUANTITY[name])
    sigma = levels(rows, found.theta)
    # Steps of a few standard deviations of each parameter alone: what a slope makes of the cost
    # is then to be compared with what its curvature does.
    linear = rows.linearised(found.theta, found.theta_base)
    steps = 1.0 / np.linalg.norm(linear.stack(sigma).A, axis=0)
    points = np.array(
        [
            prior.complete(found.theta_base + f * step)
            for f in (3.0, -3.0)
            for step in np.diag(steps)
        ]
    )
    ahead, behind = costs(rows, points, sigma).reshape(2, -1)
    here = costs(rows, found.theta[None], sigma)[0]
    slope, curvature = (ahead - behind) / 6.0, (ahead + behind - 2.0 * here) / 9.0
    np.testing.assert_allclose(curvature, 2.0, rtol=0.1)
    assert (np.abs(slope) < 0.1).all()  # 1 / 20 of a standard deviation from the bottom
    assert (np.minimum(ahead, behind) > here).all()


@both_errors
def test_costs_go_down_until_nothing_moves(name, noisy):
    found = identifier(name).fit(noisy.problem)
    assert found.trace[-1].change < 0.03
    assert len(found.trace) <= 6
    few = identifier(name, iterations=1, tolerance=1e-12).fit(noisy.problem)
    assert len(few.trace) == 1
    assert "had not converged" in few.status.message


@both_errors
@pytest.mark.parametrize(
    ("search", "evaluations"), [("nelder-mead", 200), ("differential-evolution", 1000)]
)
def test_searches_reduce_the_cost(name, search, evaluations, record, arm):
    recorded = record(arm(1), duration=2.0, rate=200.0, torque_noise=0.1)
    method = identifier(name, search=search, evaluations=evaluations)
    prior = Prior.of(recorded.problem)
    rows = SimulatedRows(method.simulation.loop(recorded.problem), QUANTITY[name])
    start = recorded.problem.robot.theta
    sigma = levels(rows, start)
    found = method._searched(rows, prior, start, np.random.default_rng(0))
    best = identifier(name).fit(recorded.problem).theta
    before, after, least = costs(rows, np.stack([start, found, best]), sigma)
    assert after - least < 0.2 * (before - least)


@both_errors
def test_all_searches_end_where_the_first_does(name, record, arm):
    recorded = record(arm(1), duration=2.0, rate=200.0, torque_noise=0.1)
    results = [
        identifier(name, search=search, evaluations=150, tolerance=1e-3).fit(recorded.problem)
        for search in SEARCHES
    ]
    for other in results[1:]:
        assert other.status.ok
        away = np.abs(other.theta_base - results[0].theta_base)
        assert (away < 0.1 * results[0].sigma_base).all()


@both_errors
def test_two_joints_with_friction_that_jumps(name, record, arm):
    recorded = record(arm(width=0.0), rate=200.0, torque_noise=0.05, still_speed=0.02)
    plain = identifier(name).fit(recorded.problem)
    searched = identifier(name, search="nelder-mead", evaluations=150).fit(recorded.problem)
    for found in (plain, searched):
        assert found.status.ok
        assert np.median(recorded.errors(found)) < 0.02


class Counting(Backend):
    """Counts the runs that were asked for."""

    def __init__(self) -> None:
        self.runs = 0

    def rollouts(self, experiment, theta):
        self.runs += len(theta)
        return super().rollouts(experiment, theta)


@pytest.mark.parametrize("search", SEARCHES[1:])
@pytest.mark.parametrize("evaluations", [1, 40, 90])
def test_no_more_simulations_than_allowed(search, evaluations, record, arm, monkeypatch):
    recorded = record(arm(1), duration=1.0, rate=200.0, torque_noise=0.1)
    place = Counting()
    monkeypatch.setattr(closed_loop, "backend", lambda name: place)
    identifier("clie").fit(recorded.problem)
    plain, place.runs = place.runs, 0
    identifier("clie", search=search, evaluations=evaluations).fit(recorded.problem)
    # Besides, the start; and from wherever it leads to, a few steps more or fewer of the descent.
    assert place.runs <= evaluations + plain + 1 + 4 * 3


@pytest.mark.parametrize("search", SEARCHES)
def test_the_same_seed_gives_the_same_bits(search, record, arm):
    recorded = record(arm(1), duration=1.0, rate=200.0, torque_noise=0.1)
    method = identifier("cloe", search=search, evaluations=60)
    first, second = (method.fit(recorded.problem, rng=np.random.default_rng(3)) for _ in range(2))
    assert first.theta.tobytes() == second.theta.tobytes()
    assert first.trace == second.trace
    assert method.fit(recorded.problem).theta.tobytes() == method.theta(recorded.problem).tobytes()


@both_errors
def test_intervals_of_a_descent_that_was_cut_short_are_of_the_same_size(name, record):
    """Its weights are those of the last residuals, and so is its curvature."""
    recorded = record(torque_noise=0.2, position_noise=2e-5)
    short, full = (
        identifier(name, iterations=n, tolerance=1e-9).fit(recorded.problem) for n in (1, 10)
    )
    np.testing.assert_allclose(short.sigma_base, full.sigma_base, rtol=0.3)


# -- what is refused ---------------------------------------------------------------------------


EVERY = ("iv", "didim", "cloe", "clie", "pc-iv", "pc-didim", "pc-cloe")


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"iterations": 0}, ShapeError, "iterations is 0"),
        ({"tolerance": 0.0}, ShapeError, "tolerance is 0"),
        ({"tolerance": np.nan}, ShapeError, "tolerance is nan"),
        ({"tolerance": np.inf}, ShapeError, "tolerance is inf"),
        ({"integrator": "foo"}, UnknownNameError, "unknown integrator 'foo'.*rk2"),
        ({"backend": "foo"}, UnknownNameError, "unknown backend 'foo'.*threads"),
    ],
)
def test_bad_settings_are_refused(name, wrong, error, message):
    with pytest.raises(error, match=message):
        identifier(name, **wrong)


@both_errors
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"search": "foo"}, UnknownNameError, "unknown search 'foo'.*nelder-mead"),
        ({"evaluations": 0}, ShapeError, "evaluations is 0"),
        ({"spread": 0.0}, ShapeError, "spread is 0"),
        ({"spread": np.inf}, ShapeError, "spread is inf"),
    ],
)
def test_bad_searches_are_refused(name, wrong, error, message):
    with pytest.raises(error, match=message):
        identifier(name, **wrong)


@pytest.mark.parametrize("name", ["pc-iv", "pc-didim"])
def test_bad_relaxations_are_refused(name):
    with pytest.raises(UnknownNameError, match="foo"):
        identifier(name, relaxation="foo")
