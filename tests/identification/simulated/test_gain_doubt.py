"""Intervals of output and input error count gains that were found from the log."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bodysense.identification import Identification, Preprocessing, Regression, identifier
from bodysense.identification.simulated import output_error
from bodysense.identification.simulated.closed_loop import ClosedLoop, LoopSimulation
from bodysense.identification.simulated.controller_fit import ControllerFit, fit_controller
from bodysense.identification.simulated.linearised import SimulatedRows
from bodysense.robot import Controller

BOTH = ("cloe", "clie")
both_errors = pytest.mark.parametrize("name", BOTH)
EXACT = identifier("cloe", tolerance=1e-6, iterations=30)
COUNTED = "Its intervals include the uncertainty of the gains."


@pytest.fixture(scope="module")
def recorded(record):
    """Of a controller that nobody knows: encoders and torques have noise."""

    @cache
    def of(seed: int):
        made = record(
            filtered=Preprocessing(cutoff=20.0), torque_noise=0.2, position_noise=1e-5, seed=seed
        )
        unknown = replace(made.problem, robot=replace(made.problem.robot, controller=None))
        return replace(made, problem=unknown)

    return of


def gains_of(problem: Regression) -> ControllerFit:
    return fit_controller(problem.robot, problem.motions, problem.settings, rate=5000.0)


def told(problem: Regression, controller: Controller) -> Regression:
    """The same with gains that are taken for known."""
    return replace(problem, robot=problem.robot.with_controller(controller))


def moves_by(problem: Regression, found: Identification, move) -> np.ndarray:
    """(gains, b) what one standard deviation of each gain does to an estimate by CLOE."""
    loop = LoopSimulation().loop(problem)
    return np.array(
        [
            doubt / step * move(loop, other, found)
            for other, step, doubt in output_error._other_gains(loop, gains_of(problem))
        ]
    )


def by_least_squares(loop: ClosedLoop, other: ClosedLoop, found: Identification) -> np.ndarray:
    """(b,) all rows written out, and solved for what changes with the gain."""
    rows = SimulatedRows(loop, "q")
    (here,), (there,) = (x.residuals(found.theta[None]) for x in (rows, SimulatedRows(other, "q")))
    squares, count = rows.squares(here)
    linear = rows.linearised(found.theta, found.theta_base)
    weights = [block.use / np.sqrt(squares / count)[block.log] for block in linear.blocks()]
    Y = [w[:, :, None] * block.Y for w, block in zip(weights, linear.blocks(), strict=True)]
    A = np.concatenate([x.reshape(-1, found.base.size) for x in Y])
    change = [w * (b - a) for w, a, b in zip(weights, here, there, strict=True)]
    y = np.concatenate([x.ravel() for x in change])
    size = np.linalg.norm(A, axis=0)
    return np.linalg.lstsq(A / size, y, rcond=1e-9)[0] / size


def by_refitting(loop: ClosedLoop, other: ClosedLoop, found: Identification) -> np.ndarray:
    """(b,) the whole fit again, with gains that are taken for known."""
    return EXACT.fit(told(other.problem, other.controller)).theta_base - found.theta_base


def uncounted(name, problem: Regression) -> Identification:
    return identifier(name).fit(told(problem, gains_of(problem).controller))


def test_intervals_grow_by_what_other_gains_would_change(recorded):
    problem = recorded(0).problem
    found, plain = identifier("cloe").fit(problem), uncounted("cloe", problem)
    np.testing.assert_array_equal(found.theta_base, plain.theta_base)
    D = moves_by(problem, found, by_least_squares)
    added = np.diag(found.covariance - plain.covariance)
    # The rest: without the gains, rows are linearised a step before the end.
    size = np.diag(found.covariance)
    assert (np.abs(added - (D**2).sum(axis=0)) < 0.05 * size).all()
    assert (added / size).max() > 0.8
    assert (found.sigma >= 0.95 * plain.sigma).all()
    assert (found.resolution <= plain.resolution + 0.01).all()
    np.testing.assert_array_equal(found.covariance, found.covariance.T)
    assert np.linalg.eigvalsh(found.covariance / np.sqrt(np.outer(size, size)))[0] > -1e-9


def test_fits_with_other_gains_end_there(recorded):
    """To first order, and with noise levels that do not follow: what moves much, moves so."""
    problem = recorded(0).problem
    found, sigma = EXACT.fit(problem), uncounted("cloe", problem).sigma_base
    first, full = (moves_by(problem, found, f) / sigma for f in (by_least_squares, by_refitting))
    far = np.abs(full) > 2.0
    assert far.sum() >= 3
    np.testing.assert_allclose(first[far], full[far], rtol=0.25)


def test_intervals_hold_the_truth(recorded):
    """Without the gains' share they hold it two times of three."""
    inside, before = [], []
    for seed in range(4):
        made = recorded(seed)
        truth = made.problem.base.to_base(made.robot.theta)
        for found, kept in (
            (identifier("cloe").fit(made.problem), inside),
            (uncounted("cloe", made.problem), before),
        ):
            lower, upper = found.interval()
            kept.append((lower <= truth) & (truth <= upper))
    assert np.mean(inside) > 0.9, np.mean(inside)
    assert np.mean(before) < 0.8, np.mean(before)


@both_errors
def test_the_status_says_what_intervals_count(name, recorded, record, monkeypatch):
    problem = recorded(0).problem
    assert identifier(name).fit(problem).status.message.endswith(COUNTED)
    known = uncounted(name, problem).status.message
    assert "intervals" not in known
    # Gains that nothing tells are chosen, and nothing is known of how far they are off.
    chosen = record(torque_noise=0.2, told=False).problem
    chosen = replace(chosen, robot=replace(chosen.robot, controller=None))
    assert "which its intervals do not count" in identifier(name).fit(chosen).status.message
    # Simulations that other gains do not survive.
    monkeypatch.setattr(output_error.OutputError, "_with_uncertain_gains", lambda *_: None)
    lost = identifier(name).fit(problem)
    assert lost.status.ok
    assert COUNTED not in lost.status.message
    assert "do not include the uncertainty of the gains" in lost.status.message
    np.testing.assert_allclose(lost.covariance, uncounted(name, problem).covariance)


def test_suggested_gains_are_doubted_as_a_whole(recorded):
    problem = recorded(0).problem
    gains = gains_of(problem)
    loop = LoopSimulation().loop(problem)
    vague = replace(gains, sigma_kd=np.array([np.inf, gains.sigma_kd[1]]))
    doubts = [(step, doubt) for _, step, doubt in output_error._other_gains(loop, vague)]
    assert len(doubts) == 4
    assert doubts[2] == pytest.approx((0.1 * gains.controller.kd[0], gains.controller.kd[0]))
    for (step, doubt), sigma in zip(doubts[:2], gains.sigma_kp, strict=True):
        assert doubt == sigma
        assert step <= doubt


def test_results_are_the_same_bits(recorded):
    problem = recorded(0).problem
    first, second = identifier("cloe").fit(problem), identifier("cloe").fit(problem)
    assert first.covariance.tobytes() == second.covariance.tobytes()
    assert first.sigma.tobytes() == second.sigma.tobytes()
    assert first.theta.tobytes() == identifier("cloe").theta(problem).tobytes()
