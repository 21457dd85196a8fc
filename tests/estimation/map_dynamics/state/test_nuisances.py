"""Derivatives by everything beside d, and what biases and parameters do to estimates."""

from __future__ import annotations

import numpy as np
import pytest
from pinocchio_truth import truth_of
from sensor_sets import all_sensors, pinocchio_reading, random_mount

from bodysense.errors import ShapeError
from bodysense.estimation import (
    Assumptions,
    GaussianPrior,
    MapDynamics,
    StateAndDynamics,
    StatePrior,
    theta_covariance,
)
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.state.estimator import sample_of
from bodysense.estimation.map_dynamics.state.layout import rotations
from bodysense.estimation.map_dynamics.state.linearisation import Linearisation
from bodysense.estimation.map_dynamics.state.prior import Nuisances
from bodysense.robot import Robot, base_parameters
from bodysense.robot.dynamics import torque_regressor
from bodysense.sensors import Accelerometer, Encoder, Gyroscope, JointTorque, Orientation, variances
from bodysense.spatial import exp_so3, log_so3

BELIEFS = Assumptions(
    wrench=GaussianPrior.zero(6, 5.0),
    joint_acceleration=GaussianPrior.zero(1, 10.0),
    base_acceleration=GaussianPrior.zero(6, 20.0),
    wrench_slack=GaussianPrior.zero(6, 0.2),
)


def estimator_of(tree, sensors, assumptions=BELIEFS):
    root = None if tree.names[0] == "world" else tree.names[0]
    fixed = None if root is None else not tree.floating
    return MapDynamics(tree.robot, sensors, assumptions, base=root, fixed=fixed)


