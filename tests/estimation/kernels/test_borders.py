"""Borders of the elimination: no doubt, no knowledge, odd trees, against the dense oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from dense_oracle import dense_posterior, sensor_noise
from pinocchio_truth import truth_of
from sensor_sets import all_sensors, pinocchio_reading

from bodysense.estimation import Assumptions, GaussianPrior, MapDynamics
from bodysense.estimation.map_dynamics.equations import Equations
from bodysense.robot import Robot
from bodysense.sensors import Accelerometer, ForceTorque, JointAcceleration, JointTorque
from bodysense.spatial import random_pi

WIDE = dict(
    joint_acceleration=GaussianPrior.zero(1, 10.0), base_acceleration=GaussianPrior.zero(6, 20.0)
)
PUSHED = Assumptions(wrench=GaussianPrior.zero(6, 5.0), **WIDE)
SOFT = Assumptions(
    wrench=GaussianPrior.zero(6, 5.0),
    **WIDE,
    acceleration_slack=GaussianPrior.zero(6, 0.1),
    wrench_slack=GaussianPrior.zero(6, 0.2),
    torque_slack=GaussianPrior.zero(1, 0.1),
)


def body(model, parent, joint, rng, name):
    place = pin.SE3(pin.exp3(rng.normal(size=3)), rng.uniform(-0.3, 0.3, 3))
    k = model.addJoint(parent, joint, place, f"joint-{name}")
    inertia = pin.Inertia.FromDynamicParameters(random_pi(rng, 1)[0])
    model.appendBodyToJoint(k, inertia, pin.SE3.Identity())
    model.addBodyFrame(f"link-{name}", k, pin.SE3.Identity(), model.addJointFrame(k))


def built(links, rng):
    """A robot from (parent, joint) pairs."""
    model = pin.Model()
    model.name = "built"
    for k, (parent, joint) in enumerate(links):
        body(model, parent, joint, rng, str(k + 1))
    return Robot.from_pinocchio(model)


def exact(sensor):
    """The same sensor without noise."""
    return replace(sensor, covariance=np.zeros_like(sensor.covariance))


def problem_of(tree, sensors, assumptions):
    root = None if tree.names[0] == "world" else tree.names[0]
    fixed = None if root is None else not tree.floating
    return MapDynamics(tree.robot, sensors, assumptions, base=root, fixed=fixed)


def compared(problem, sample, y, tolerance=1e-8, precise=False):
    """Mean and variances equal the oracle's; both are returned."""
    sample = dict(sample)
    equations = Equations.at(problem.tree, problem.sensors, **sample)
    noise = sensor_noise(problem.sensors)
    oracle = dense_posterior(equations, y, noise, problem.assumptions, precise=precise)
    found = problem.estimate(sample.pop("q"), sample.pop("dq"), y, detail="slacks", **sample)
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.variance).all()
    assert (found.variance >= 0.0).all()
    error = np.abs(found.mean - oracle.mean) / (1.0 + np.abs(oracle.mean).max())
    assert error.max() < tolerance
    variance = np.diag(oracle.covariance)
    np.testing.assert_allclose(found.variance, variance, rtol=10 * tolerance, atol=1e-8)
    return found, oracle


def some(tree, rng, share=0.4):
    held = [] if tree.floating else [tree.names[0]]
    chosen = [s for s in all_sensors(tree, rng) if rng.uniform() < share]
    return [s for s in chosen if s.measurement(tree.robot).link not in held]


@pytest.mark.parametrize("kind", [JointTorque, JointAcceleration, ForceTorque, Accelerometer])
@pytest.mark.parametrize("name", ["chain", "floating tree"])
def test_readings_without_noise(tree_named, name, kind):
    rng = np.random.default_rng(1)
    tree = tree_named(name)
    truth, places, sensors = truth_of(tree, rng), set(), []
    for sensor in some(tree, rng):
        # one exact reading of a wrench, and no more of accelerations than joints can follow
        place = "anywhere" if kind is Accelerometer else getattr(sensor, "joint", None)
        if type(sensor) is kind and place not in places:
            places.add(place)
            sensor = exact(sensor)
        sensors.append(sensor)
    y = np.concatenate([pinocchio_reading(sensor, truth) for sensor in sensors])
    y += rng.normal(scale=0.05, size=y.size)
    found, _ = compared(problem_of(tree, sensors, PUSHED), truth.arguments(), y, 1e-6)
    for sensor in sensors:
        if not sensor.covariance.any():
            assert np.abs(found.residual[sensor.name]).max() < 1e-5


