"""The dense oracle itself: against the textbook's information form, samples, and exact cases."""

from __future__ import annotations

import numpy as np
import pytest
from dense_oracle import dense_posterior, dense_prior, sensor_noise
from pinocchio_truth import truth_of
from scipy.stats import multivariate_normal
from sensor_sets import all_sensors, pinocchio_reading

from bodysense.estimation import Assumptions, GaussianPrior
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.equations import Equations
from bodysense.robot import Robot
from bodysense.sensors import Accelerometer, ExternalWrench, JointTorque, Mount, variances


@pytest.fixture(params=["fixed", "floating", "another root"])
def tree(request, random_model) -> BodyTree:
    rng, floating = np.random.default_rng(5), request.param != "fixed"
    robot = Robot.from_pinocchio(random_model(rng, 4, branched=True, floating=floating))
    return BodyTree.of(robot, base="link4" if request.param == "another root" else None)


def soft(tree: BodyTree, rng: np.random.Generator) -> Assumptions:
    """Doubt about everything, and correlations."""

    def prior(size: int) -> GaussianPrior:
        root = rng.normal(size=(size, size)) + 2.0 * np.eye(size)
        return GaussianPrior(rng.normal(size=size), 0.1 * root @ root.T)

    joint = tree.joint_name(1)
    return Assumptions(
        wrench=prior(6),
        wrenches={tree.names[-1]: prior(6)},
        joint_acceleration=prior(1),
        base_acceleration=prior(6),
        acceleration_slack=prior(6),
        wrench_slack=prior(6),
        torque_slack=prior(1),
        others={
            f"a.{tree.names[1]}": prior(6),
            f"f.{joint}": prior(6),
            f"tau.{joint}": prior(1),
        },
    )


