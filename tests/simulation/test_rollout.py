"""Compiled closed-loop rollouts against a plain loop around Pinocchio."""

from __future__ import annotations

import numba
import numpy as np
import pinocchio as pin
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import root

from bodysense.excitation import FourierTrajectory, HoldTrajectory, Trajectory
from bodysense.robot import (
    Actuators,
    Controller,
    Friction,
    Robot,
    base_parameters,
    inverse_dynamics,
)
from bodysense.simulation import INTEGRATORS, rollout
from bodysense.simulation._kernels.rollout import run_batch

QUANTITIES = ("q", "v", "a", "tau")
every_integrator = pytest.mark.parametrize("integrator", ["euler", "rk2", "rk4"])


def assert_same_motion(result, expected, tolerance=1e-10):
    """One run equal to the reference, up to a fraction of the largest value of each quantity."""
    assert result.ok
    for name in QUANTITIES:
        actual, wanted = getattr(result, name)[0], getattr(expected, name)
        atol = tolerance * np.abs(wanted).max()
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=atol, err_msg=name)


def assert_identical(one, other, rows=slice(None)):
    for name in (*QUANTITIES, "q_measured", "tau_measured", "lost_at"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name)[rows], err_msg=name)


def exciting(robot: Robot, seed: int = 0, duration: float = 10.0) -> Trajectory:
    lower, upper = robot.position_limits
    return FourierTrajectory.random(
        robot.n_joints,
        duration=duration,
        harmonics=5,
        lower=lower,
        upper=upper,
        velocity=robot.velocity_limit,
        acceleration=robot.acceleration_limit,
        rng=np.random.default_rng(seed),
    )


# -- against the plain loop ----------------------------------------------------------------


@every_integrator
@pytest.mark.parametrize("name", ["tx40", "tx40-coupled", "tx40-three", "rv2sq"])
def test_robots_with_their_own_controller(name, integrator, robot_of, plainly, wave_of):
    robot, motion = robot_of(name), wave_of(6)
    substeps = {"euler": 1, "rk2": 3, "rk4": 2}[integrator]
    settings = {"integrator": integrator, "substeps": substeps}
    result = rollout(robot, motion, **settings)
    assert_same_motion(result, plainly(robot, motion, **settings))
    np.testing.assert_array_equal(result.q_measured, result.q)
    np.testing.assert_array_equal(result.tau_measured, result.tau)
    np.testing.assert_allclose(result.t, motion.sample(5000.0)[0], rtol=1e-15)
    assert result.joint_names == robot.joint_names


@every_integrator
@pytest.mark.parametrize("name", ["serial", "branched"])
def test_trees_of_turning_and_sliding_joints(
    name, integrator, robot_of, plainly, gains_for, wave_of
):
    robot, motion = robot_of(name), wave_of(12)
    kinds = set(robot.tree.prismatic)
    assert kinds == {0, 1}
    settings = {"controller": gains_for(robot), "integrator": integrator}
    assert_same_motion(rollout(robot, motion, **settings), plainly(robot, motion, **settings))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_axes(n, random_model, plainly, gains_for, wave_of, rng):
    robot = Robot.from_pinocchio(random_model(rng, n), coefficients={"Fv": 0.3, "Fc": 0.2})
    motion, controller = wave_of(n), gains_for(robot)
    result = rollout(robot, motion, controller=controller)
    assert_same_motion(result, plainly(robot, motion, controller=controller))


@pytest.mark.parametrize("terms", [(), ("Iam", "Fvm", "Fcm")])
def test_motors_that_couple_branches(terms, robot_of, plainly, gains_for, wave_of):
    coupling = np.eye(12)
    coupling[np.ix_([3, 8], [3, 8])] = [[1.0, 1.0], [-1.0, 1.0]]
    drives = Actuators.from_values(12, coupling=coupling, coupled_terms=terms, drive_gain=2.0)
    values = {"Iam": [0.02, 0.05], "Fvm": 0.3, "Fcm": 0.4}
    robot = robot_of("branched").with_actuators(drives, {term: values[term] for term in terms})
    settings = {"controller": gains_for(robot, ki=2000.0), "integrator": "rk2"}
    motion = wave_of(12)
    assert_same_motion(rollout(robot, motion, **settings), plainly(robot, motion, **settings))