@pytest.mark.parametrize("name", ["chain", "floating tree", "icub standing"])
def test_readings_that_contradict_each_other_without_doubt(tree_named, name):
    rng = np.random.default_rng(9)
    tree = tree_named(name)
    sample = truth_of(tree, rng).arguments()
    sensors = [exact(sensor) for sensor in some(tree, rng)]
    problem = problem_of(tree, sensors, PUSHED)
    y = rng.normal(scale=100.0, size=problem.layout.size)
    found = problem.estimate(sample.pop("q"), sample.pop("dq"), y, detail="slacks", **sample)
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.variance).all()
    assert (found.variance >= 0.0).all()


def test_free_fall_of_a_root_that_nothing_pushes(tree_named):
    tree = tree_named("floating tree")
    assumptions = Assumptions(
        joint_acceleration=GaussianPrior.zero(1),
        base_acceleration=GaussianPrior.of(np.ones(6), 50.0),
    )
    q, dq = np.full(tree.robot.n_joints, 0.3), np.zeros(tree.robot.n_joints)
    problem = problem_of(tree, [], assumptions)
    found, _ = compared(problem, dict(q=q, dq=dq, base_twist=np.zeros(6)), np.zeros(0))
    np.testing.assert_allclose(found.mean, 0.0, atol=1e-7)  # it feels nothing when it falls
    np.testing.assert_allclose(found.variance, 0.0, atol=1e-12)


def test_everything_believed_without_doubt(tree_named):
    rng = np.random.default_rng(2)
    tree = tree_named("chain")
    assumptions = Assumptions(
        wrench=GaussianPrior.zero(6), joint_acceleration=GaussianPrior.of([0.5], 0.0)
    )
    truth = truth_of(tree, rng)
    found, _ = compared(problem_of(tree, [], assumptions), truth.arguments(), np.zeros(0))
    assert not found.variance.any()


@pytest.mark.parametrize("name", ["chain", "floating tree", "floating tree held at a leaf"])
def test_no_sensors(tree_named, name):
    tree = tree_named(name)
    sample = truth_of(tree, np.random.default_rng(4)).arguments()
    compared(problem_of(tree, [], PUSHED), sample, np.zeros(0))
    compared(problem_of(tree, [], SOFT), sample, np.zeros(0))


@pytest.mark.parametrize("name", ["chain", "floating tree"])
def test_enormous_variances(tree_named, name):
    rng = np.random.default_rng(5)
    tree = tree_named(name)
    wide = Assumptions(
        wrench=GaussianPrior.zero(6, 1e4),
        joint_acceleration=GaussianPrior.zero(1, 1e4),
        base_acceleration=GaussianPrior.zero(6, 1e4),
    )
    truth, sensors = truth_of(tree, rng), all_sensors(tree, rng)
    held = [] if tree.floating else [tree.names[0]]
    sensors = [s for s in sensors if s.measurement(tree.robot).link not in held]
    y = np.concatenate([pinocchio_reading(sensor, truth) for sensor in sensors])
    found, _ = compared(problem_of(tree, sensors, wide), truth.arguments(), y, 1e-7)
    np.testing.assert_allclose(found.mean, truth.d(found.variables), atol=1e-3)


def test_one_unknown_push_and_no_other(robot_of):
    """A push on one link that torques alone know of, and links that nothing touches."""
    arm = robot_of("tx40")
    noise = np.array([[0.01]])
    sensors = [JointTorque(name=f"tau.{j}", joint=j, covariance=noise) for j in arm.joint_names]
    sensors += [
        JointAcceleration(name=f"ddq.{j}", joint=j, covariance=noise) for j in arm.joint_names
    ]
    rng = np.random.default_rng(1)
    for std, tolerance in ((30.0, 1e-9), (1000.0, 1e-7)):
        push = {arm.link_names[-1]: GaussianPrior.zero(6, std)}
        priors = Assumptions(wrenches=push, joint_acceleration=GaussianPrior.zero(1, std))
        problem = MapDynamics(arm, sensors, priors)
        for _ in range(3):
            sample = dict(q=rng.uniform(-1.5, 1.5, 6), dq=rng.normal(size=6))
            compared(problem, sample, rng.normal(scale=10.0, size=12), tolerance, precise=True)


