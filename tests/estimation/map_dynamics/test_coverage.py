"""Intervals of 95 % hold the truth 95 times out of a hundred: 500 problems, solved once each."""

from __future__ import annotations

import numpy as np
import pytest
from sensor_sets import all_sensors
from simulated_logs import drawn_truth, noisy_readings

from bodysense.estimation import Assumptions, GaussianPrior, MapDynamics
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.robot import Robot

PROBLEMS = 500
ROBOTS = 20


def random_problem(robot, rng):
    """Random sensors with random noises, and priors that differ from link to link."""
    tree = BodyTree.of(robot)
    wrenches = {}
    for i in tree.with_unknowns:
        root = rng.normal(scale=rng.uniform(0.5, 5.0), size=(6, 6))
        wrenches[tree.names[i]] = GaussianPrior(rng.normal(size=6), root @ root.T)
    priors = Assumptions(
        wrenches=wrenches,
        joint_acceleration=GaussianPrior.of([0.5], rng.uniform(1.0, 10.0)),
        base_acceleration=GaussianPrior.zero(6, 1e3),
    )
    sensors = [
        sensor
        for sensor in all_sensors(tree, rng)
        if rng.uniform() < 0.25 and sensor.measurement(robot).link != "world"
    ]
    return MapDynamics(robot, sensors, priors)


@pytest.fixture(scope="module")
def inside(random_model):
    """By quantity, whether each interval holds its number, in each of the problems."""
    rng = np.random.default_rng(20)
    held: dict[str, list[float]] = {}
    for k in range(ROBOTS):
        n, floating = int(rng.integers(2, 7)), k % 2 == 1
        model = random_model(rng, n, branched=k % 3 == 0, floating=floating)
        robot = Robot.from_pinocchio(model)
        for _ in range(PROBLEMS // ROBOTS):
            problem = random_problem(robot, rng)
            truth = drawn_truth(problem.tree, problem.assumptions, rng)
            y = noisy_readings(problem.sensors, truth, rng)
            found = problem.estimate(truth.q, truth.dq, y, base_twist=truth.base_twist)
            error = found.mean - truth.d(problem.variables)
            sigma = np.sqrt(found.variance)
            doubtful = sigma > 1e-7
            within = np.abs(error) < 1.959964 * sigma
            held.setdefault("all", []).append(within[doubtful].mean())
            for name, where in problem.variables.slices.items():
                if doubtful[where].all():
                    held.setdefault(name.partition(".")[0], []).append(within[where].mean())
    return {name: np.array(values) for name, values in held.items()}


def test_intervals_hold_the_truth(inside):
    assert inside["all"].size == PROBLEMS
    assert 0.93 < inside["all"].mean() < 0.97


@pytest.mark.parametrize("quantity", ["a", "f", "tau", "fx", "ddq"])
def test_intervals_of_each_quantity_do(inside, quantity):
    assert inside[quantity].size > 300
    assert 0.93 < inside[quantity].mean() < 0.97
