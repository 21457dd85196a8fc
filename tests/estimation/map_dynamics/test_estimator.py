"""Elimination along the tree against an independent dense solve."""

from __future__ import annotations

import numpy as np
import pytest
from dense_oracle import dense_posterior, sensor_noise
from pinocchio_truth import truth_of
from sensor_sets import all_sensors

from bodysense.estimation.map_dynamics import Assumptions, Belief, Equations, MapDynamics

SOFT = Assumptions(
    wrench=Belief.zero(6, 5.0),
    joint_acceleration=Belief.zero(1, 10.0),
    base_acceleration=Belief.zero(6, 20.0),
    acceleration_slack=Belief.zero(6, 0.1),
    wrench_slack=Belief.zero(6, 0.2),
    torque_slack=Belief.zero(1, 0.1),
)
SHARP = Assumptions(
    wrench=Belief.zero(6, 5.0),
    joint_acceleration=Belief.zero(1, 10.0),
    base_acceleration=Belief.zero(6, 20.0),
)


def some(sensors, rng):
    return [sensor for sensor in sensors if rng.uniform() < 0.4]


@pytest.mark.parametrize("assumptions", [SOFT, SHARP], ids=["soft", "sharp"])
def test_equals_a_dense_solve(tree_named, each_tree, assumptions):
    rng = np.random.default_rng(3)
    tree = tree_named(each_tree)
    truth = truth_of(tree, rng)
    sensors = some(all_sensors(tree, rng), rng)
    held = [] if tree.floating else [tree.names[0]]
    sensors = [s for s in sensors if s.measurement(tree.robot).link not in held]
    arguments = truth.arguments()
    equations = Equations.at(tree, sensors, **arguments)
    y = rng.normal(size=equations.readings.size)
    y[rng.uniform(size=y.size) < 0.02] = np.nan
    root = None if tree.names[0] == "world" else tree.names[0]
    fixed = None if root is None else not tree.floating
    estimator = MapDynamics(tree.robot, sensors, assumptions, base=root, fixed=fixed)
    absent = y.copy()
    for sensor in sensors:  # a sensor without one of its readings is absent
        where = estimator.layout.slices[sensor.name]
        if np.isnan(y[where]).any():
            absent[where] = np.nan
    oracle = dense_posterior(equations, absent, sensor_noise(sensors), assumptions)
    found = estimator.estimate(
        arguments["q"],
        arguments["dq"],
        y,
        base_twist=arguments.get("base_twist"),
        gravity=arguments.get("gravity"),
        detail="blocks",
    )
    scale = 1.0 + np.abs(oracle.mean)
    np.testing.assert_array_less(np.abs(found.mean - oracle.mean) / scale, 1e-8)
    np.testing.assert_allclose(found.variance, np.diag(oracle.covariance), rtol=1e-8, atol=1e-10)
    for name in found.blocks:
        where = oracle.variables[name]
        block = oracle.covariance[where, where]
        np.testing.assert_allclose(
            found.covariance(name), block, atol=1e-8 * np.abs(block).max() + 1e-12
        )
