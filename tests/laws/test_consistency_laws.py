"""Consistent identifiers return robots that can exist, whatever the data; others say so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from bodysense.identification import IDENTIFIERS, Regression
from bodysense.identification.identification import positive_parameters
from bodysense.robot import Friction, Robot, base_parameters, inverse_dynamics

# What these files share lies beside them, and is no part of a package.
sys.path.insert(0, str(Path(__file__).parent))

from identifier_subjects import CONSISTENT, FILTERS, RECORDED, fitted, off, require_sound


@cache
def random_problem(seed: int, build: Callable[..., object], states_of: Callable) -> Regression:
    """A small random robot, few rows, much noise; in one of five the torques have the wrong sign.

    Whether links exist must not depend on the data making sense.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    law = ("coulomb", "offset", "stribeck")[seed % 3]
    robot = Robot.from_pinocchio(build(rng, n), friction=Friction.from_model(law, n, width=0.02))
    theta = robot.theta.copy()
    friction = slice(robot.layout.rotor.stop, robot.layout.size)
    theta[friction] = rng.uniform(0.0, 1.0, robot.layout.size - friction.start)
    robot = robot.with_parameters(theta)
    base = base_parameters(robot)
    n_t = int(np.ceil(base.size / n * rng.uniform(1.0, 8.0)))
    q, v, a = states_of(robot, rng, n_t)
    tau = inverse_dynamics(robot, q, v, a)
    tau = tau + 10.0 ** rng.uniform(-1.0, 1.0) * tau.std(axis=0) * rng.normal(size=tau.shape)
    if seed % 5 == 0:
        tau = -tau
    return Regression.from_samples(off(robot, rng, 0.3), q, v, a, tau, rate=100.0, base=base)


def require_consistent(method: str, seed: int, problem: Regression) -> None:
    found = fitted(method, problem)
    require_sound(found)
    assert found.status.ok or method in RECORDED, (seed, found.status)
    assert all(c.consistent for c in found.consistency), seed
    # Not asked of `negative_drives`, which is what is judged here.
    assert (found.theta[positive_parameters(problem.robot)] >= 0.0).all(), seed
    assert found.consistent


@pytest.mark.parametrize("chunk", range(4))
def test_the_solver_returns_consistent_robots(chunk, random_model, states_of):
    """200 problems; most of them have no consistent least-squares solution."""
    bound = 0
    for seed in range(50 * chunk, 50 * (chunk + 1)):
        problem = random_problem(seed, random_model, states_of)
        require_consistent("pc-wls", seed, problem)
        bound += not fitted("ols", problem).consistent
    assert bound > 25


@pytest.mark.parametrize("method", sorted(set(CONSISTENT) - {"pc-wls"}))
def test_the_other_consistent_methods_do_so_too(method, random_model, states_of):
    """20 problems each, with all friction laws and torques of both signs."""
    for seed in range(20):
        require_consistent(method, seed, random_problem(seed, random_model, states_of))


def test_the_other_methods_say_so_when_links_cannot_exist(random_model, states_of):
    for name in sorted(set(IDENTIFIERS) - set(CONSISTENT) - FILTERS):
        found = fitted(name, random_problem(1, random_model, states_of))
        require_sound(found)
        assert not found.consistent
        assert "NOT physically consistent" in found.summary()
