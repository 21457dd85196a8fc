"""Windows of samples: the block elimination against a dense one, and what smoothing promises."""

from __future__ import annotations

import numpy as np
import pytest
from pinocchio_truth import truth_of
from sensor_sets import pinocchio_reading, random_mount

from benchmarks.state_subjects import recorded
from bodysense.errors import ShapeError
from bodysense.estimation import (
    Assumptions,
    GaussianPrior,
    MapDynamics,
    StateAndDynamics,
    StatePosterior,
    StatePrior,
    StateSmoother,
)
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.state.window import Link, WindowLinear
from bodysense.kalman import IntegratorChain
from bodysense.robot import Robot
from bodysense.sensors import Accelerometer, Gyroscope, Orientation, variances
from bodysense.spatial import exp_so3, log_so3

JERK = 50.0


def random_window(rng, T, p, c):
    samples = [rng.normal(size=(p + c + 2, p + c + 1)) for _ in range(T)]
    links = [
        Link(rng.normal(size=(p - 1, p)), rng.normal(size=(p - 1, p)), rng.normal(size=p - 1))
        for _ in range(T - 1)
    ]
    return WindowLinear(p, samples, links, 0.0)


def dense(window):
    T, p, c = len(window.samples), window.p, window.c
    rows = []
    for t, block in enumerate(window.samples):
        wide = np.zeros((block.shape[0], T * p + c + 1))
        wide[:, t * p : (t + 1) * p], wide[:, T * p :] = block[:, :p], block[:, p:]
        rows.append(wide)
    for t, link in enumerate(window.links):
        wide = np.zeros((link.right.size, T * p + c + 1))
        wide[:, t * p : (t + 1) * p] = link.before
        wide[:, (t + 1) * p : (t + 2) * p] = link.after
        wide[:, -1] = link.right
        rows.append(wide)
    return np.vstack(rows)


@pytest.mark.parametrize(("T", "p", "c"), [(1, 4, 0), (1, 3, 2), (5, 4, 0), (6, 3, 3)])
def test_the_window_equals_a_dense_solve(T, p, c):
    window = random_window(np.random.default_rng(T), T, p, c)
    whole = dense(window)
    A, b = whole[:, :-1], whole[:, -1]
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    delta, decrease = window.step(0.0)
    np.testing.assert_allclose(delta, x, atol=1e-10)
    assert abs(decrease - (b @ b - ((b - A @ x) ** 2).sum())) < 1e-9
    covariance = np.linalg.inv(A.T @ A)
    for t, found in enumerate(window.covariances()):
        here = np.r_[t * p : (t + 1) * p, T * p : T * p + c]
        np.testing.assert_allclose(found, covariance[np.ix_(here, here)], atol=1e-9)
    damped = np.diag(np.sqrt(0.3 * (A**2).sum(axis=0)))
    longer = np.vstack([A, damped])
    x = np.linalg.lstsq(longer, np.concatenate([b, np.zeros(A.shape[1])]), rcond=None)[0]
    np.testing.assert_allclose(window.step(0.3)[0], x, atol=1e-9)


@pytest.fixture(scope="module")
def arm(random_model):
    return Robot.from_pinocchio(random_model(np.random.default_rng(5), 2))


def imus(robot, rng, bias=0.2):
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
    return sensors


def wandering(robot, times, rng, prior):
    """A motion drawn from what is believed about motions."""
    n = robot.n_joints
    x = prior.mean + (np.sqrt(np.diag(prior.covariance)) * rng.normal(size=3 * n)).reshape(3, n)
    path, chain = [x], IntegratorChain(3, np.array([JERK]))
    for h in np.diff(times):
        w = np.linalg.cholesky(chain.noise(h)) @ rng.normal(size=(3, n))
        path.append(chain.transition(h) @ path[-1] + w)
    return np.array(path)


def test_one_sample_is_the_estimate_of_a_sample(arm):
    rng = np.random.default_rng(1)
    sensors = imus(arm, rng)
    priors = Assumptions(joint_acceleration=GaussianPrior.zero(1, 2.0))
    problem = MapDynamics(arm, sensors, priors)
    truth = truth_of(problem.tree, rng, push=0.0)
    y = recorded(problem.tree, sensors, *(x[None, -2:] for x in truth.full)).readings
    prior = StatePrior.of(truth.q + 0.1, truth.dq, q_std=0.2, dq_std=0.3)
    one = StateAndDynamics(problem, prior).estimate(y[0])
    window = StateSmoother(problem, prior).estimate([0.0], y)
    assert window.converged
    np.testing.assert_array_less(
        np.abs(window.mean[0] - one.mean), 0.02 * np.sqrt(one.variance) + 1e-6
    )
    np.testing.assert_allclose(window.variance[0], one.variance, rtol=1e-2, atol=1e-9)