def test_equals_the_information_form(tree, rng):
    sensors, truth, assumptions = all_sensors(tree, rng), truth_of(tree, rng), soft(tree, rng)
    equations = Equations.at(tree, sensors, **truth.arguments())
    y, noise = rng.normal(size=equations.readings.size), sensor_noise(sensors)
    posterior = dense_posterior(equations, y, noise, assumptions)
    D, b_D, Y, b_Y = equations.dense()
    n = equations.variables.size
    information = Y.T @ np.linalg.solve(noise, Y)
    right = Y.T @ np.linalg.solve(noise, y - b_Y)

    def add(H, value, covariance):
        nonlocal information, right
        information = information + H.T @ np.linalg.solve(covariance, H)
        right = right + H.T @ np.linalg.solve(covariance, value)

    def about(name, prior):
        add(np.eye(n)[equations.variables[name]], prior.mean, prior.covariance)

    slacks = {
        "acceleration": assumptions.acceleration_slack,
        "wrench": assumptions.wrench_slack,
        "torque": assumptions.torque_slack,
    }
    for row in equations.rows:
        where, slack = equations.rows[row], slacks[row.partition(".")[0]]
        add(D[where], -b_D[where], slack.covariance)
    for name in equations.variables:
        quantity, _, owner = name.partition(".")
        if quantity == "fx":
            about(name, assumptions.wrenches.get(owner, assumptions.wrench))
        if quantity == "ddq":
            about(name, assumptions.joint_acceleration)
    if tree.floating:
        about(f"a.{tree.names[0]}", assumptions.base_acceleration)
    for name, prior in assumptions.others.items():
        about(name, prior)
    covariance = np.linalg.inv(information)
    np.testing.assert_allclose(posterior.covariance, covariance, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(posterior.mean, covariance @ right, rtol=1e-8, atol=1e-9)
    name = f"fx.{tree.names[-1]}"
    mean, block = posterior(name)
    where = equations.variables[name]
    np.testing.assert_array_equal(mean, posterior.mean[where])
    np.testing.assert_array_equal(block, posterior.covariance[where, where])


@pytest.mark.parametrize("exact", [False, True])
def test_likelihood_is_that_of_a_gaussian(exact, tree, rng):
    assumptions = soft(tree, rng)
    if exact:
        assumptions = Assumptions(
            wrench=GaussianPrior.zero(6, 2.0), joint_acceleration=GaussianPrior.zero(1, 3.0)
        )
    sensors, truth = all_sensors(tree, rng), truth_of(tree, rng)
    equations = Equations.at(tree, sensors, **truth.arguments())
    y, noise = rng.normal(size=equations.readings.size), sensor_noise(sensors)
    posterior = dense_posterior(equations, y, noise, assumptions)
    prior = dense_prior(equations, assumptions)
    Y, b_Y = equations.Y.toarray(), equations.b_Y
    spread = Y @ prior.covariance @ Y.T + noise
    expected = multivariate_normal(Y @ prior.mean + b_Y, spread).logpdf(y)
    assert posterior.log_likelihood == pytest.approx(expected, rel=1e-8)
    assert posterior.log_joint == pytest.approx(expected + prior.log_joint, rel=1e-8)


def test_equations_without_slack_hold(tree, rng):
    assumptions = Assumptions(wrench=GaussianPrior.zero(6, 2.0))
    sensors, truth = all_sensors(tree, rng), truth_of(tree, rng)
    equations = Equations.at(tree, sensors, **truth.arguments())
    y = np.concatenate([pinocchio_reading(sensor, truth) for sensor in sensors])
    posterior = dense_posterior(equations, y, sensor_noise(sensors), assumptions)
    left = equations.D @ posterior.mean + equations.b_D
    np.testing.assert_allclose(left, 0.0, atol=1e-9)
    D = equations.D.toarray()
    np.testing.assert_allclose(D @ posterior.covariance, 0.0, atol=1e-8)


def test_readings_that_tell_all_give_the_truth(tree, rng):
    links = [tree.names[i] for i in tree.with_unknowns]
    joints = [tree.joint_name(i) for i in range(1, tree.n)]
    sensors = [
        ExternalWrench(name=f"fx.{link}", mount=Mount(link), covariance=np.zeros((6, 6)))
        for link in links
    ]
    sensors += [
        JointTorque(name=f"tau.{joint}", joint=joint, covariance=np.zeros((1, 1)))
        for joint in joints
    ]
    truth = truth_of(tree, rng)
    equations = Equations.at(tree, sensors, **truth.arguments())
    y = np.concatenate([pinocchio_reading(sensor, truth) for sensor in sensors])
    assumptions = Assumptions(wrench=GaussianPrior.unknown(6))
    posterior = dense_posterior(equations, y, sensor_noise(sensors), assumptions, precise=True)
    d = truth.d(equations.variables)
    np.testing.assert_allclose(posterior.mean, d, atol=1e-7 * np.abs(d).max())
    assert np.sqrt(np.diag(posterior.covariance)).max() < 1e-6


def test_missing_readings_are_as_if_they_were_not_there(tree, rng):
    links = [tree.names[i] for i in tree.with_unknowns]
    sensors = [
        Accelerometer(name=f"acc.{link}", mount=Mount(link), covariance=variances(0.1, 3))
        for link in links
    ]
    truth = truth_of(tree, rng)
    all_of_them = Equations.at(tree, sensors, **truth.arguments())
    fewer = Equations.at(tree, sensors[1:], **truth.arguments())
    y = rng.normal(size=all_of_them.readings.size)
    y[:3] = np.nan
    first = dense_posterior(all_of_them, y, sensor_noise(sensors))
    second = dense_posterior(fewer, y[3:], sensor_noise(sensors[1:]))
    np.testing.assert_allclose(first.mean, second.mean, atol=1e-10)
    np.testing.assert_allclose(first.covariance, second.covariance, atol=1e-10)
    assert first.log_joint == pytest.approx(second.log_joint, rel=1e-12)


def test_double_and_long_double_agree(tree, rng):
    sensors, truth = all_sensors(tree, rng), truth_of(tree, rng)
    equations = Equations.at(tree, sensors, **truth.arguments())
    y = np.concatenate([pinocchio_reading(sensor, truth) for sensor in sensors])
    noise, assumptions = sensor_noise(sensors), Assumptions(wrench=GaussianPrior.unknown(6))
    coarse = dense_posterior(equations, y, noise, assumptions)
    fine = dense_posterior(equations, y, noise, assumptions, precise=True)
    np.testing.assert_allclose(coarse.mean, fine.mean, atol=1e-9 * np.abs(fine.mean).max())
    scale = np.abs(fine.covariance).max()
    np.testing.assert_allclose(coarse.covariance, fine.covariance, atol=1e-9 * scale)
    assert coarse.log_likelihood == pytest.approx(fine.log_likelihood, rel=1e-9)


def test_intervals_hold_the_truth(tree):
    """The oracle's own draws: d from the prior, readings from d, errors in units of sigma."""
    rng = np.random.default_rng(8)
    assumptions = Assumptions(
        wrench=GaussianPrior.zero(6, 2.0), joint_acceleration=GaussianPrior.zero(1, 3.0)
    )
    links = [tree.names[i] for i in tree.with_unknowns]
    sensors = [
        Accelerometer(name=f"acc.{link}", mount=Mount(link), covariance=variances(0.5, 3))
        for link in links
    ]
    truth = truth_of(tree, rng)
    equations = Equations.at(tree, sensors, **truth.arguments())
    prior = dense_prior(equations, assumptions)
    noise = sensor_noise(sensors)
    inside = []
    for _ in range(200):
        d = rng.multivariate_normal(prior.mean, prior.covariance, method="eigh")
        y = equations.Y @ d + equations.b_Y + rng.multivariate_normal(np.zeros(len(noise)), noise)
        posterior = dense_posterior(equations, y, noise, assumptions)
        sigma = np.sqrt(np.diag(posterior.covariance))
        inside.append(np.abs(posterior.mean - d) < 1.96 * sigma + 1e-6)
    assert 0.92 < np.mean(inside) < 0.98