def drives_and_orientations(tree, rng):
    sensors = [
        JointTorque(name=f"drive.{joint}", joint=joint, side="drive", covariance=variances(0.3, 1))
        for joint in tree.robot.joint_names[::2]
    ]
    for k in (tree.n // 2, tree.n - 1):
        sensors.append(
            Orientation(
                name=f"orientation.{tree.names[k]}",
                mount=random_mount(tree.names[k], rng),
                covariance=variances([0.1, 0.2, 0.3], 3),
                bias_sigma=[0.1, 0.2, 0.3],
            )
        )
    return sensors


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", ["tree", "floating tree on a leaf", "icub standing"])
def test_gradients_equal_differences_of_the_cost(tree_named, name, order):
    rng = np.random.default_rng(2)
    tree = tree_named(name)
    truth = truth_of(tree, rng, speed=1.0)
    sensors = [s for s in all_sensors(tree, rng) if rng.uniform() < 0.3]
    held = [] if tree.floating else [tree.names[0]]
    sensors = [s for s in sensors if s.measurement(tree.robot).link not in held]
    sensors += drives_and_orientations(tree, rng)
    problem = estimator_of(tree, sensors)
    p = tree.robot.layout.size
    A = 0.05 * rng.normal(size=(p, 3))
    linearisation = Linearisation(problem, Nuisances.of(problem, A @ A.T), order)
    layout = linearisation.layout
    y = rng.normal(size=problem.layout.size)
    gravity = None if tree.floating or tree.names[0] == "world" else truth.gravity
    sample = sample_of(linearisation, truth.q, y, gravity)
    x = 0.1 * rng.normal(size=layout.size)
    x[: layout.n], x[layout.n : 2 * layout.n] = truth.q, truth.dq

    def cost(at):
        return float((linearisation.at(at, sample).residual ** 2).sum())

    here = linearisation.at(x, sample)
    gradient = 2.0 * here.jacobian.T @ here.residual
    places = np.unique(np.r_[rng.integers(layout.size, size=12), layout.columns : layout.size])
    for k in places:
        step = np.zeros(layout.size)
        step[k] = 1e-5
        numeric = (cost(x + step) - cost(x - step)) / 2e-5
        assert abs(numeric - gradient[k]) < 2e-5 * (1.0 + abs(gradient).max()), k


def test_rotations_equal_pinocchio(tree_named):
    tree = tree_named("floating tree held at a leaf")
    truth = truth_of(tree, np.random.default_rng(1))
    R, J = rotations(tree, truth.q)
    data, names = truth.data, tree.robot.link_names
    root = data.oMi[names.index(tree.names[0]) + 1].rotation
    for i, link in enumerate(tree.names):
        np.testing.assert_allclose(
            R[i], root.T @ data.oMi[names.index(link) + 1].rotation, atol=1e-12
        )
    step = 1e-6 * np.eye(truth.q.size)[3]
    ahead = rotations(tree, truth.q + step)[0][-1] @ R[-1].T
    np.testing.assert_allclose(log_so3(ahead) / 1e-6, J[-1, :, 3], atol=1e-5)


def test_orientations_stand_in_for_encoders_on_a_floating_robot(tree_named):
    rng = np.random.default_rng(4)
    tree = tree_named("floating tree")
    truth = truth_of(tree, rng)
    links = [tree.names[0], tree.names[tree.n - 1]]
    end = tree.joint_name(tree.n - 1)
    sensors = [
        Orientation(name=link, mount=random_mount(link, rng), covariance=variances(1e-4, 3))
        for link in links
    ]
    sensors += [
        Encoder(name=joint, joint=joint, covariance=variances(1e-5, 1))
        for joint in tree.robot.joint_names
        if joint != end
    ]
    y = []
    for sensor in sensors:
        if isinstance(sensor, Encoder):
            y.append(truth.q[[tree.robot.joint_names.index(sensor.joint)]])
        else:
            k = tree.robot.link_names.index(sensor.mount.frame) + 1
            y.append(log_so3(truth.data.oMi[k].rotation @ sensor.mount.R))
    problem = estimator_of(tree, sensors)
    start = truth.q + 0.3 * rng.normal(size=truth.q.size)
    prior = StatePrior.of(start, truth.dq, q_std=0.5, dq_std=0.1)
    found = StateAndDynamics(problem, prior).estimate(np.concatenate(y))
    at = tree.robot.joint_names.index(end)
    if tree.arrays.prismatic[tree.n - 1]:
        assert found.sigma(f"q.{end}")[0] > 0.4  # turns of links say nothing of slides
    else:
        assert abs(found[f"q.{end}"][0] - truth.q[at]) < 1e-3
    R = truth.data.oMi[tree.robot.link_names.index(tree.names[0]) + 1].rotation
    turn = exp_so3(found[f"rotation.{tree.names[0]}"]).T @ R
    assert np.abs(log_so3(turn)).max() < 1e-3
    assert np.abs(found.residual[links[0]]).max() < 1e-3
    assert found.absent[links[0]] == 0


def test_a_bias_is_told_from_a_velocity_by_what_stands_still(random_model):
    rng = np.random.default_rng(6)
    robot = Robot.from_pinocchio(random_model(rng, 3))
    link = robot.link_names[-1]
    gyro = Gyroscope(
        name="gyro", mount=random_mount(link, rng), covariance=variances(1e-3, 3), bias_sigma=0.5
    )
    problem = MapDynamics(robot, [gyro])
    bias = np.array([0.1, -0.2, 0.3])
    still = StatePrior.of(np.zeros(3), np.zeros(3), q_std=0.1, dq_std=1e-4)
    found = StateAndDynamics(problem, still).estimate(bias)
    np.testing.assert_allclose(found["bias.gyro"], bias, atol=2e-3)
    assert found.sigma("bias.gyro").max() < 2e-3
    moving = StatePrior.of(np.zeros(3), np.zeros(3), q_std=0.1, dq_std=10.0)
    assert StateAndDynamics(problem, moving).estimate(bias).sigma("bias.gyro").max() > 0.1


def test_uncertain_parameters_widen_torques_as_the_regressor_says(random_model):
    rng = np.random.default_rng(7)
    robot = Robot.from_pinocchio(random_model(rng, 3))
    q, dq, ddq = rng.normal(size=(3, 3))
    priors = Assumptions(
        others={
            f"ddq.{j}": GaussianPrior.of([a], 0.0)
            for j, a in zip(robot.joint_names, ddq, strict=True)
        }
    )
    prior = StatePrior.of(q, dq, q_std=0.0, dq_std=0.0)
    base = base_parameters(robot)
    A = 0.1 * rng.normal(size=(base.size, base.size))
    Sigma = theta_covariance(base, A @ A.T)
    problem = MapDynamics(robot, [], priors)
    found = StateAndDynamics(problem, prior, parameter_covariance=Sigma).estimate(np.zeros(0))
    layout = robot.layout
    Y = torque_regressor(robot, q[None], dq[None], ddq[None])[0][:, layout.inertial]
    expected = np.sqrt(np.diag(Y @ Sigma[layout.inertial, layout.inertial] @ Y.T))
    sigma = [found.sigma(f"tau.{joint}")[0] for joint in robot.joint_names]
    np.testing.assert_allclose(sigma, expected, rtol=1e-5)


def test_a_wrong_robot_is_within_its_band(random_model):
    rng = np.random.default_rng(9)
    robot = Robot.from_pinocchio(random_model(rng, 2))
    layout = robot.layout
    sigma = np.zeros(layout.size)
    sigma[layout.inertial] = 0.02 * np.abs(robot.theta[layout.inertial])
    sensors = [
        Accelerometer(name=link, mount=random_mount(link, rng), covariance=variances(0.05, 3))
        for link in robot.link_names
    ]
    problem = MapDynamics(
        robot, sensors, Assumptions(joint_acceleration=GaussianPrior.zero(1, 2.0))
    )
    inside, blind = [], []
    for _ in range(120):
        true = robot.with_parameters(robot.theta + sigma * rng.normal(size=layout.size))
        truth = truth_of(BodyTree.of(true), rng, push=0.0)
        y = np.concatenate([pinocchio_reading(s, truth) for s in sensors])
        y += 0.05 * rng.normal(size=y.size)
        prior = StatePrior.of(truth.q, truth.dq, q_std=1e-4, dq_std=1e-4)
        tau = np.concatenate([truth.values[f"tau.{joint}"] for joint in robot.joint_names])
        for spread, hits in ((np.diag(sigma**2), inside), (None, blind)):
            found = StateAndDynamics(problem, prior, parameter_covariance=spread).estimate(y)
            names = [f"tau.{joint}" for joint in robot.joint_names]
            mean = np.concatenate([found[name] for name in names])
            width = np.concatenate([found.sigma(name) for name in names])
            hits.append(np.abs(mean - tau) < 1.96 * width)
    assert 0.9 < np.mean(inside) < 0.99
    assert np.mean(blind) < np.mean(inside)


def test_bad_input_is_named(random_model):
    robot = Robot.from_pinocchio(random_model(np.random.default_rng(0), 2))
    problem = MapDynamics(robot, [])
    with pytest.raises(ShapeError, match="parameter_covariance"):
        Nuisances.of(problem, np.eye(3))
    with pytest.raises(ShapeError, match="not positive"):
        Nuisances.of(problem, -np.eye(robot.layout.size))
    with pytest.raises(ShapeError, match="base parameters"):
        theta_covariance(base_parameters(robot), np.eye(1))
