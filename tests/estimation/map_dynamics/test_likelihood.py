"""Log-likelihood and covariances across links, against a dense solve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dense_oracle import dense_posterior, sensor_noise
from pinocchio_truth import truth_of
from sensor_sets import all_sensors
from simulated_logs import simulated

from bodysense.errors import UnknownNameError
from bodysense.estimation import Assumptions, GaussianPrior, MapDynamics
from bodysense.estimation.map_dynamics.equations import Equations

KNOWN = dict(
    wrench=GaussianPrior.zero(6, 5.0),
    joint_acceleration=GaussianPrior.zero(1, 10.0),
    base_acceleration=GaussianPrior.zero(6, 20.0),
)
SLACKS = dict(
    acceleration_slack=GaussianPrior.zero(6, 0.1),
    wrench_slack=GaussianPrior.zero(6, 0.2),
    torque_slack=GaussianPrior.zero(1, 0.1),
)
ROOTS = ["chain", "tree", "floating tree", "floating tree on a leaf", "icub", "icub standing"]


def set_up(tree, rng, soft):
    last, joint = tree.names[-1], tree.joint_name(tree.n - 1)
    others = {
        f"a.{last}": GaussianPrior.of(np.ones(6), 30.0),
        f"f.{joint}": GaussianPrior.zero(6, 20.0),
    }
    if soft:
        others[f"tau.{tree.joint_name(1)}"] = GaussianPrior.of([3.0], 15.0)
    assumptions = Assumptions(**KNOWN, **(SLACKS if soft else {}), others=others)
    held = [] if tree.floating else [tree.names[0]]
    sensors = [
        sensor
        for sensor in all_sensors(tree, rng)
        if rng.uniform() < 0.3 and sensor.measurement(tree.robot).link not in held
    ]
    root = None if tree.names[0] == "world" else tree.names[0]
    fixed = None if root is None else not tree.floating
    return MapDynamics(tree.robot, sensors, assumptions, base=root, fixed=fixed)


@pytest.mark.parametrize("soft", [True, False], ids=["soft", "sharp"])
@pytest.mark.parametrize("name", ROOTS)
def test_equals_a_dense_solve(tree_named, name, soft):
    rng = np.random.default_rng(5)
    tree = tree_named(name)
    problem = set_up(tree, rng, soft)
    sample = truth_of(tree, rng).arguments()
    equations = Equations.at(tree, problem.sensors, **sample)
    y = rng.normal(scale=3.0, size=equations.readings.size)
    motion = next(s.name for s in problem.sensors if s.kind == "accelerometer")
    y[equations.readings[motion]] = np.nan
    oracle = dense_posterior(equations, y, sensor_noise(problem.sensors), problem.assumptions)
    q, dq = sample.pop("q"), sample.pop("dq")
    found = problem.estimate(q, dq, y, likelihood=True, **sample)
    assert found.log_likelihood == pytest.approx(oracle.log_likelihood, rel=1e-8)
    names = [*list(problem.variables)[:3], *list(problem.variables)[-4:]]
    got = problem.covariance_of(names, q, dq, absent=[motion], **sample)
    rows = np.concatenate(
        [np.arange(s.start, s.stop) for s in map(oracle.variables.__getitem__, names)]
    )
    wanted = oracle.covariance[np.ix_(rows, rows)]
    np.testing.assert_allclose(got, wanted, atol=1e-8 * np.abs(wanted).max())


def test_samples_in_one_call_equal_samples_alone(tree_named):
    rng = np.random.default_rng(2)
    tree = tree_named("floating tree")
    problem = set_up(tree, rng, False)
    n = tree.robot.n_joints
    q, dq = rng.normal(size=(2, 7, n))
    y = rng.normal(size=(7, problem.layout.size))
    y[3] = np.nan
    known = {"base_twist": np.zeros(6), "likelihood": True}
    many = problem.estimate(q, dq, y, **known)
    one = [problem.estimate(q[t], dq[t], y[t], **known).log_likelihood for t in range(7)]
    np.testing.assert_allclose(many.log_likelihood, one, rtol=1e-12)
    assert many.log_likelihood[3] == pytest.approx(0.0, abs=1e-9)  # no readings say nothing
    assert problem.estimate(q, dq, y, base_twist=np.zeros(6)).log_likelihood is None


def test_right_sensors_are_more_likely_than_wrong_ones(tree_named):
    rng = np.random.default_rng(4)
    problem = set_up(tree_named("chain"), rng, False)
    samples, _ = simulated(problem, rng, 30)
    q, dq, y = samples.q, samples.dq, np.empty((30, problem.layout.size))
    y[:, problem.layout.order[problem.layout.order < problem.layout.size]] = samples.y[
        :, problem.layout.order < problem.layout.size
    ]
    right = problem.estimate(q, dq, y, likelihood=True).log_likelihood.sum()
    for factor in (0.5, 2.0):
        sensors = [replace(s, covariance=factor**2 * s.covariance) for s in problem.sensors]
        wrong = problem.with_sensors(sensors).estimate(q, dq, y, likelihood=True)
        assert wrong.log_likelihood.sum() < right


def test_covariance_of_names_what_is_unknown(tree_named):
    problem = set_up(tree_named("chain"), np.random.default_rng(0), False)
    n = problem.robot.n_joints
    with pytest.raises(UnknownNameError, match=r"fx\.nose"):
        problem.covariance_of(["fx.nose"], np.zeros(n), np.zeros(n))
    with pytest.raises(UnknownNameError, match="sensor 'nose'"):
        problem.covariance_of(["fx.link3"], np.zeros(n), np.zeros(n), absent=["nose"])
    assert problem.covariance_of([], np.zeros(n), np.zeros(n)).shape == (0, 0)
