"""Energy against Pinocchio, and the energy balance along an independently simulated motion."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import ShapeError
from bodysense.robot import (
    Robot,
    energy_regressor,
    power_regressor,
    torque_regressor,
    work_regressor,
)
from bodysense.robot.dynamics import work


@pytest.mark.parametrize("name", ["serial", "branched", "floating", "tx40", "example:talos"])
def test_energy_is_pinocchios(name, robot_of, states_of, rng):
    robot = robot_of(name)
    q, v, _ = states_of(robot, rng, 70)
    rows = energy_regressor(robot, q, v)
    assert rows.shape == (70, robot.layout.size)
    model = robot.model.copy()
    # Pinocchio leaves the rotors of revolute joints with arbitrary axes out, so they are added.
    model.armature = np.zeros(robot.nv)
    data = model.createData()
    Ia = robot.theta[robot.layout.rotor]
    for t in range(70):
        kinetic = pin.computeKineticEnergy(model, data, q[t], v[t])
        potential = pin.computePotentialEnergy(model, data, q[t])
        rotors = 0.5 * Ia @ v[t, robot.nv - robot.n_joints :] ** 2
        scale = kinetic + rotors + abs(potential)
        assert abs(rows[t] @ robot.theta - (kinetic + potential + rotors)) < 1e-12 * scale
    np.testing.assert_array_equal(rows[:, robot.layout.rotor.stop :], 0.0)


def test_energy_of_coupled_motors(robot_of, states_of, rng):
    robot = robot_of("tx40-three")
    q, v, _ = states_of(robot, rng, 4)
    rows = energy_regressor(robot, q, v)
    # ½ vᵀ (c cᵀ - diag(c cᵀ)) v with c = e5 + e6
    np.testing.assert_allclose(rows[:, robot.layout.index("Iam6")], v[:, 4] * v[:, 5], rtol=1e-13)
    np.testing.assert_array_equal(rows[:, robot.layout.index("Fvm6")], 0.0)


@pytest.mark.parametrize("name", ["branched", "floating", "tx40-three"])
def test_power_of_the_torques_is_the_energys_rate_plus_frictions_share(
    name, robot_of, states_of, rng
):
    """vᵀ Y = dE/dt + power lost, column by column: for any parameters."""
    robot = robot_of(name)
    q, v, a = states_of(robot, rng, 3)
    Y = torque_regressor(robot, q, v, a)
    power = np.einsum("ti,tij->tj", v, Y)
    h = 1e-4
    moved = {}
    for k in (-2, -1, 1, 2):
        q_k = np.array(
            [
                pin.integrate(robot.model, q[t], k * h * v[t] + 0.5 * (k * h) ** 2 * a[t])
                for t in range(3)
            ]
        )
        moved[k] = energy_regressor(robot, q_k, v + k * h * a)
    rate = (8.0 * (moved[1] - moved[-1]) - (moved[2] - moved[-2])) / (12.0 * h)
    expected = rate + power_regressor(robot, q, v)
    scale = np.abs(power).max(axis=1, keepdims=True)
    # pin.integrate moves the base along a constant twist, which differs from v + k h a at h³.
    atol = 1e-7 if robot.floating_base else 1e-9
    assert (np.abs(power - expected) < atol * scale).all()


def test_power_regressor(robot_of, states_of, rng):
    robot = robot_of("tx40-three")
    q, v, _ = states_of(robot, rng, 6)
    rows = power_regressor(robot, q, v)
    layout = robot.layout
    np.testing.assert_array_equal(rows[:, : layout.rotor.stop], 0.0)
    np.testing.assert_allclose(rows[:, layout.friction("Fv")], v * v, rtol=1e-14)
    np.testing.assert_allclose(rows[:, layout.friction("Fc")], np.abs(v), rtol=1e-14)
    expected = np.stack([np.zeros(6), 2 * v[:, 4] * v[:, 5], np.abs(v[:, 4] + v[:, 5])], axis=1)
    np.testing.assert_allclose(rows[:, layout.coupling], expected, rtol=1e-13)


@pytest.mark.parametrize("name", ["serial", "example:hector"])
def test_nothing_is_lost_without_friction(name, robot_of, states_of, rng):
    robot = robot_of(name).with_friction("none", coefficients={})
    q, v, _ = states_of(robot, rng, 5)
    np.testing.assert_array_equal(power_regressor(robot, q, v), np.zeros((5, robot.layout.size)))


# -- along a motion --------------------------------------------------------------------------


def simulated(robot: Robot, steps: int, duration: float = 0.6):
    """RK4 around Pinocchio's forward dynamics, with friction; returns t, q, v, tau."""
    data, n = robot.model.createData(), robot.n_joints
    Fv, Fc = (robot.theta[robot.layout.friction(term)] for term in ("Fv", "Fc"))
    width = robot.friction.shape[:, 0]

    def torque(t):
        return 8.0 * np.sin(3.0 * t + np.arange(n)) / (1.0 + np.arange(n))

    def rate(t, x):
        q, v = x[:n], x[n:]
        net = torque(t) - Fv * v - Fc * np.tanh(v / width)
        return np.concatenate([v, pin.aba(robot.model, data, q, v, net)])

    t = np.linspace(0.0, duration, steps + 1)
    h = duration / steps
    x = np.empty((steps + 1, 2 * n))
    x[0] = np.concatenate([np.linspace(-0.5, 0.5, n), np.linspace(0.3, -0.3, n)])
    for k in range(steps):
        one = rate(t[k], x[k])
        two = rate(t[k] + h / 2, x[k] + h / 2 * one)
        three = rate(t[k] + h / 2, x[k] + h / 2 * two)
        four = rate(t[k] + h, x[k] + h * three)
        x[k + 1] = x[k] + h / 6 * (one + 2 * two + 2 * three + four)
    return t, x[:, :n], x[:, n:], np.array([torque(time) for time in t])