@pytest.mark.parametrize("joint", [pin.JointModelRY(), pin.JointModelPX()], ids=["turns", "slides"])
def test_one_joint(joint):
    rng = np.random.default_rng(6)
    robot = built([(0, joint)], rng)
    tree = MapDynamics(robot, []).tree
    sensors = some(tree, rng, 0.8)
    truth = truth_of(tree, rng)
    y = rng.normal(size=sum(s.measurement(robot).size for s in sensors))
    compared(problem_of(tree, sensors, SOFT), truth.arguments(), y)
    compared(problem_of(tree, sensors, PUSHED), truth.arguments(), y)


def test_a_body_with_twelve_children():
    rng = np.random.default_rng(7)
    joints = [pin.JointModelRX(), pin.JointModelPY(), pin.JointModelRZ()]
    robot = built([(0, joints[0])] + [(1, joints[k % 3]) for k in range(12)], rng)
    tree = MapDynamics(robot, []).tree
    sensors, truth = some(tree, rng), truth_of(tree, rng)
    y = rng.normal(size=sum(s.measurement(robot).size for s in sensors))
    compared(problem_of(tree, sensors, SOFT), truth.arguments(), y)
    compared(problem_of(tree, sensors, PUSHED), truth.arguments(), y)


def test_a_long_chain():
    rng = np.random.default_rng(8)
    joints = [pin.JointModelRX(), pin.JointModelRY(), pin.JointModelRZ()]
    robot = built([(k, joints[k % 3]) for k in range(36)], rng)
    tree = MapDynamics(robot, []).tree
    sensors, truth = some(tree, rng, 0.2), truth_of(tree, rng, speed=0.3)
    y = rng.normal(size=sum(s.measurement(robot).size for s in sensors))
    compared(problem_of(tree, sensors, PUSHED), truth.arguments(), y)


@pytest.mark.parametrize(
    "wrench", [GaussianPrior.zero(6), GaussianPrior.zero(6, 0.01), GaussianPrior.zero(6, 1e4)]
)
@pytest.mark.parametrize("name", ["tx40", "example:icub"])
def test_variances_of_light_links_with_and_without_doubt(robot_of, name, wrench):
    """Links of grams beside links of kilograms, touched by nothing or by anything."""
    robot, rng = robot_of(name), np.random.default_rng(12)
    sensors = [
        JointTorque(name=f"tau.{j}", joint=j, covariance=np.array([[0.01]]))
        for j in robot.joint_names
    ]
    problem = MapDynamics(robot, sensors, Assumptions(wrench=wrench))
    sample = dict(q=rng.uniform(-1, 1, robot.n_joints), dq=rng.normal(size=robot.n_joints))
    if robot.floating_base:
        sample["base_twist"] = rng.normal(size=6)
    y = rng.normal(size=robot.n_joints)
    found, oracle = compared(problem, sample, y, 1e-9, precise=True)
    variance = np.diag(oracle.covariance)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-8, atol=1e-12)


def test_readings_of_one_torque_share_the_slack_of_its_equation(robot_of):
    """Two sensors of a torque; one of them missing leaves the other as if it were alone."""
    arm, rng = robot_of("tx40"), np.random.default_rng(3)
    joint = arm.joint_names[1]
    sensors = [
        JointTorque(name=f"tau{k}", joint=joint, covariance=np.array([[noise]]))
        for k, noise in enumerate((0.01, 0.04))
    ]
    sample = dict(q=rng.uniform(-1, 1, 6), dq=rng.normal(size=6))
    compared(MapDynamics(arm, sensors, SOFT), sample, np.array([3.0, 4.0]))
    both = MapDynamics(arm, sensors, SOFT).estimate(**sample, readings=np.array([3.0, np.nan]))
    one = MapDynamics(arm, sensors[:1], SOFT).estimate(**sample, readings=np.array([3.0]))
    np.testing.assert_allclose(both.mean, one.mean, atol=1e-12)
    np.testing.assert_allclose(both.variance, one.variance, rtol=1e-12)
