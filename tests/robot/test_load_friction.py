"""Load-dependent friction against Pinocchio, and against every pattern of signs of the loads."""

from __future__ import annotations

from itertools import product

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import MismatchError
from bodysense.robot import (
    Robot,
    base_parameters,
    forward_dynamics,
    inverse_dynamics,
    load_robot,
    power_regressor,
    torque_regressor,
)
from bodysense.robot.dynamics import drive_loads
from bodysense.robot.io.actuator_writer import write_actuators
from bodysense.robot.io.mjcf_writer import write_mjcf
from bodysense.robot.io.urdf import write_urdf

WIDTH = 0.05


def under_load(robot: Robot, rng: np.random.Generator, largest: float = 0.3) -> Robot:
    n = robot.n_joints
    values = {"Fl": rng.uniform(0.0, largest, n), "Fc": rng.uniform(0.5, 2.0, n)}
    return robot.with_friction("coulomb-load", coefficients=values, width=WIDTH)


def slow(states):
    """States with joints on both sides of where friction reverses."""
    q, v, a = states
    v[:, ::2] *= 0.05
    return q, v, a


@pytest.mark.parametrize("name", ["serial", "branched", "floating", "tx40-three"])
def test_torques_are_pinocchios_with_friction_per_torque(name, robot_of, states_of, rng):
    robot = under_load(robot_of(name), rng)
    n, layout = robot.n_joints, robot.layout
    q, v, a = slow(states_of(robot, rng, 6))
    data = robot.model.createData()
    load = np.array([pin.rnea(robot.model, data, *state) for state in zip(q, v, a, strict=True)])
    for k, (term, motor) in enumerate(layout.coupled):
        if term == "Iam":  # which Pinocchio does not know
            c = robot.actuators.coupling[motor]
            load[:, -n:] += (
                robot.theta[layout.coupling][k] * a[:, -n:] @ (np.outer(c, c) - np.diag(c * c))
            )
    np.testing.assert_allclose(drive_loads(robot, q, v, a), load[:, -n:], rtol=0, atol=1e-10)
    plain = robot.with_friction("coulomb")
    expected = inverse_dynamics(plain, q, v, a)
    Fl = robot.theta[layout.friction("Fl")]
    expected[:, -n:] += Fl * np.abs(load[:, -n:]) * np.tanh(v[:, -n:] / WIDTH)
    tau = inverse_dynamics(robot, q, v, a)
    np.testing.assert_allclose(tau, expected, rtol=0, atol=1e-11 * np.abs(tau).max())
    a_again = forward_dynamics(robot, q, v, tau)
    np.testing.assert_allclose(a_again, a, rtol=0, atol=1e-9 * np.abs(a).max())


@pytest.mark.parametrize("name", ["tx40", "tx40-three"])
def test_forward_dynamics_is_the_one_pattern_of_signs_that_holds(name, robot_of, rng):
    """(1 + g c)(M a + h) = tau - rest is linear for given signs c of the loads M a + h."""
    robot = under_load(robot_of(name), rng, largest=0.95)
    plain = robot.with_friction("coulomb")
    n = robot.n_joints
    q, v, tau = slow(rng.normal(size=(3, 4, n)) * np.array([1.0, 1.0, 30.0])[:, None, None])
    g = robot.theta[robot.layout.friction("Fl")] * np.tanh(v / WIDTH)
    h = drive_loads(plain, q, v, np.zeros_like(v))
    unit = np.eye(n)
    M = np.stack([drive_loads(plain, q, v, np.tile(e, (4, 1))) - h for e in unit], axis=2)
    net = tau - (inverse_dynamics(plain, q, v, np.zeros_like(v)) - h)
    for t in range(4):
        holding = []
        for signs in product((-1.0, 1.0), repeat=n):
            load = net[t] / (1.0 + g[t] * np.array(signs))
            a = np.linalg.solve(M[t], load - h[t])
            if (np.sign(M[t] @ a + h[t]) == signs).all():
                holding.append(a)
        assert len(holding) == 1
        found = forward_dynamics(robot, q[t : t + 1], v[t : t + 1], tau[t : t + 1])[0]
        np.testing.assert_allclose(found, holding[0], rtol=0, atol=1e-9 * np.abs(found).max())