LAWS = [
    ("none", {}, {}),
    ("viscous", {}, {}),
    ("coulomb", {}, {}),
    ("coulomb", {}, {"width": 0.05}),
    ("offset", {"Fo": [0.5, -3.0, 1.0, 0.2, -0.3, 0.1]}, {}),
    ("stribeck", {"Fs": [9, 10, 8, 3, 4, 2]}, {"vs": 0.1}),
    ("stribeck-offset", {"Fs": [9, 10, 8, 3, 4, 2], "Fo": 0.3}, {"width": 0.03, "delta": 1.3}),
    ("lugre", {"Fs": [9, 10, 8, 3, 4, 2]}, {"vs": 0.1, "sigma0": 1e3, "sigma1": 3.0}),
    ("lugre", {"Fs": 0.0}, {"vs": 0.1, "delta": 1.6, "sigma0": 0.1, "sigma1": 0.1}),
]


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
@pytest.mark.parametrize("name", ["tx40", "tx40-coupled"])
@pytest.mark.parametrize(("law", "coefficients", "shape"), LAWS)
def test_friction_laws(law, coefficients, shape, name, integrator, robot_of, plainly, wave_of):
    robot = robot_of(name).with_friction(law, coefficients=coefficients, **shape)
    motion = wave_of(6, 0.2)
    settings = {"integrator": integrator, "substeps": 2}
    assert_same_motion(rollout(robot, motion, **settings), plainly(robot, motion, **settings))


@every_integrator
def test_load_dependent_friction(integrator, robot_of, plainly, wave_of):
    """Against the root of its equation of motion, T + Fl |T| s(v) = net with T = M a + h."""
    Fl, width = np.array([0.05, 0.2, 0.1, 0.6, 0.3, 0.1]), 0.03
    robot = robot_of("tx40").with_friction("offset-load", coefficients={"Fl": Fl}, width=width)
    model, data = robot.model, robot.model.createData()

    def accelerate(q, v, net):
        def residual(a):
            T = pin.rnea(model, data, q, v, a)
            return T + Fl * np.abs(T) * np.tanh(v / width) - net

        start = pin.aba(model, data, q, v, net)
        found = root(residual, start, tol=1e-14)
        assert np.abs(residual(found.x)).max() < 1e-9
        return found.x

    motion = wave_of(6, 0.05)
    expected = plainly(robot, motion, integrator=integrator, acceleration=accelerate)
    assert_same_motion(rollout(robot, motion, integrator=integrator), expected, tolerance=1e-8)
    free = plainly(robot, motion, integrator=integrator)
    assert np.abs(expected.a - free.a).max() > 0.1 * np.abs(expected.a).max()


@every_integrator
def test_a_friction_law_of_the_users(integrator, custom_law, robot_of, plainly, wave_of):
    coefficients = {"Fv": 0.5, "Fa": [4.0, 5.0, 3.0, 1.0, 2.0, 0.5], "Fq": 0.3}
    v0 = [0.05, 0.1, 0.2, 0.05, 0.1, 0.2]
    robot = robot_of("tx40").with_friction(custom_law, coefficients=coefficients, v0=v0)
    motion = wave_of(6)
    expected = plainly(robot, motion, integrator=integrator)
    assert_same_motion(rollout(robot, motion, integrator=integrator), expected)


