"""Identification by energy: against least squares of its rows, and where its limits are."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from bodysense.errors import ShapeError
from bodysense.identification import Regression, identifier
from bodysense.identification.linear.energy import EnergyWeights
from bodysense.identification.linear.least_squares import LeastSquares
from bodysense.identification.linear.method import LinearMethod
from bodysense.identification.prior import Prior


def test_weights_are_those_of_the_noise_at_each_speed(simulate):
    """Generalised least squares with the true variances as oracle."""
    noise = [[0.5, 0.1, 0.3]]
    simulated = simulate(noise, n_t=3000)
    weighing = identifier("energy").estimate(simulated.problem, Prior.of(simulated.problem))
    rows = weighing.rows
    (block,) = rows.blocks()
    true = 1.0 / np.sqrt(rows.speeds(block, 0) @ np.square(noise[0]))
    ratio = weighing.weights[0][:, 0] / true
    assert np.median(ratio) == pytest.approx(1.0, abs=0.1)
    moving = rows.speeds(block, 0).sum(axis=1) > 0.5  # rows at rest are held at a floor
    assert ratio[moving].min() > 0.7
    assert ratio[moving].max() < 1.4
    A, z = block.Y[:, 0] * true[:, None], block.y[:, 0] * true
    ideal, sigma = np.linalg.lstsq(A, z, rcond=None)[0], np.sqrt(np.diag(np.linalg.inv(A.T @ A)))
    found = simulated.problem.base.to_base(weighing.theta)
    assert np.median(np.abs(found - ideal) / sigma) < 0.3
    assert weighing.converged


def test_every_step_of_the_solver_gets_the_rows_of_energy(simulate):
    """Also its choice of settings, and what it makes of the rows after the fit."""

    @dataclass(frozen=True)
    class Witness(LeastSquares):
        rows: list[Regression] = field(default_factory=list)

        def chosen(self, problem, prior):
            self.rows.append(problem)
            return super().chosen(problem, prior)

        def reduced_solver(self, problem, prior):
            self.rows.append(problem)
            return super().reduced_solver(problem, prior)

        def refined(self, problem, prior, fit, rng):
            self.rows.append(problem)
            assert fit.rows is problem
            return super().refined(problem, prior, fit, rng)

    problem = simulate(0.1, n_t=800).problem
    for call in ("fit", "theta"):
        solver = Witness()
        getattr(LinearMethod("energy", weights=EnergyWeights(), solver=solver), call)(problem)
        assert len(solver.rows) == 3
        assert {rows.n_joints for rows in solver.rows} == {1}
        assert len({id(rows) for rows in solver.rows}) == 1


def test_each_log_has_its_own_noise(simulate):
    simulated = simulate([[0.05] * 3, [2.0] * 3], logs=2, n_t=1500)
    weighing = identifier("energy").estimate(simulated.problem, Prior.of(simulated.problem))
    rows = weighing.rows
    for block, weight in zip(rows.blocks(), weighing.weights, strict=True):
        level = (0.05, 2.0)[block.log]
        true = 1.0 / (level * np.sqrt(rows.speeds(block, 0).sum(axis=1)))
        assert np.median(weight[:, 0] / true) == pytest.approx(1.0, abs=0.15)


def test_accelerations_are_not_used(simulate):
    simulated = simulate(0.1, n_t=800)
    problem = simulated.problem
    rng = np.random.default_rng(0)
    (motion,) = problem.motions
    nonsense = Regression.from_samples(
        problem.robot,
        motion.q,
        motion.v,
        motion.a + 100.0 * rng.normal(size=motion.a.shape),
        motion.tau,
        rate=motion.rate,
        base=problem.base,
    )
    # All but the prior's plausible size of rotor inertias, which must not count here.
    a, b = (identifier("energy", spread=1e6).fit(given) for given in (problem, nonsense))
    np.testing.assert_allclose(a.theta_base, b.theta_base, rtol=1e-6, atol=1e-9)


def test_it_needs_more_motion_than_torques_do(simulate, tx40):
    """Of a second of motion, torques tell everything; one row per sample does not."""
    simulated = simulate(0.3, robot=tx40, n_t=120)
    torques, energy = (
        identifier("wls").fit(simulated.problem),
        identifier("energy").fit(simulated.problem),
    )
    assert energy.base_labels.count("identified") < torques.base_labels.count("identified")
    assert np.median(energy.sigma_base / torques.sigma_base) > 2.0
    assert "too few rows" in energy.status.message
    low, high = energy.interval()
    assert np.mean((low <= simulated.truth) & (simulated.truth <= high)) > 0.8


def test_without_any_row_the_prior_stays(simulate):
    problem = simulate(0.3, n_t=10).problem
    found = identifier("energy").fit(problem)
    np.testing.assert_array_equal(found.theta, problem.robot.theta)
    assert set(found.base_labels) == {"not identifiable"}
    assert "too few rows" in found.status.message


def test_with_a_strong_prior_it_stays_there(simulate):
    problem = simulate(0.3).problem
    found = identifier("energy", spread=1e-9).fit(problem)
    np.testing.assert_allclose(found.theta, problem.robot.theta, rtol=1e-6, atol=1e-9)


def test_a_spread_that_cannot_be_meant():
    with pytest.raises(ShapeError, match="spread is -1"):
        identifier("energy", spread=-1.0)
