"""Models are compared by what held-out samples can tell, and by no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.identification import Regression, identifier
from bodysense.identification.friction_comparison import choose_friction
from bodysense.identification.given_friction import WIDTH, with_richest
from bodysense.identification.held_out import Candidate, Comparison, HeldOutErrors
from bodysense.identification.preprocessing import Motion
from bodysense.identification.prior import Prior
from bodysense.robot import inverse_dynamics

from .conftest import PLAIN

RATE = 50.0


def unknown(robot):
    """The robot without its friction, and with the richest law."""
    zero = dict.fromkeys(robot.friction.model.terms, 0.0)
    return with_richest(robot.with_friction(robot.friction.model, coefficients=zero))


def one_by_one(robot, *, speed: float = 1.0, seconds: float = 12.0) -> list[Motion]:
    """A log per joint in which it alone moves, the others held by friction of any size."""
    rng, n = np.random.default_rng(4), robot.n_joints
    t = np.arange(0.0, seconds, 1.0 / RATE)
    Fc = robot.theta[robot.layout.friction("Fc")]
    logs = []
    for j in range(n):
        q, v, a = (np.tile(x, (t.size, 1)) for x in (rng.uniform(-1, 1, n), np.zeros(n), 0.0))
        a = np.zeros_like(v)
        for w, size in ((0.9, 0.5), (2.3, 0.3), (3.7, 0.1)):
            phase = rng.uniform(0.0, 6.0)
            q[:, j] += speed * size * np.sin(w * t + phase)
            v[:, j] += speed * size * w * np.cos(w * t + phase)
            a[:, j] -= speed * size * w**2 * np.sin(w * t + phase)
        tau = inverse_dynamics(robot, q, v, a) + 0.01 * rng.normal(size=q.shape)
        held = rng.uniform(-1.0, 1.0, n) * Fc
        tau += np.where(np.arange(n) == j, 0.0, held)
        logs.append(Motion(t, q, v, a, tau, tau, RATE, j))
    return logs


def test_errors_are_those_of_fits_without_each_fold(simulate):
    problem = simulate([[0.1, 0.2, 0.05]], robot=None).problem
    candidate = Candidate.of(problem)
    comparison = Comparison.of(candidate)
    (errors,) = comparison.errors(candidate)
    prior = Prior.of(problem)
    inverse = np.linalg.inv(prior.base_factor @ prior.base_factor.T)
    (block,) = problem.blocks()
    (motion,) = problem.motions
    moving = np.abs(motion.v) > WIDTH
    total = rows = 0.0
    for fold in range(3):
        M, rhs = inverse.copy(), inverse @ prior.theta_base
        for j in range(3):
            use = moving[:, j] & (block.fold != fold)
            Y = block.Y[use, j] / comparison.sigma[j]
            M, rhs = M + Y.T @ Y, rhs + Y.T @ block.y[use, j] / comparison.sigma[j]
        theta = np.linalg.solve(M, rhs)
        for j in range(3):
            use = moving[:, j] & (block.fold == fold)
            e = (block.y[use, j] - block.Y[use, j] @ theta) / comparison.sigma[j]
            total, rows = total + float(e @ e), rows + use.sum()
    assert errors.rows.sum() == rows  # every part of a rich motion determines the others
    assert errors.mean == pytest.approx(total / rows, rel=1e-8)
    np.testing.assert_allclose(comparison.sigma, [0.1, 0.2, 0.05], rtol=0.15)


def test_motions_of_one_joint_at_a_time_show_its_friction(small_arm):
    """Standing joints are held by friction of any size, which is no evidence against Coulomb's."""
    prior = unknown(small_arm)
    problem = Regression.of(prior, one_by_one(small_arm), PLAIN)
    choice = choose_friction(problem)
    assert choice.law == "coulomb"
    errors = dict(zip(choice.tried, (trial.error for trial in choice.trials), strict=True))
    assert errors["coulomb"] == pytest.approx(1.0, abs=0.2)
    assert errors["viscous"] > 100.0


