"""State and dynamics of one sample against a dense minimisation, and as they must behave."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from pinocchio_truth import truth_of
from scipy.optimize import least_squares
from sensor_sets import pinocchio_reading, random_mount

from benchmarks.state import PAPER, planar_errors
from bodysense.errors import MismatchError, ShapeError
from bodysense.estimation import (
    Assumptions,
    GaussianPrior,
    MapDynamics,
    StateAndDynamics,
    StatePrior,
)
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.equations import Equations
from bodysense.robot import Robot
from bodysense.sensors import Accelerometer, Encoder, ForceTorque, Gyroscope, JointTorque, variances

SOFT = Assumptions(
    wrench=GaussianPrior.zero(6, 5.0),
    joint_acceleration=GaussianPrior.zero(1, 10.0),
    acceleration_slack=GaussianPrior.zero(6, 0.1),
    wrench_slack=GaussianPrior.zero(6, 0.2),
    torque_slack=GaussianPrior.zero(1, 0.1),
)
SLACKS = {"acceleration": 0.1, "wrench": 0.2, "torque": 0.1}


@pytest.fixture(scope="module")
def arm(random_model):
    return Robot.from_pinocchio(random_model(np.random.default_rng(5), 3))


def imus(robot, rng, bias=None):
    """A gyroscope and an accelerometer on each link, and a few of the rest."""
    sensors = []
    for link in robot.link_names:
        sensors += [
            Gyroscope(
                name=f"gyro.{link}",
                mount=random_mount(link, rng),
                covariance=variances(0.02, 3),
                bias_sigma=bias,
            ),
            Accelerometer(
                name=f"acc.{link}", mount=random_mount(link, rng), covariance=variances(0.1, 3)
            ),
        ]
    first = robot.joint_names[0]
    sensors.append(JointTorque(name="torque", joint=first, covariance=variances(0.1, 1)))
    sensors.append(Encoder(name="encoder", joint=first, covariance=variances(0.01, 1)))
    mount = random_mount(robot.link_names[1], rng)
    joint = robot.joint_names[1]
    sensors.append(ForceTorque(name="ft", joint=joint, mount=mount, covariance=variances(0.2, 6)))
    return sensors


def read(sensors, truth, rng):
    values = np.concatenate([pinocchio_reading(s, truth) for s in sensors])
    sigma = np.sqrt(np.concatenate([np.diag(s.covariance) for s in sensors]))
    return values + sigma * rng.normal(size=sigma.size)


def state_of(posterior, robot):
    return np.concatenate(
        [posterior[f"{what}.{joint}"] for what in ("q", "dq") for joint in robot.joint_names]
    )


def test_equals_a_dense_minimisation_over_state_dynamics_and_biases(random_model):
    rng = np.random.default_rng(8)
    arm = Robot.from_pinocchio(random_model(rng, 2))
    tree, n = BodyTree.of(arm), arm.n_joints
    sensors = imus(arm, rng, bias=0.1)
    truth = truth_of(tree, rng, push=2.0)
    y = read(sensors, truth, rng)
    y[0] = np.nan
    problem = MapDynamics(arm, sensors, SOFT)
    x0 = np.concatenate([truth.q, truth.dq]) + 0.1 * rng.normal(size=2 * n)
    prior = StatePrior.of(x0[:n], x0[n:], q_std=0.2, dq_std=0.3)
    found = StateAndDynamics(problem, prior).estimate(y)
    assert found.converged
    biased = [s for s in sensors if s.bias_sigma is not None]
    rows = np.concatenate([np.arange(y.size)[problem.layout.slices[s.name]] for s in biased])
    sigma = np.sqrt(np.concatenate([np.diag(s.covariance) for s in sensors]))
    used = np.isfinite(y)
    used[problem.layout.slices["gyro.link1"]] = False  # one of its readings is missing

    blocks = Equations.at(tree, sensors, truth.q, truth.dq).rows.slices.items()
    slack = np.concatenate(
        [np.full(w.stop - w.start, SLACKS[name.partition(".")[0]]) for name, w in blocks]
    )

    @cache  # most differences are in the dynamics, which leave the equations as they are
    def equations(*x):
        return Equations.at(tree, sensors, x[:n], x[n:]).dense()

    def residuals(z):
        d, x, bias = np.split(z, [problem.variables.size, problem.variables.size + 2 * n])
        e = equations(*x)
        shift = np.zeros(y.size)
        shift[rows] = bias
        parts = [(e.D @ d + e.b_D) / slack, ((y - e.Y @ d - e.b_Y - shift) / sigma)[used]]
        for link in arm.link_names:
            parts.append(d[problem.variables[f"fx.{link}"]] / 5.0)
        for joint in arm.joint_names:
            parts.append(d[problem.variables[f"ddq.{joint}"]] / 10.0)
        parts += [(x[:n] - x0[:n]) / 0.2, (x[n:] - x0[n:]) / 0.3, bias / 0.1]
        return np.concatenate(parts)

    start = np.concatenate([truth.d(problem.variables), truth.q, truth.dq, np.zeros(rows.size)])
    dense = least_squares(residuals, start, jac="3-point", method="lm", xtol=1e-14, ftol=1e-14)
    covariance = np.linalg.inv(dense.jac.T @ dense.jac)
    assert abs(2.0 * dense.cost - found.cost) < 1e-3
    sigma_all = np.sqrt(np.diag(covariance))
    np.testing.assert_array_less(np.abs(found.mean - dense.x) / sigma_all, 0.02)
    np.testing.assert_allclose(np.sqrt(found.variance), sigma_all, rtol=5e-3)
    where = found.variables["f.joint2"]
    np.testing.assert_allclose(
        found.covariance("f.joint2"),
        covariance[where, where],
        atol=1e-2 * covariance[where, where].max(),
    )


def test_a_certain_state_leaves_the_dynamics_of_that_state(arm):
    rng = np.random.default_rng(1)
    sensors = imus(arm, rng)
    truth = truth_of(BodyTree.of(arm), rng)
    y = read(sensors, truth, rng)
    problem = MapDynamics(arm, sensors, SOFT)
    prior = StatePrior.of(truth.q, truth.dq, q_std=0.0, dq_std=0.0)
    found = StateAndDynamics(problem, prior).estimate(y)
    plain = problem.estimate(truth.q, truth.dq, y)
    size = problem.variables.size
    np.testing.assert_allclose(found.mean[:size], plain.mean, atol=1e-9)
    np.testing.assert_allclose(found.variance[:size], plain.variance, rtol=1e-9)
    np.testing.assert_array_equal(state_of(found, arm), np.concatenate([truth.q, truth.dq]))


def test_accelerations_in_the_state_change_nothing(arm):
    rng = np.random.default_rng(2)
    sensors = imus(arm, rng)
    truth = truth_of(BodyTree.of(arm), rng)
    y = read(sensors, truth, rng)
    problem = MapDynamics(arm, sensors, SOFT)
    prior = StatePrior.of(truth.q + 0.1, truth.dq, q_std=0.2, dq_std=0.3)
    wide = prior.with_accelerations(SOFT.joint_acceleration)
    one = StateAndDynamics(problem, prior).estimate(y)
    other = StateAndDynamics(problem, wide).estimate(y)
    np.testing.assert_array_less(np.abs(one.mean - other.mean), 0.02 * np.sqrt(one.variance) + 1e-9)
    np.testing.assert_allclose(one.variance, other.variance, rtol=1e-2)


def test_the_figures_of_the_paper():
    # gravity lies in the plane of the chain: about axes along it, the first position would be free
    errors = [planar_errors(seed) for seed in range(10)]
    once = np.mean([e.once for e in errors], axis=0)
    iterated = np.mean([e.iterated for e in errors], axis=0)
    assert (once <= PAPER).all()
    assert (iterated[1:] <= np.array(PAPER[1:]) / 10.0).all()


def test_a_chain_about_gravity_does_not_know_where_it_points(random_model):
    from benchmarks.state_subjects import planar_chain, planar_sensors, recorded

    rng = np.random.default_rng(0)
    robot = planar_chain(rng, 4, gravity=(0.0, 0.0, -9.81))
    sensors = planar_sensors(robot, rng)
    q, dq, ddq = rng.normal(size=(3, 1, 4))
    y = recorded(BodyTree.of(robot), sensors, q, dq, ddq).readings[0]
    prior = StatePrior.of(q[0] + 0.1, dq[0], q_std=0.3, dq_std=0.3)
    found = StateAndDynamics(MapDynamics(robot, sensors), prior).estimate(y)
    assert found.sigma("q.joint1")[0] > 0.29  # the prior, and no more
    assert abs(found["q.joint1"][0] - q[0, 0] - 0.1) < 1e-6
    assert found.sigma("dq.joint1")[0] < 1e-3


def test_intervals_hold_the_truth(arm):
    rng = np.random.default_rng(11)
    tree, n = BodyTree.of(arm), arm.n_joints
    sensors = imus(arm, rng)
    priors = Assumptions(
        wrench=GaussianPrior.zero(6, 1.0), joint_acceleration=GaussianPrior.zero(1, 2.0)
    )
    problem = MapDynamics(arm, sensors, priors)
    state, dynamics = [], []
    for _ in range(250):
        truth = truth_of(tree, rng, push=1.0)
        q, dq = truth.q + 0.1 * rng.normal(size=n), truth.dq + 0.2 * rng.normal(size=n)
        prior = StatePrior.of(q, dq, q_std=0.1, dq_std=0.2)
        found = StateAndDynamics(problem, prior).estimate(read(sensors, truth, rng))
        values = np.concatenate([truth.d(problem.variables), truth.q, truth.dq])
        sigma = np.sqrt(found.variance)
        inside = np.where(sigma > 1e-6, np.abs(found.mean - values) < 1.96 * sigma, np.nan)
        state.append(inside[-2 * n :])
        dynamics.append(inside[: -2 * n])
    assert 0.93 < np.nanmean(state) < 0.97
    assert 0.93 < np.nanmean(dynamics) < 0.97  # without what the mount of the base fixes


def test_a_floating_root_has_an_angular_velocity(tree_named):
    rng = np.random.default_rng(6)
    tree = tree_named("floating tree on a leaf")
    robot, truth = tree.robot, truth_of(tree, rng, push=1.0)
    sensors = [
        kind(name=f"{kind.kind}.{link}", mount=random_mount(link, rng), covariance=variances(s, 3))
        for link in tree.names
        for kind, s in ((Gyroscope, 1e-3), (Accelerometer, 0.01))
    ]
    sensors += [
        Encoder(name=f"encoder.{j}", joint=j, covariance=variances(1e-3, 1))
        for j in robot.joint_names
    ]
    priors = Assumptions(
        wrench=GaussianPrior.zero(6, 1.0), wrenches={"link13": GaussianPrior.unknown(6)}
    )
    problem = MapDynamics(robot, sensors, priors, base="link13")
    n = robot.n_joints
    prior = StatePrior.of(np.zeros(n), np.zeros(n), q_std=2.0, dq_std=3.0)
    found = StateAndDynamics(problem, prior).estimate(read(sensors, truth, rng))
    assert found.converged
    assert not found.notes
    error = found["omega.link13"] - truth.base_twist[3:]
    assert (np.abs(error) < 4.0 * found.sigma("omega.link13")).all()
    assert found.sigma("omega.link13").max() < 1e-3
    sigma = np.sqrt(found.variance[-2 * n - 3 : -3])
    values = np.concatenate([truth.q, truth.dq])
    assert (np.abs(state_of(found, robot) - values) < 4.5 * sigma).all()


def test_what_is_not_read_is_believed(arm):
    rng = np.random.default_rng(3)
    sensors = imus(arm, rng, bias=0.1)
    problem = MapDynamics(arm, sensors, SOFT)
    prior = StatePrior.of(np.ones(3), np.zeros(3), q_std=0.4, dq_std=0.3)
    found = StateAndDynamics(problem, prior).estimate(np.full(problem.layout.size, np.nan))
    np.testing.assert_allclose(state_of(found, arm)[:3], 1.0)
    np.testing.assert_allclose(found.sigma("q.joint2"), 0.4)
    np.testing.assert_allclose(found.sigma("bias.gyro.link1"), 0.1)
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.variance).all()
    assert found.absent["acc.link2"] == 1


@pytest.mark.parametrize("size", [1e3, 1e9, 1e15, 1e300])
def test_nonsense_is_reported_and_never_nan(arm, size):
    rng = np.random.default_rng(4)
    sensors = imus(arm, rng)
    problem = MapDynamics(arm, sensors)
    prior = StatePrior.of(np.zeros(3), np.zeros(3), q_std=0.4, dq_std=0.3)
    y = size * rng.normal(size=problem.layout.size)
    for iterations in (1, 50):
        found = StateAndDynamics(problem, prior).estimate(y, iterations=iterations)
        assert np.isfinite(found.mean).all()
        assert np.isfinite(found.variance).all()
        assert found.notes or sum(found.absent.values()) == len(sensors)


def test_tells_how_it_ended(arm):
    rng = np.random.default_rng(4)
    sensors = imus(arm, rng)
    truth = truth_of(BodyTree.of(arm), rng)
    estimator = StateAndDynamics(
        MapDynamics(arm, sensors, SOFT),
        StatePrior.of(truth.q + 0.3, truth.dq, q_std=0.3, dq_std=0.3),
    )
    y = read(sensors, truth, rng)
    once = estimator.estimate(y, iterations=1)
    assert not once.converged
    assert "iterate" in once.status
    assert once.notes == (once.status,)
    best = estimator.estimate(y)
    assert best.converged
    assert best.cost <= once.cost
    assert not best.notes
    assert "chi-square" in best.summary()
    given = estimator.estimate(y, iterations=1, at=best.mean[: estimator.problem.variables.size])
    assert np.isfinite(given.cost)


def test_bad_input_is_named(arm):
    problem = MapDynamics(arm, imus(arm, np.random.default_rng(0)))
    with pytest.raises(MismatchError, match="4 joints"):
        StateAndDynamics(problem, StatePrior.of(np.zeros(4), np.zeros(4), q_std=1, dq_std=1))
    prior = StatePrior.of(np.zeros(3), np.zeros(3), q_std=1, dq_std=1)
    estimator = StateAndDynamics(problem, prior)
    with pytest.raises(ShapeError, match="readings"):
        estimator.estimate(np.zeros((2, problem.layout.size)))
    with pytest.raises(ShapeError, match="readings"):
        estimator.estimate(np.zeros(3))
    with pytest.raises(ShapeError, match="iterations"):
        estimator.estimate(np.zeros(problem.layout.size), iterations=0)
    wide = prior.with_accelerations(GaussianPrior.zero(1, 1.0))
    with pytest.raises(MismatchError, match="accelerations"):
        estimator.estimate(np.zeros(problem.layout.size), state=wide)
    with pytest.raises(ShapeError, match="d has shape"):
        estimator.estimate(np.zeros(problem.layout.size), at=np.zeros(3))


def test_one_linearisation_knows_how_uncertain_accelerations_are(robot_of):
    """Accelerations that are part of the state keep their doubt in that of the dynamics."""
    arm = robot_of("tx40")
    encoders = [
        Encoder(name=f"q.{j}", joint=j, covariance=variances(1e-3, 1)) for j in arm.joint_names
    ]
    state = StatePrior.of(
        np.zeros(6), np.zeros(6), np.zeros(6), q_std=0.1, dq_std=0.1, ddq_std=10.0
    )
    both = StateAndDynamics(MapDynamics(arm, encoders), state)
    once, iterated = (both.estimate(np.zeros(6), iterations=k) for k in (1, 20))
    for joint in arm.joint_names:
        assert once.sigma(f"ddq.{joint}")[0] == pytest.approx(10.0, rel=0.05)
        assert iterated.sigma(f"ddq.{joint}")[0] == pytest.approx(10.0, rel=0.05)
