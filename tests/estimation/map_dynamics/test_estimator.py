"""Elimination along the tree against an independent dense solve."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dense_oracle import dense_posterior, sensor_noise
from pinocchio_truth import truth_of
from sensor_sets import all_sensors

from bodysense.estimation import Assumptions, GaussianPrior, MapDynamics
from bodysense.estimation.map_dynamics.equations import Equations

SOFT = Assumptions(
    wrench=GaussianPrior.zero(6, 5.0),
    joint_acceleration=GaussianPrior.zero(1, 10.0),
    base_acceleration=GaussianPrior.zero(6, 20.0),
    acceleration_slack=GaussianPrior.zero(6, 0.1),
    wrench_slack=GaussianPrior.zero(6, 0.2),
    torque_slack=GaussianPrior.zero(1, 0.1),
)
SHARP = Assumptions(
    wrench=GaussianPrior.zero(6, 5.0),
    joint_acceleration=GaussianPrior.zero(1, 10.0),
    base_acceleration=GaussianPrior.zero(6, 20.0),
)


def some(sensors, rng):
    return [sensor for sensor in sensors if rng.uniform() < 0.4]


def set_up(tree, assumptions, seed):
    """A problem with some sensors, a sample, readings of which some are missing, and equations."""
    rng = np.random.default_rng(seed)
    sample = truth_of(tree, rng).arguments()
    held = [] if tree.floating else [tree.names[0]]
    sensors = some(all_sensors(tree, rng), rng)
    sensors = [s for s in sensors if s.measurement(tree.robot).link not in held]
    equations = Equations.at(tree, sensors, **sample)
    root = None if tree.names[0] == "world" else tree.names[0]
    fixed = None if root is None else not tree.floating
    problem = MapDynamics(tree.robot, sensors, assumptions, base=root, fixed=fixed)
    y = rng.normal(size=equations.readings.size)
    y[rng.uniform(size=y.size) < 0.02] = np.nan
    return problem, sample, y, equations


def without(y, problem):
    """The readings without those of sensors that miss one, which are absent."""
    absent = y.copy()
    for where in problem.layout.slices.values():
        if np.isnan(y[where]).any():
            absent[where] = np.nan
    return absent


@pytest.mark.parametrize("assumptions", [SOFT, SHARP], ids=["soft", "sharp"])
def test_equals_a_dense_solve(tree_named, each_tree, assumptions):
    problem, sample, y, equations = set_up(tree_named(each_tree), assumptions, 3)
    noise = sensor_noise(problem.sensors)
    oracle = dense_posterior(equations, without(y, problem), noise, assumptions)
    found = problem.estimate(sample.pop("q"), sample.pop("dq"), y, **sample, detail="blocks")
    scale = 1.0 + np.abs(oracle.mean)
    np.testing.assert_array_less(np.abs(found.mean - oracle.mean) / scale, 1e-8)
    np.testing.assert_allclose(found.variance, np.diag(oracle.covariance), rtol=1e-8, atol=1e-10)
    for name in found.blocks:
        where = oracle.variables[name]
        block = oracle.covariance[where, where]
        np.testing.assert_allclose(
            found.covariance(name), block, atol=1e-8 * np.abs(block).max() + 1e-12
        )


ROOTS = ["chain", "tree", "floating tree", "floating tree on a leaf", "floating tree held"]


@pytest.mark.parametrize("assumptions", [SOFT, SHARP], ids=["soft", "sharp"])
@pytest.mark.parametrize("name", ROOTS)
def test_residuals_and_likelihood(tree_named, name, assumptions):
    problem, sample, y, equations = set_up(tree_named(name), assumptions, 4)
    absent = without(y, problem)
    oracle = dense_posterior(equations, absent, sensor_noise(problem.sensors), assumptions)
    samples = problem.samples(sample.pop("q"), sample.pop("dq"), y, **sample)
    found = problem.solve(samples, "means")
    rows = np.empty(y.size)
    rows[problem.layout.order] = found.residual[0]
    predicted = equations.Y @ oracle.mean + equations.b_Y
    np.testing.assert_allclose(rows, absent - predicted, atol=1e-7)
    count = np.isfinite(absent).sum() + 6 * problem.tree.floating
    log = found.score[0, 0] - 0.5 * found.score[0, 1] - 0.5 * count * math.log(2.0 * math.pi)
    assert math.isclose(log, oracle.log_joint, rel_tol=1e-9)


@pytest.mark.parametrize("name", ROOTS)
def test_slacks_are_what_the_equations_leave_over(tree_named, name):
    problem, sample, y, equations = set_up(tree_named(name), SOFT, 5)
    noise = sensor_noise(problem.sensors)
    oracle = dense_posterior(equations, without(y, problem), noise, SOFT)
    samples = problem.samples(sample.pop("q"), sample.pop("dq"), y, **sample)
    found = problem.solve(samples, "slacks")
    D = equations.D.toarray()
    mean, covariance = -(D @ oracle.mean + equations.b_D), D @ oracle.covariance @ D.T
    tree = problem.tree
    for i in tree.with_unknowns:
        at = equations.rows[f"wrench.{tree.names[i]}"]
        np.testing.assert_allclose(found.slack[0, i, 6:], mean[at], atol=1e-8)
        np.testing.assert_allclose(found.slack_wrench[0, i], covariance[at, at], atol=1e-9)
        if i == 0:
            continue
        at = equations.rows[f"acceleration.{tree.names[i]}"]
        np.testing.assert_allclose(found.slack[0, i, :6], mean[at], atol=1e-8)
        np.testing.assert_allclose(found.slack_acceleration[0, i], covariance[at, at], atol=1e-9)
        at = equations.rows[f"torque.{tree.joint_name(i)}"]
        np.testing.assert_allclose(found.slack_torque[0, i, 0], mean[at][0], atol=1e-8)
        np.testing.assert_allclose(found.slack_torque[0, i, 1], covariance[at, at][0, 0], atol=1e-9)


@pytest.mark.parametrize("correlated", [False, True])
def test_the_kernels_are_compiled_once_for_priors_of_any_kind(tree_named, correlated):
    """numba compiles anew, for half a minute, for arrays in another order."""
    root = np.tri(6) if correlated else np.eye(6)
    prior = GaussianPrior(np.zeros(6), root @ root.T)
    priors = Assumptions(wrench=prior, acceleration_slack=prior, wrench_slack=prior)
    assert all(array.flags.c_contiguous for array in priors.arrays(tree_named("tree")))
