"""Tracking a stream: an iCub without encoders at elbows and wrists, and what may go wrong."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.state import positions
from benchmarks.state_subjects import HELD, HIDDEN, icub, icub_sensors, recorded, repetitive
from bodysense.errors import ShapeError
from bodysense.estimation import GaussianPrior, MapDynamics, StatePrior, StateSmoother, StateTracker
from bodysense.estimation.map_dynamics.body_tree import BodyTree


@pytest.fixture(scope="module")
def stream():
    """Times, positions, readings and problem of a second of an iCub that moves from rest."""
    robot, rng = icub(), np.random.default_rng(4)
    tree, sensors = BodyTree.of(robot, fixed=True), icub_sensors(robot)
    t, q, dq, ddq = repetitive(robot, 40, 100.0, rng)
    truth = recorded(tree, sensors, q, dq, ddq)
    sigma = np.sqrt(np.concatenate([np.diag(s.covariance) for s in sensors]))
    y = truth.readings + sigma * rng.normal(size=truth.readings.shape)
    return t, truth, y, MapDynamics(robot, sensors, fixed=True)


def at_rest(n):
    zero = np.zeros(n)
    return StatePrior.of(zero, zero, zero, q_std=1.0, dq_std=0.1, ddq_std=10.0)


def test_elbows_and_wrists_without_encoders(stream):
    t, truth, y, problem = stream
    robot = problem.robot
    hidden = [robot.joint_names.index(joint) for joint in HIDDEN]
    tracker = StateTracker(problem, at_rest(robot.n_joints))
    found = [tracker.step(t[k], y[k], gravity=HELD) for k in range(t.size)]
    q = np.stack([positions(p, robot.joint_names, "q") for p in found])
    assert np.abs(q - truth.q)[:, hidden].max() < 0.1
    assert np.abs(q - truth.q)[-1, hidden].max() < 0.02
    assert all(p.converged for p in found)
    assert not any(p.notes for p in found[1:])
    smooth = StateSmoother(problem, at_rest(robot.n_joints)).estimate(t[:12], y[:12], gravity=HELD)
    q = positions(smooth, robot.joint_names, "q")
    assert np.abs(q - truth.q[:12])[:, hidden].max() < 0.05
    # the last sample of a window has seen what the tracker has
    last, end = smooth.at(11), found[11]
    close = np.abs(last.mean - end.mean) < 0.3 * np.sqrt(end.variance) + 1e-6
    assert close.mean() > 0.99


def test_missing_readings_are_counted_and_bridged(stream):
    t, _, y, problem = stream
    tracker = StateTracker(problem, at_rest(problem.robot.n_joints))
    for k in range(4):
        tracker.step(t[k], y[k], gravity=HELD)
    before = tracker.predicted(t[4])
    gone = tracker.step(t[4], np.full(y.shape[1], np.nan), gravity=HELD)
    n = problem.robot.n_joints
    np.testing.assert_allclose(gone.state.mean.ravel(), before.mean[: 3 * n], atol=1e-9)
    assert sum(gone.absent.values()) == len(problem.sensors)
    assert np.isfinite(gone.mean).all()
    again = tracker.step(t[5], y[5], gravity=HELD)
    assert again.variance.sum() < gone.variance.sum()


def test_forgets_when_asked(stream):
    t, _, y, problem = stream
    tracker = StateTracker(problem, at_rest(problem.robot.n_joints))
    one = tracker.step(t[0], y[0], gravity=HELD)
    tracker.step(t[1], y[1], gravity=HELD)
    tracker.reset()
    other = tracker.step(t[0], y[0], gravity=HELD)
    np.testing.assert_array_equal(one.mean, other.mean)


def test_after_a_pause_the_root_turns_as_it_is_believed_then(tree_named):
    tree = tree_named("floating tree")
    problem = MapDynamics(tree.robot, ())
    n = tree.robot.n_joints
    still, turning = GaussianPrior.zero(3, 0.01), GaussianPrior.of([0.5, -1.0, 2.0], 0.3)

    def believed(omega):
        zero = np.zeros(n)
        return StatePrior.of(
            zero, zero, zero, q_std=0.1, dq_std=0.1, ddq_std=1.0, angular_velocity=omega
        )

    tracker = StateTracker(problem, believed(still))
    root = slice(3 * n, 3 * n + 3)
    tracker.step(0.0, np.zeros(0))
    tracker.restart(believed(turning))
    for t in (1.0, 1.1, 1.2):  # at the first sample, and at those behind it
        prior = tracker.predicted(t)
        np.testing.assert_array_equal(prior.mean[root], turning.mean)
        np.testing.assert_array_equal(prior.covariance[root, root], turning.covariance)
        tracker.step(t, np.zeros(0))
    tracker.reset()
    tracker.step(0.0, np.zeros(0))
    np.testing.assert_array_equal(tracker.predicted(0.1).mean[root], still.mean)


def test_bad_input_is_named(stream):
    _, _, y, problem = stream
    n = problem.robot.n_joints
    with pytest.raises(ShapeError, match="jerk"):
        StateTracker(problem, at_rest(n), jerk=-1.0)
    tracker = StateTracker(problem, at_rest(n))
    tracker.step(1.0, y[0], gravity=HELD)
    for late in (1.0, 0.5, np.nan):
        with pytest.raises(ShapeError, match="in order"):
            tracker.step(late, y[1], gravity=HELD)