def test_a_drive_that_locks_itself_has_no_acceleration(robot_of, rng):
    robot = robot_of("tx40").with_friction("coulomb-load", coefficients={"Fl": [0, 1, 0, 0, 0, 0]})
    q, v, tau = rng.normal(size=(3, 1, 6))
    assert not np.isfinite(forward_dynamics(robot, q, v, tau)).any()
    v[0, 1] = 0.0  # where friction of this law is zero
    assert np.isfinite(forward_dynamics(robot, q, v, tau)).all()


def test_regressor_holds_at_the_parameters_that_its_load_follows_from(robot_of, states_of, rng):
    robot = under_load(robot_of("tx40-three"), rng)
    q, v, a = states_of(robot, rng, 5)
    theta = robot.theta + 0.2 * rng.normal(size=robot.layout.size)
    places = np.sort(rng.permutation(robot.layout.size)[:40])
    for own, given in ((robot.theta, None), (theta, theta)):
        Y = torque_regressor(robot, q, v, a, theta=given)
        np.testing.assert_allclose(
            Y @ own, inverse_dynamics(robot, q, v, a, theta=own), rtol=0, atol=1e-11
        )
        some = torque_regressor(robot, q, v, a, theta=given, columns=places)
        np.testing.assert_array_equal(some, Y[:, :, places])


def test_base_parameters_are_those_without_load_and_one_per_joint(robot_of, states_of, rng):
    plain = robot_of("tx40-three")
    robot = under_load(plain, rng)
    base, without = base_parameters(robot), base_parameters(plain)
    loads = tuple(f"Fl{j + 1}" for j in range(6))
    assert set(base.names) == {*without.names, *loads}
    assert set(loads) <= set(base.alone)
    massless = robot.with_parameters(np.zeros(robot.layout.size))
    assert base_parameters(massless).names == base.names
    q, v, a = states_of(robot, rng, 5)
    same = inverse_dynamics(robot, q, v, a, theta=base.join(base.to_base(robot.theta)))
    tau = inverse_dynamics(robot, q, v, a)
    np.testing.assert_allclose(same, tau, rtol=0, atol=1e-5 * np.abs(tau).max())


def test_the_actuator_file_holds_it_and_other_files_say_that_they_do_not(rng, tmp_path):
    robot = under_load(load_robot("tx40"), rng)
    urdf, mjcf = write_urdf(robot, tmp_path / "arm.urdf"), write_mjcf(robot, tmp_path / "arm.xml")
    for file in (urdf, mjcf):
        assert "friction 'coulomb-load': Fl left out" in " ".join(file.read_text().split())
    file = write_actuators(robot, tmp_path / "actuators.yaml")
    again = load_robot(urdf, actuators=file)
    assert again.friction.model is robot.friction.model
    names = robot.layout.names[robot.layout.rotor.stop :]
    assert [again.parameter(name) for name in names] == [robot.parameter(name) for name in names]


def test_what_cannot_have_it_names_law_and_remedy(robot_of, states_of, rng):
    arm = under_load(robot_of("tx40"), rng)
    q, v, a = states_of(arm, rng, 3)
    with pytest.raises(MismatchError, match=r"'coulomb-load'.*with_friction\('coulomb'\)"):
        power_regressor(arm, q, v)
    power = power_regressor(arm, q, v, a) @ arm.theta
    friction = inverse_dynamics(arm, q, v, a) - drive_loads(arm, q, v, a)
    np.testing.assert_allclose(power, (friction * v).sum(axis=1), rtol=0, atol=1e-11)
    floating = under_load(robot_of("floating"), rng)
    states, link = states_of(floating, rng, 3), floating.link_names[1]
    with pytest.raises(MismatchError, match="'coulomb-load'"):
        torque_regressor(floating, *states, base_link=link)