def test_what_the_other_folds_do_not_determine_is_not_judged(small_arm):
    """A joint that moves during one held-out stretch alone: without it, nothing is known of it."""
    prior = unknown(small_arm)
    motions = one_by_one(small_arm)
    late = motions[2]
    fold = Regression.of(prior, motions, PLAIN).folds(late)
    moves = fold == 1
    first = int(np.argmax(moves))
    last = first + int(np.argmin(moves[first:]))
    for x in (late.v, late.a):
        x[:first], x[last:] = 0.0, 0.0
    problem = Regression.of(prior, motions, PLAIN)
    comparison = Comparison.of(Candidate.of(problem))
    moving = sum(use.sum(axis=0) for use in comparison.moving)
    assert moving[2] > 20
    assert comparison.rows[2] == 0
    assert (comparison.rows[:2] > 0.9 * moving[:2]).all()


def test_rows_of_standing_joints_are_left_out_of_the_fit(small_arm, sines):
    """What holds a standing joint is no gravity: counted, it spoils the model of all motion."""
    prior, logs = with_richest(small_arm).with_friction("coulomb"), one_by_one(small_arm)
    _, q, v, a = sines(3, 5, 500, 50.0)
    tau = inverse_dynamics(small_arm, q, v, a)
    errors = []
    for still_speed in (None, 0.0):
        settings = replace(PLAIN, still_speed=still_speed).settled(prior, 1e6)
        theta = identifier("ridge").theta(Regression.of(prior, logs, settings))
        errors.append(float(np.linalg.norm(inverse_dynamics(prior, q, v, a, theta=theta) - tau)))
    assert errors[0] < 0.1 * errors[1]
    assert errors[0] < 0.02 * float(np.linalg.norm(tau))


def test_a_joint_that_never_moves_has_no_rows(small_arm):
    """Friction holds it with any torque."""
    prior, logs = with_richest(small_arm), one_by_one(small_arm)[:2]
    settings = replace(PLAIN, still_speed=None).settled(prior, 1e6)
    rows = sum(block.use.sum(axis=0) for block in Regression.of(prior, logs, settings).blocks())
    assert rows[2] == 0
    for j in range(2):
        assert rows[j] == (np.abs(logs[j].v[:, j]) > 0.02).sum()


def test_rows_are_made_in_blocks_of_any_size(small_arm, monkeypatch):
    """Regressions with fewer unknowns make larger blocks: their samples are the same."""
    motions = one_by_one(small_arm)
    problem = Regression.of(unknown(small_arm), motions, PLAIN)
    whole = choose_friction(problem)
    monkeypatch.setattr("bodysense.identification.regression._BLOCK_BYTES", 8e4)
    monkeypatch.setattr("bodysense.identification.regression._KEEP_BYTES", 0.0)
    small = choose_friction(Regression.of(unknown(small_arm), motions, PLAIN))
    assert len(list(replace(problem).blocks())) > 6
    assert small.tried == whole.tried
    for one, other in zip(small.trials, whole.trials, strict=True):
        assert one.error == pytest.approx(other.error, rel=1e-9)
        assert one.gain == pytest.approx(other.gain, abs=1e-9)


def test_motion_slower_than_friction_reverses_cannot_tell_laws_apart(small_arm):
    prior = unknown(small_arm)
    choice = choose_friction(Regression.of(prior, one_by_one(small_arm, speed=0.01), PLAIN))
    assert (choice.law, choice.trials) == ("coulomb", ())
    assert "cannot tell" in choice.reason
    assert choice.applied_to(prior).friction.model.name == "coulomb"


def test_a_recording_of_a_moment_cannot_tell_laws_apart(small_arm):
    motions = one_by_one(small_arm, seconds=1.0)[:1]
    choice = choose_friction(Regression.of(unknown(small_arm), motions, PLAIN))
    assert (choice.law, choice.trials) == ("coulomb", ())


@pytest.mark.parametrize("stretches", [5, 30])
def test_the_interval_of_a_difference_holds_the_true_one(stretches, rng):
    """Of two models whose errors share most of their noise."""
    inside = 0
    for _ in range(400):
        rows = rng.integers(50, 100, (stretches, 2)).astype(float)
        common = rows * (1.0 + rng.exponential(1.0, rows.shape))
        worse = common + rows * (0.1 + 0.2 * rng.normal(size=rows.shape))
        gain, error = HeldOutErrors(common, rows).gain_over(HeldOutErrors(worse, rows))
        inside += (
            abs(gain * worse.sum() / rows.sum() - 0.1) < 1.96 * error * worse.sum() / rows.sum()
        )
    assert 0.92 < inside / 400 < 0.975