@pytest.mark.parametrize("law", ["coulomb", "lugre"])
def test_ten_seconds_at_5_khz(law, robot_of, plainly):
    robot = robot_of("tx40")
    if law == "lugre":
        fs = 1.2 * robot.theta[robot.layout.friction("Fc")]
        robot = robot.with_friction("lugre", coefficients={"Fs": fs}, sigma0=1e3, sigma1=3.0)
    motion = exciting(robot, duration=10.0 if law == "coulomb" else 1.0)
    result = rollout(robot, motion)
    assert result.t.size == (50001 if law == "coulomb" else 5001)
    assert_same_motion(result, plainly(robot, motion))
    # The loop follows the reference: the comparison is not one of two broken simulations.
    assert np.abs(result.q[0] - motion.sample(5000.0)[1]).max() < 0.01


# -- controller ----------------------------------------------------------------------------


def pid(robot: Robot, rate: float = 5000.0) -> Controller:
    return Controller.from_gains(
        6, kp=robot.controller.kp, kd=robot.controller.kd, ki=8.0 * robot.controller.kp, rate=rate
    )


@pytest.mark.parametrize("name", ["tx40", "tx40-coupled"])
def test_integral_and_another_rate(name, robot_of, plainly, wave_of):
    robot, motion = robot_of(name), wave_of(6)
    controller = pid(robot, rate=4000.0)
    result = rollout(robot, motion, controller=controller)
    assert result.t[1] == 1.0 / 4000.0
    expected = plainly(robot, motion, controller=controller)
    assert_same_motion(result, expected)
    without = rollout(robot, motion)
    assert np.abs(without.tau[0, -1] - result.tau[0, -1]).max() > 0.5


@pytest.mark.parametrize("name", ["tx40", "tx40-coupled"])
def test_saturation_stops_the_integral(name, robot_of, plainly, limited, wave_of):
    limit = np.array([40.0, 60.0, 20.0, 8.0, np.inf, 3.0])
    robot, motion = limited(robot_of(name), limit), wave_of(6)
    settings = {"controller": pid(robot), "integrator": "rk2"}
    result = rollout(robot, motion, saturate=True, **settings)
    assert_same_motion(result, plainly(robot, motion, limit=limit, **settings))
    motors = result.tau[0] @ np.linalg.inv(robot.actuators.coupling)
    at_limit = (np.abs(motors) > limit * (1.0 - 1e-12)).mean(axis=0)
    assert (at_limit < 1.0).all()
    assert (at_limit > 0.1).sum() >= 2
    assert (np.abs(motors) <= limit * (1.0 + 1e-12)).all()
    unlimited = rollout(robot, motion, **settings)
    assert_same_motion(unlimited, plainly(robot, motion, **settings))
    assert np.abs(unlimited.tau).max() > 60.0


