"""One interval of a log: against whole rollouts, Pinocchio, and finite differences."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.excitation import FourierTrajectory
from bodysense.robot import Controller, Friction, Robot, base_parameters
from bodysense.simulation import rollout
from bodysense.simulation.propagation import Drive, Propagation
from bodysense.spatial import Array


def held(tau) -> Drive:
    """The drive of an interval under a torque tau (n,)."""
    none = np.zeros((0, tau.size))
    return Drive(tau, none, none)


def tracking(q_d, v_d) -> Drive:
    """The drive of an interval under the controller, which has references (n_periods, n)."""
    return Drive(np.zeros(q_d.shape[1]), q_d, v_d)


@pytest.fixture(scope="module")
def arm(random_model) -> Robot:
    """Three joints with every term of friction, and a controller."""
    rng = np.random.default_rng(2)
    robot = Robot.from_pinocchio(
        random_model(rng, 3),
        friction=Friction.from_model("stribeck-offset", 3, width=0.05, vs=0.2),
        coefficients={term: rng.uniform(0.1, 1.0, 3) for term in ("Fv", "Fc", "Fs", "Fo")},
    )
    return robot.with_controller(Controller.from_gains(3, kp=40.0, kd=4.0, rate=2000.0))


def points(robot: Robot, m: int, b: int, rng: np.random.Generator) -> Array:
    n = robot.n_joints
    return np.concatenate([0.01 * rng.normal(size=(m, b)), rng.normal(size=(m, 2 * n))], axis=1)


@pytest.mark.parametrize("name", ["tx40", "tx40-three", "serial"])
def test_points_under_a_torque_follow_pinocchio(name, robot_of, rng):
    """Explicit midpoint steps around aba, with friction and couplings by their own formulas."""
    robot = robot_of(name)
    base, n = base_parameters(robot), robot.n_joints
    propagation = Propagation.from_robot(robot, base, period=1e-3, substeps=2)
    X = np.concatenate(
        [np.tile(base.to_base(robot.theta), (40, 1)), rng.normal(size=(40, 2 * n))], axis=1
    )
    tau = rng.normal(scale=5.0, size=n)

    def acceleration(q: Array, v: Array) -> Array:
        from bodysense.robot import inverse_dynamics, mass_matrix

        bias = inverse_dynamics(robot, q[None], v[None], np.zeros((1, n)))[0]
        return np.linalg.solve(mass_matrix(robot, q[None])[0], tau - bias)

    found = propagation.advance(X, held(tau))
    for x, out in zip(X[::8], found[::8], strict=True):
        q, v = x[-2 * n : -n], x[-n:]
        for _ in range(2):
            h = 0.5e-3
            a = acceleration(q, v)
            middle = v + 0.5 * h * a
            a = acceleration(q + 0.5 * h * v, middle)
            q, v = q + h * middle, v + h * a
        np.testing.assert_allclose(out, np.concatenate([q, v]), rtol=0, atol=1e-10)


def test_without_friction_it_is_aba(random_model, rng):
    model = random_model(rng, 4)
    robot = Robot.from_pinocchio(model)
    base = base_parameters(robot)
    propagation = Propagation.from_robot(robot, base, period=1e-3, integrator="euler")
    q, v, tau = rng.normal(size=(3, 4))
    x = np.concatenate([base.to_base(robot.theta), q, v])
    out = propagation.advance(x[None], held(tau))[0]
    data = model.createData()
    friction = np.zeros(4)
    if "Fv" in robot.layout.friction_terms:
        friction = robot.theta[robot.layout.friction("Fv")] * v
    full = np.concatenate(
        [[np.cos(q[j]), np.sin(q[j])] if model.joints[j + 1].nq == 2 else [q[j]] for j in range(4)]
    )
    a = pin.aba(model, data, full, v, tau - friction)
    np.testing.assert_allclose(out[:4], q + 1e-3 * v, rtol=0, atol=1e-14)
    np.testing.assert_allclose(out[4:], v + 1e-3 * a, rtol=0, atol=1e-10)


def test_under_its_controller_it_is_a_rollout(arm):
    base = base_parameters(arm)
    motion = FourierTrajectory.for_robot(arm, duration=0.5, rng=np.random.default_rng(0))
    run = rollout(arm, motion, integrator="rk4")
    _, q_d, v_d, _ = motion.sample(2000.0)
    propagation = Propagation.from_robot(arm, base, period=1.0 / 2000.0, integrator="rk4")
    for k in (0, 100, 700):
        x = np.concatenate([base.to_base(arm.theta), run.q[0, k], run.v[0, k]])
        drive = tracking(q_d[k : k + 20], v_d[k : k + 20])
        out = propagation.advance(x[None], drive)[0]
        np.testing.assert_allclose(out[:3], run.q[0, k + 20], rtol=0, atol=1e-12)
        np.testing.assert_allclose(out[3:], run.v[0, k + 20], rtol=0, atol=1e-11)


@pytest.mark.parametrize("driven", [False, True])
@pytest.mark.parametrize("integrator", ["euler", "rk2", "rk4"])
def test_tangent_is_that_of_finite_differences(arm, integrator, driven, rng):
    base, n = base_parameters(arm), 3
    b = base.size
    centre, scale = base.to_base(arm.theta), rng.uniform(0.5, 2.0, b)
    propagation = Propagation.from_robot(
        arm, base, period=1e-3, centre=centre, scale=scale, integrator=integrator, substeps=2
    )
    x = points(arm, 1, b, rng)[0]
    tau = rng.normal(size=n)
    drive = held(tau)
    if driven:
        drive = tracking(*(x[b : b + n] + 0.1 * rng.normal(size=(2, 4, n))))
    out, F, G = propagation.tangent(x, drive)
    np.testing.assert_allclose(out, propagation.advance(x[None], drive)[0], rtol=0, atol=1e-13)
    step = 1e-5
    E = step * np.eye(b + 2 * n)
    ahead, behind = (propagation.advance(x + sign * E, drive) for sign in (1.0, -1.0))
    size = np.abs(F).max(axis=1, keepdims=True)
    slope = (ahead - behind).T / (2.0 * step)
    np.testing.assert_allclose(F / size, slope / size, rtol=0, atol=1e-7)
    if not driven:
        ahead, behind = (
            np.array(
                [propagation.advance(x[None], held(tau + sign * e))[0] for e in step * np.eye(n)]
            )
            for sign in (1.0, -1.0)
        )
        slope = (ahead - behind).T / (2.0 * step)
        np.testing.assert_allclose(G, slope, rtol=0, atol=1e-7 * np.abs(G).max())
    else:  # a disturbance beside the controller: half the period squared, and the period
        assert np.abs(G[n:]).max() > np.abs(G[:n]).max() > 0.0


def test_a_width_takes_the_jump_out_of_friction(random_model, rng):
    sharp = Robot.from_pinocchio(
        random_model(np.random.default_rng(4), 2),
        friction=Friction.from_model("coulomb", 2),
        coefficients={"Fv": 0.1, "Fc": 1.0},
    )
    smooth = sharp.with_friction("coulomb", width=0.1)
    base = base_parameters(sharp)
    x = np.concatenate([base.to_base(sharp.theta), rng.normal(size=2), [0.02, -0.03]])[None]
    widened = Propagation.from_robot(sharp, base, period=1e-3, smallest_width=0.1)
    plain, wide = (
        Propagation.from_robot(r, base_parameters(r), period=1e-3) for r in (sharp, smooth)
    )
    drive = held(np.zeros(2))
    np.testing.assert_array_equal(widened.advance(x, drive), wide.advance(x, drive))
    assert np.abs(widened.advance(x, drive) - plain.advance(x, drive)).max() > 1e-5
    assert not (sharp.tree.shape[:, 0] > 0.0).any()


def test_the_number_of_threads_changes_nothing(arm, rng):
    base = base_parameters(arm)
    propagation = Propagation.from_robot(arm, base, period=1e-3, centre=base.to_base(arm.theta))
    X, drive = points(arm, 100, base.size, rng), held(np.ones(3))
    one_by_one = np.array([propagation.advance(x[None], drive)[0] for x in X])
    np.testing.assert_array_equal(propagation.advance(X, drive), one_by_one)


def test_a_singular_mass_matrix_is_no_crash(arm, rng):
    base = base_parameters(arm)
    propagation = Propagation.from_robot(arm, base, period=1e-3)
    X = np.zeros((1, base.size + 6))
    assert not np.isfinite(propagation.advance(X, held(np.ones(3)))).all()


def test_bad_settings_are_refused(arm, robot_of):
    base = base_parameters(arm)
    with pytest.raises(ShapeError, match="period"):
        Propagation.from_robot(arm, base, period=0.0)
    with pytest.raises(ShapeError, match="substeps"):
        Propagation.from_robot(arm, base, period=1e-3, substeps=0)
    with pytest.raises(UnknownNameError, match="rk2"):
        Propagation.from_robot(arm, base, period=1e-3, integrator="rk3")
    with pytest.raises(ShapeError, match="scale"):
        Propagation.from_robot(arm, base, period=1e-3, scale=np.ones(2))
    with pytest.raises(MismatchError):
        Propagation.from_robot(robot_of("tx40"), base, period=1e-3)
    floating = robot_of("floating")
    with pytest.raises(MismatchError, match="floats"):
        Propagation.from_robot(floating, base_parameters(floating), period=1e-3)
