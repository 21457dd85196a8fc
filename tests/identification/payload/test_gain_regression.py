"""Columns of the linearised regressions against finite differences and Pinocchio."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.identification.payload.loaded_regression import GainRegression
from bodysense.spatial import Array

LOSSES = np.array([0.05, 0.08, 0.06, 0.04])


def rows(problem, x: Array) -> Array:
    """(rows, n) what a regression predicts."""
    return np.concatenate([block.Y @ x for block in problem.blocks()])


@pytest.fixture(scope="module")
def problem(make_case):
    found = make_case(losses=LOSSES, noise=0.01, n_t=80).experiment.problem
    assert found.n_losses == 4
    return found


def test_columns_are_derivatives(problem, rng):
    """Of g_j Y_j x by x and g."""
    g, x = rng.uniform(0.5, 2.0, 4), rng.normal(size=problem.size)
    linear = problem.recast(GainRegression, gains=g, x=x)
    Y = np.concatenate([block.Y for block in linear.blocks()])

    def predicted(z: Array) -> Array:
        return rows(problem, z[: problem.size]) * z[problem.size :]

    z, step = np.append(x, g), 1e-6
    for k in range(z.size):
        ahead, behind = z.copy(), z.copy()
        ahead[k], behind[k] = z[k] + step, z[k] - step
        slope = (predicted(ahead) - predicted(behind)) / (2.0 * step)
        np.testing.assert_allclose(Y[:, :, k], slope, rtol=1e-6, atol=1e-6)


def test_at_the_truth_the_torques_are_those_of_pinocchio(make_case, arm, body):
    """Base parameters of the arm, losses among them, and the body's explain them exactly."""
    problem = make_case(losses=LOSSES, n_t=80).experiment.problem
    theta = np.append(arm.theta, LOSSES)
    truth = np.append(problem.base.to_base(theta), body.toDynamicParameters())
    assert (truth[problem.losses] == LOSSES).all()
    exact = problem.with_losses(truth)
    torque = np.concatenate([block.y for block in exact.blocks()])
    np.testing.assert_allclose(rows(exact, truth), torque, atol=1e-9 * np.abs(torque).max())


def test_a_joint_depends_on_its_own_gain_alone(problem, rng):
    linear = problem.recast(GainRegression, gains=np.ones(4), x=rng.normal(size=problem.size))
    Y = np.concatenate([block.Y for block in linear.blocks()])[:, :, linear.steps]
    for j in range(4):
        assert not np.delete(Y[:, j], j, axis=1).any()
        assert Y[:, j, j].any()
        assert linear.steps.start + j in linear.columns[j]
        assert not np.delete(Y[:, j], j, axis=1).any()


def test_the_prior_holds_the_load_and_keeps_gains_positive(problem):
    linear = problem.recast(GainRegression, gains=np.full(4, 0.8), x=np.ones(problem.size))
    prior = linear.gain_prior(2.0, np.array([0.1, 0.2, 0.3]))
    theta, D = prior.constraints.free_directions(prior.theta, np.diag(prior.size))
    load = prior.links[-1]
    np.testing.assert_allclose(theta[load][:4], [2.0, 0.2, 0.4, 0.6], atol=1e-9)
    np.testing.assert_allclose(D[load][:4], 0.0, atol=1e-9)
    # A step may take half of a gain, no more.
    step = np.zeros(theta.size)
    step[-4:] = [-0.39, 0.0, 0.0, 5.0]
    assert not prior.constraints.broken(prior.theta + step, prior.size)
    step[-4] = -0.41
    assert prior.constraints.broken(prior.theta + step, prior.size)
