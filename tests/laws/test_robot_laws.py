"""Laws that every robot obeys, whatever physical bodies its links are."""

from __future__ import annotations

from functools import cache

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bodysense.robot import (
    BaseParameters,
    Robot,
    base_parameters,
    energy_regressor,
    forward_dynamics,
    inverse_dynamics,
    mass_matrix,
    power_regressor,
    torque_regressor,
)
from bodysense.robot.io.load import builtin_names
from bodysense.spatial import random_pi

every_robot = pytest.mark.parametrize(
    "name", [*builtin_names(), "tx40-three", "serial", "branched", "floating", "example:go1"]
)
seeds = st.integers(0, 2**32 - 1)


def with_random_bodies(robot: Robot, rng: np.random.Generator) -> Robot:
    """Physically consistent links, positive rotor inertias and friction."""
    theta = rng.uniform(0.01, 1.0, robot.layout.size)
    theta[robot.layout.inertial] = random_pi(rng, robot.layout.n_links).ravel()
    # Less coupled inertia than rotor inertia, so that motors weigh something.
    theta[robot.layout.coupling] *= 0.005
    return robot.with_parameters(theta)


@every_robot
@given(seed=seeds)
@settings(max_examples=15)
def test_torques_are_pinocchios_plus_friction(name, seed, robot_of, states_of):
    rng = np.random.default_rng(seed)
    robot = with_random_bodies(robot_of(name), rng)
    layout = robot.layout
    q, v, a = states_of(robot, rng, 2)
    Y = torque_regressor(robot, q, v, a)
    data = robot.model.createData()
    rigid = np.array([pin.rnea(robot.model, data, *state) for state in zip(q, v, a, strict=True)])
    drives = Y[:, :, layout.rotor.stop :] @ robot.theta[layout.rotor.stop :]
    tau = inverse_dynamics(robot, q, v, a)
    scale = np.abs(tau).max()
    np.testing.assert_allclose(tau, rigid + drives, rtol=0, atol=1e-11 * scale)
    np.testing.assert_allclose(tau, Y @ robot.theta, rtol=0, atol=1e-11 * scale)
    assert all(check.consistent for check in robot.consistency())


@every_robot
@given(seed=seeds)
@settings(max_examples=15)
def test_the_mass_matrix_is_positive_and_undone_by_forward_dynamics(
    name, seed, robot_of, states_of
):
    rng = np.random.default_rng(seed)
    robot = with_random_bodies(robot_of(name), rng)
    q, v, a = states_of(robot, rng, 2)
    M = mass_matrix(robot, q)
    condition = np.linalg.cond(M).max()
    assert (np.linalg.eigvalsh(M)[:, 0] > 0.0).all()
    back = forward_dynamics(robot, q, v, inverse_dynamics(robot, q, v, a))
    tau = np.abs(inverse_dynamics(robot, q, v, a)).max()
    size = max(np.abs(a).max(), tau / np.linalg.norm(M, ord=2, axis=(1, 2)).min())
    np.testing.assert_allclose(back, a, rtol=0, atol=1e-14 * condition * size)


@every_robot
@given(seed=seeds)
@settings(max_examples=15)
def test_kinetic_energy_is_positive_and_friction_takes_power(name, seed, robot_of, states_of):
    rng = np.random.default_rng(seed)
    robot = with_random_bodies(robot_of(name), rng)
    q, v, _ = states_of(robot, rng, 3)
    still = energy_regressor(robot, q, np.zeros_like(v)) @ robot.theta
    kinetic = energy_regressor(robot, q, v) @ robot.theta - still
    half = 0.5 * np.einsum("ti,tij,tj->t", v, mass_matrix(robot, q), v)
    assert (half > 0.0).all()
    scale = np.abs(still) + half
    assert (np.abs(kinetic - half) < 1e-12 * scale).all()
    lost = power_regressor(robot, q, v)
    oriented = [term for term in robot.layout.friction_terms if term != "Fo"]
    places = [k for term in oriented for k in range(robot.layout.size)[robot.layout.friction(term)]]
    assert (lost[:, places] >= 0.0).all()


@every_robot
@given(seed=seeds)
@settings(max_examples=10)
def test_turning_and_shifting_the_world_changes_no_torque(name, seed, robot_of, states_of):
    rng = np.random.default_rng(seed)
    robot = robot_of(name)
    T_new_old = pin.SE3(pin.Quaternion(*_unit(rng)).matrix(), rng.uniform(-5.0, 5.0, 3))
    model = robot.model.copy()
    model.gravity.linear = T_new_old.rotation @ model.gravity.linear
    q, v, a = states_of(robot, rng, 2)
    moved = q.copy()
    if robot.floating_base:
        for row in moved:
            row[:7] = pin.SE3ToXYZQUAT(T_new_old * pin.XYZQUATToSE3(row[:7]))
    else:
        for i in range(1, model.njoints):
            if model.parents[i] == 0:
                model.jointPlacements[i] = T_new_old * model.jointPlacements[i]
    layout = robot.layout
    turned = Robot.from_pinocchio(
        model,
        friction=robot.friction,
        actuators=robot.actuators,
        coefficients={term: robot.theta[layout.friction(term)] for term in layout.friction_terms},
    )
    turned = turned.with_parameters(robot.theta)
    tau = inverse_dynamics(robot, q, v, a)
    scale = np.abs(tau).max()
    np.testing.assert_allclose(
        inverse_dynamics(turned, moved, v, a), tau, rtol=0, atol=1e-11 * scale
    )


@cache
def base_of(robot: Robot) -> BaseParameters:
    return base_parameters(robot)


def _unit(rng):
    x = rng.normal(size=4)
    return x / np.linalg.norm(x)


@every_robot
@given(seed=seeds)
@settings(max_examples=5)
def test_what_cannot_be_identified_moves_no_torque(name, seed, robot_of, states_of):
    """Two parameter vectors with the same base parameters make the same torques."""
    rng = np.random.default_rng(seed)
    robot = robot_of(name)
    base = base_of(robot)
    theta = with_random_bodies(robot, rng).theta
    theta_base, theta_dep = base.split(theta)
    other = base.join(theta_base, rng.normal(size=theta_dep.shape))
    q, v, a = states_of(robot, rng, 3)
    tau = inverse_dynamics(robot, q, v, a, theta=theta)
    scale = np.abs(tau).max() + np.abs(inverse_dynamics(robot, q, v, a, theta=abs(other))).max()
    np.testing.assert_allclose(
        inverse_dynamics(robot, q, v, a, theta=other), tau, rtol=0, atol=1e-10 * scale
    )