@pytest.fixture(scope="module")
def motion(robot_of):
    robot = robot_of("tx40").with_friction(
        "coulomb", coefficients={"Fv": 0.5, "Fc": 0.4}, width=0.5
    )
    return robot, simulated(robot, 1200)


@pytest.mark.parametrize("stride", [1, 7])
def test_work_becomes_energy_and_heat(motion, stride):
    robot, (t, q, v, tau) = motion
    errors = []
    for every in (12, 6, 3):
        t_, q_, v_, tau_ = t[::every], q[::every], v[::every], tau[::every]
        rows = work_regressor(robot, t_, q_, v_, stride=stride)
        done = work(t_, tau_, v_, stride=stride)
        assert rows.shape == (done.size, robot.layout.size)
        assert done.size == (t_.size - 1) // stride
        # error of the whole motion: the sum over the rows
        last = done.size * stride
        total = energy_regressor(robot, q_[[0, last]], v_[[0, last]]) @ robot.theta
        heat = np.trapezoid(
            power_regressor(robot, q_, v_)[: last + 1] @ robot.theta, t_[: last + 1]
        )
        assert rows.sum(axis=0) @ robot.theta == pytest.approx(np.diff(total)[0] + heat, rel=1e-10)
        errors.append(np.abs(np.cumsum(rows @ robot.theta - done)).max())
    scale = np.abs(done).max()
    assert errors[0] < 5e-3 * scale * (1 if stride > 1 else 10)
    # the trapezoidal rule: a quarter of the error at half the step
    assert 3.5 < errors[0] / errors[1] < 4.5
    assert 3.5 < errors[1] / errors[2] < 4.5


def test_uneven_times(motion):
    robot, (t, q, v, tau) = motion
    kept = np.sort(np.random.default_rng(0).permutation(t.size)[:700])
    rows = work_regressor(robot, t[kept], q[kept], v[kept])
    done = work(t[kept], tau[kept], v[kept])
    assert np.abs(rows @ robot.theta - done).max() < 1e-3 * np.abs(done).max()
    mean = 0.5 * (tau * v).sum(axis=1)[kept[:-1]] + 0.5 * (tau * v).sum(axis=1)[kept[1:]]
    np.testing.assert_allclose(done, np.diff(t[kept]) * mean, rtol=1e-9, atol=1e-13)


def test_bad_times(motion):
    robot, (t, q, v, tau) = motion
    t, q, v, tau = t[:5], q[:5], v[:5], tau[:5]
    for bad in (t[::-1], np.zeros(5), t[[0, 1, 1, 2, 3]]):
        with pytest.raises(ShapeError, match="t must ascend: sort the samples and drop repeated"):
            work_regressor(robot, bad, q, v)
        with pytest.raises(ShapeError, match="t must ascend"):
            work(bad, tau, v)
    for stride in (0, -1, 5):
        with pytest.raises(ShapeError, match=f"stride is {stride}: give a number .* from 1 to 4"):
            work_regressor(robot, t, q, v, stride=stride)
    with pytest.raises(ShapeError, match=r"t has shape \(4,\)"):
        work_regressor(robot, t[:4], q, v)
    with pytest.raises(ShapeError, match=r"v of TX40 has shape \(5, 5\)"):
        energy_regressor(robot, q, v[:, :5])
    with pytest.raises(ShapeError, match=r"v has shape \(5, 5\), expected \(5, 6\)"):
        work(t, tau, v[:, :5])
    with pytest.raises(ShapeError, match="q of TX40 holds nan"):
        power_regressor(robot, q * np.nan, v)


def test_no_samples(robot_of):
    robot = robot_of("floating")
    q, v = np.empty((0, robot.nq)), np.empty((0, robot.nv))
    assert energy_regressor(robot, q, v).shape == (0, robot.layout.size)
    assert power_regressor(robot, q, v).shape == (0, robot.layout.size)
    with pytest.raises(ShapeError, match="two samples"):
        work_regressor(robot, np.empty(0), q, v)
    with pytest.raises(ShapeError, match="two samples"):
        work(np.zeros(1), np.zeros((1, 6)), np.zeros((1, 6)))