@pytest.mark.parametrize("name", ["tx40", "tx40-three"])
def test_feed_forward_is_joint_torque(name, robot_of, plainly, wave_of):
    robot, motion = robot_of(name), wave_of(6)
    _, q, v, a = motion.sample(5000.0)
    feed_forward = inverse_dynamics(robot, q, v, a)
    result = rollout(robot, motion, feed_forward=feed_forward)
    assert_same_motion(result, plainly(robot, motion, feed_forward=feed_forward))
    # Without gains, the torque is the feed-forward, and the robot moves as it was meant to.
    idle = Controller.from_gains(6, kp=0.0, kd=0.0, rate=5000.0)
    alone = rollout(robot, motion, controller=idle, feed_forward=feed_forward)
    np.testing.assert_allclose(alone.tau[0], feed_forward, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(alone.a[0, 0], a[0], rtol=0, atol=1e-9 * np.abs(a[0]).max())


def test_a_start_elsewhere(robot_of, plainly, wave_of):
    robot, motion = robot_of("tx40"), wave_of(6)
    _, q_d, v_d, _ = motion.sample(5000.0)
    start = (q_d[0] + 0.1, v_d[0] - 0.5)
    result = rollout(robot, motion, start=start)
    np.testing.assert_array_equal(result.q[0, 0], start[0])
    np.testing.assert_array_equal(result.v[0, 0], start[1])
    assert_same_motion(result, plainly(robot, motion, start=start))


@pytest.mark.parametrize("differentiate", [True, False])
@pytest.mark.parametrize("name", ["tx40", "tx40-coupled"])
def test_the_controller_sees_the_noise(name, differentiate, robot_of, plainly, wave_of):
    robot, motion = robot_of(name), wave_of(6)
    sigma = np.array([1e-5, 2e-5, 0.0, 3e-5, 1e-5, 1e-5])
    rng = np.random.default_rng(5)
    result = rollout(robot, motion, position_noise=sigma, differentiate=differentiate, rng=rng)
    noise = result.q_measured[0] - result.q[0]
    np.testing.assert_array_equal(noise[:, 2], 0.0)
    expected = plainly(robot, motion, noise=noise, differentiate=differentiate)
    assert_same_motion(result, expected, tolerance=1e-9)  # the noise itself is known to 1e-11
    quiet = rollout(robot, motion, differentiate=differentiate)
    assert np.abs(result.tau - quiet.tau).max() > 0.01


def test_velocities_from_differences(robot_of, plainly, wave_of):
    robot, motion = robot_of("tx40"), wave_of(6)
    result = rollout(robot, motion, differentiate=True)
    assert_same_motion(result, plainly(robot, motion, differentiate=True))
    # tau = K (Kp e + Kd (v_d - v_seen)): what the controller saw follows from it.
    _, q_d, v_d, _ = motion.sample(5000.0)
    K, controller = robot.actuators.drive_gain, robot.controller
    seen = v_d - (result.tau[0] / K - controller.kp * (q_d - result.q[0])) / controller.kd
    np.testing.assert_allclose(seen[0], result.v[0, 0], atol=1e-10)  # which it has seen before
    np.testing.assert_allclose(seen[1:], np.diff(result.q[0], axis=0) * 5000.0, atol=1e-8)


# -- parameters and batches ----------------------------------------------------------------


def regressor_acceleration(robot, theta):
    """Accelerations for any parameters, from Pinocchio's regressor, which is linear in them."""
    model, data, zero = robot.model, robot.model.createData(), np.zeros(robot.nv)
    pi, Ia = theta[robot.layout.inertial], theta[robot.layout.rotor]

    def accelerate(q, v, net):
        def torque(v, a):
            return pin.computeJointTorqueRegressor(model, data, q, v, a) @ pi

        bias, still = torque(v, zero), torque(zero, zero)
        M = np.array([torque(zero, e) - still for e in np.eye(robot.nv)]).T + np.diag(Ia)
        return np.linalg.solve(M, net - bias)

    return accelerate


@every_integrator
def test_unphysical_parameters(integrator, robot_of, plainly, friction_by_formula, wave_of, rng):
    robot, motion = robot_of("tx40"), wave_of(6, 0.1)
    base = base_parameters(robot)
    theta_base = base.to_base(robot.theta) * rng.uniform(0.95, 1.05, base.size)
    theta = base.join(theta_base, rng.normal(size=base.dependent.size))
    assert (theta[robot.layout.inertial][::10] < 0.0).any()
    expected = plainly(
        robot,
        motion,
        integrator=integrator,
        acceleration=regressor_acceleration(robot, theta),
        friction=friction_by_formula(robot, theta),
    )
    result = rollout(robot, motion, theta=theta, integrator=integrator)
    assert_same_motion(result, expected)


@pytest.mark.parametrize("name", ["tx40", "tx40-three", "rv2sq", "branched"])
def test_base_parameters_alone_give_the_same_motion(name, robot_of, gains_for, wave_of):
    robot = robot_of(name)
    base = base_parameters(robot)
    motion, controller = wave_of(robot.n_joints), robot.controller or gains_for(robot)
    own = rollout(robot, motion, controller=controller)
    theta = base.join(base.to_base(robot.theta))
    assert (theta[base.dependent] == 0.0).all()
    reduced = rollout(robot, motion, theta=theta, controller=controller)
    for one in QUANTITIES:
        expected = getattr(own, one)
        atol = 1e-8 * np.abs(expected).max()
        np.testing.assert_allclose(getattr(reduced, one), expected, rtol=0, atol=atol)


def test_a_batch_is_its_runs(robot_of, wave_of, rng):
    robot, motion = robot_of("tx40-coupled"), wave_of(6, 0.1)
    theta = robot.theta * rng.uniform(0.95, 1.05, (7, robot.layout.size))
    together = rollout(robot, motion, theta=theta)
    assert together.n_runs == 7
    for r in (0, 3, 6):
        assert_identical(rollout(robot, motion, theta=theta[r]), together, slice(r, r + 1))
        changed = robot.with_parameters(theta[r])
        assert_identical(rollout(changed, motion), together, slice(r, r + 1))
    one_for_all = rollout(robot, motion, theta=theta[2], runs=3)
    for r in range(3):
        assert_identical(rollout(robot, motion, theta=theta[2:3]), one_for_all, slice(r, r + 1))


def test_threads_do_not_matter(robot_of, wave_of, rng):
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("this machine has one thread")
    robot, motion = robot_of("tx40"), wave_of(6, 0.05)
    theta = robot.theta * rng.uniform(0.95, 1.05, (9, robot.layout.size))
    settings = {"theta": theta, "position_noise": 1e-5, "torque_noise": 0.1}
    before = numba.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            results.append(rollout(robot, motion, rng=np.random.default_rng(3), **settings))
    finally:
        numba.set_num_threads(before)
    assert_identical(*results)


def test_nothing_given_is_changed_and_read_only_input_compiles_nothing(robot_of, wave_of):
    robot, motion = robot_of("tx40"), wave_of(6, 0.02)
    _, q, v, a = motion.sample(5000.0)
    feed_forward = inverse_dynamics(robot, q, v, a)
    expected = rollout(robot, motion, feed_forward=feed_forward, start=(q[0], v[0]))

    class Frozen(type(motion)):
        def __call__(self, t):
            return q, np.asfortranarray(v), a

    given = [q, v, a, feed_forward, theta := robot.theta.copy(), sigma := np.zeros(6)]
    copies = [array.copy() for array in given]
    for array in given:
        array.flags.writeable = False
    compiled = len(run_batch.signatures)
    result = rollout(
        robot,
        Frozen(motion.period, motion.a, motion.b, motion.q0),
        theta=theta,
        feed_forward=feed_forward,
        start=(q[0], v[0]),
        position_noise=sigma,
    )
    assert_identical(result, expected)
    assert len(run_batch.signatures) == compiled
    for array, copy in zip(given, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


# -- integrators ---------------------------------------------------------------------------


@pytest.mark.parametrize(("integrator", "order"), [("euler", 1), ("rk2", 2), ("rk4", 4)])
def test_order_of_convergence(integrator, order, random_model, rng):
    robot = Robot.from_pinocchio(
        random_model(rng, 3), friction=Friction.from_model("viscous", 3), coefficients={"Fv": 0.2}
    )
    data, start = robot.model.createData(), (np.array([0.3, -0.8, 0.5]), np.array([1.0, -2.0, 0.5]))
    exact = solve_ivp(
        lambda _, x: np.r_[x[3:], pin.aba(robot.model, data, x[:3], x[3:], -0.2 * x[3:])],
        (0.0, 0.2),
        np.concatenate(start),
        method="DOP853",
        rtol=1e-13,
        atol=1e-13,
    ).y[:, -1]
    idle = Controller.from_gains(3, kp=0.0, kd=0.0, rate=20.0)
    errors = []
    for substeps in (8, 16, 32):
        result = rollout(
            robot,
            HoldTrajectory(start[0], 0.2),
            controller=idle,
            start=start,
            integrator=integrator,
            substeps=substeps * (1 if order == 4 else 4),
        )
        errors.append(np.abs(np.r_[result.q[0, -1], result.v[0, -1]] - exact).max())
    assert errors[-1] > 1e-12  # otherwise rounding hides the order
    assert set(INTEGRATORS) == {"euler", "rk2", "rk4"}
    np.testing.assert_allclose(-np.diff(np.log2(errors)), order, atol=0.15)