def test_intervals_hold_the_truth_and_later_readings_help(arm):
    rng = np.random.default_rng(2)
    tree, n, times = BodyTree.of(arm), arm.n_joints, np.array([0.0, 0.02, 0.05, 0.07, 0.1, 0.12])
    sensors = imus(arm, rng)
    problem = MapDynamics(arm, sensors, Assumptions(joint_acceleration=GaussianPrior.zero(1, 3.0)))
    sigma = np.sqrt(np.concatenate([np.diag(s.covariance) for s in sensors]))
    rows = [problem.layout.slices[f"gyro.{link}"] for link in arm.link_names]
    hits = []
    for _ in range(60):
        q, dq = rng.normal(size=(2, n))
        prior = StatePrior.of(q, dq, np.zeros(n), q_std=0.15, dq_std=0.3, ddq_std=3.0)
        path = wandering(arm, times, rng, prior)
        truth = recorded(tree, sensors, path[:, 0], path[:, 1], path[:, 2])
        bias = 0.2 * rng.normal(size=(n, 3))
        y = truth.readings + sigma * rng.normal(size=truth.readings.shape)
        for where, b in zip(rows, bias, strict=True):
            y[:, where] += b
        found = StateSmoother(problem, prior, jerk=JERK).estimate(times, y)
        assert found.converged
        same = [np.broadcast_to(bias.ravel(), (times.size, 3 * n))]
        values = np.concatenate([truth.d, path[:, 0], path[:, 1], *same], axis=1)
        width = np.sqrt(found.variance)
        hits.append(np.where(width > 1e-6, np.abs(found.mean - values) < 1.96 * width, np.nan))
        first = found.variance[0, found.variables["q.joint2"]]
    inside = np.array(hits)
    size = problem.variables.size
    assert 0.93 < np.nanmean(inside[..., :size]) < 0.97
    assert 0.93 < np.nanmean(inside[..., size:]) < 0.97
    alone = StateSmoother(problem, prior, jerk=JERK).estimate(times[:1], y[:1])
    assert first < alone.variance[0, found.variables["q.joint2"]]


def test_a_floating_root_turns(tree_named, tmp_path):
    rng = np.random.default_rng(7)
    tree = tree_named("floating tree")
    truth = truth_of(tree, rng, speed=0.5, push=0.0)
    root = tree.names[0]
    sensors = [
        Gyroscope(name="gyro", mount=random_mount(root, rng), covariance=variances(1e-3, 3)),
        Orientation(name="turn", mount=random_mount(root, rng), covariance=variances(1e-3, 3)),
    ]
    times = [0.0, 0.01, 0.02]
    frame = truth.data.oMi[1].rotation
    turns = [frame @ exp_so3(h * truth.base_twist[3:]) @ sensors[1].mount.R for h in times]
    y = np.stack(
        [np.concatenate([pinocchio_reading(sensors[0], truth), log_so3(R)]) for R in turns]
    )
    prior = StatePrior.of(truth.q, truth.dq, q_std=1e-2, dq_std=1e-2)
    found = StateSmoother(MapDynamics(tree.robot, sensors), prior).estimate(times, y)
    assert found.converged
    np.testing.assert_allclose(found[f"omega.{root}"][1], truth.base_twist[3:], atol=1e-6)
    np.testing.assert_allclose(found.sigma(f"omega.{root}"), 1e-3, rtol=1e-3)
    R = exp_so3(found[f"rotation.{root}"][2]) @ sensors[1].mount.R
    np.testing.assert_allclose(R, turns[2], atol=1e-6)
    np.testing.assert_allclose(found.sigma(f"rotation.{root}"), 1e-3, rtol=1e-3)
    assert np.abs(found.residual["turn"]).max() < 1e-6
    found.save(tmp_path)
    np.testing.assert_array_equal(StatePosterior.load(tmp_path).mean, found.mean)


def test_gaps_are_bridged(arm):
    rng = np.random.default_rng(3)
    sensors = imus(arm, rng)
    problem = MapDynamics(arm, sensors)
    times = np.linspace(0.0, 0.1, 6)
    prior = StatePrior.of(np.ones(2), np.zeros(2), np.zeros(2), q_std=0.1, dq_std=0.1, ddq_std=2)
    path = wandering(arm, times, rng, prior)
    y = recorded(problem.tree, sensors, path[:, 0], path[:, 1], path[:, 2]).readings
    y[2:4] = np.nan
    found = StateSmoother(problem, prior, jerk=JERK).estimate(times, y)
    assert found.absent["acc.link1"] == 2
    assert np.isfinite(found.mean).all()
    where = found.variables["dq.joint1"]
    assert np.abs(found.mean[3, where] - path[3, 1, 0]) < 4.0 * np.sqrt(found.variance[3, where])
    nothing = StateSmoother(problem, prior, jerk=JERK).estimate(times, np.full_like(y, np.nan))
    ahead = prior.after(0.1, JERK)
    np.testing.assert_allclose(
        [nothing["q.joint1"][-1, 0], nothing.sigma("q.joint1")[-1, 0]],
        [ahead.mean[0, 0], np.sqrt(ahead.covariance[0, 0])],
        rtol=1e-6,
    )


@pytest.mark.parametrize("size", [1e4, 1e12, np.inf])
def test_nonsense_is_reported_and_never_nan(arm, size):
    rng = np.random.default_rng(4)
    problem = MapDynamics(arm, imus(arm, rng))
    prior = StatePrior.of(np.zeros(2), np.zeros(2), q_std=0.3, dq_std=0.3)
    y = rng.normal(size=(4, problem.layout.size))
    y[1, 3:6] *= size
    found = StateSmoother(problem, prior).estimate([0.0, 0.1, 0.2, 0.3], y)
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.variance).all()
    assert found.notes or found.absent["acc.link1"] == 1


def test_bad_input_is_named(arm):
    problem = MapDynamics(arm, imus(arm, np.random.default_rng(0)))
    prior = StatePrior.of(np.zeros(2), np.zeros(2), q_std=1.0, dq_std=1.0)
    smoother = StateSmoother(problem, prior)
    y = np.zeros((3, problem.layout.size))
    with pytest.raises(ShapeError, match="times must grow"):
        smoother.estimate([0.0, 0.2, 0.1], y)
    with pytest.raises(ShapeError, match="3 times"):
        smoother.estimate([0.0, 0.1, 0.2], y[:2])
    with pytest.raises(ShapeError, match="0 times"):
        smoother.estimate([], y[:0])
