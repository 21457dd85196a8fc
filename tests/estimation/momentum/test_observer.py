"""External torques against Pinocchio: the terms of the momentum, the filter, its covariance."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.estimation import MomentumObserver
from bodysense.robot import inverse_dynamics, load_robot, mass_matrix

TWIST = np.array([2e-3, 2e-3, 2e-3, 1e-3, 1e-3, 1e-3])


def stepped(robot, q, v, tau, **settings):
    """A stream after one sample at Pinocchio's q and v."""
    n, base = robot.n_joints, robot.nv - robot.n_joints
    noise = dict(torque_std=1e-3, velocity_std=1e-9) | settings
    if base:
        noise["base_twist_std"] = 1e-9
    stream = MomentumObserver(robot, **noise).stream()
    if base:
        placement = robot.model.jointPlacements[1].rotation
        R = placement @ pin.Quaternion(q[3:7]).toRotationMatrix()
        gravity = R.T @ robot.model.gravity.linear
        stream.step(0.0, q[robot.nq - n :], v[base:], tau, v[:base], gravity)
    else:
        stream.step(0.0, q, v, tau)
    return stream


@pytest.mark.parametrize("name", ["serial", "branched", "floating", "example:talos", "tx40-three"])
def test_the_terms_are_those_of_pinocchio(name, robot_of, states_of, rng):
    robot = robot_of(name)
    model = robot.model.copy()
    model.armature = np.zeros(model.nv)  # of torques behind the gears rotors are no part
    data, base = model.createData(), robot.nv - robot.n_joints
    for q, v, tau in zip(*states_of(robot, rng, 3), strict=True):
        stream = stepped(robot, q, v, tau[base:], side="joint")
        M = pin.crba(model, data, q)
        M = np.triu(M) + np.triu(M, 1).T
        C = pin.computeCoriolisMatrix(model, data, q, v)
        rate = C.T @ v - pin.computeGeneralizedGravity(model, data, q)
        rate[base:] += tau[base:]
        assert stream.momentum == pytest.approx(M @ v, rel=1e-10, abs=1e-10)
        assert stream.rate == pytest.approx(rate, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("serial", "stribeck-offset"),
        ("floating", "coulomb"),
        ("tx40-three", "coulomb"),
        ("short", "stribeck-load"),
        ("short", "lugre"),
        ("serial", "viscous"),
        ("serial", "none"),
    ],
)
def test_drives_lose_friction_and_accelerate_rotors(name, law, robot_of, states_of, rng):
    """dp/dt = M a + dM/dt v = M a + (C + Cᵀ) v where nothing pushes, whatever the drive loses."""
    robot = robot_of(name).with_friction(law)
    terms = robot.friction.model.terms
    sizes = {"Fl": 0.1, "Fc": 2.0, "Fs": 3.0, "Fv": 0.7, "Fo": 0.2}
    robot = robot.with_friction(law, coefficients={term: sizes[term] for term in terms})
    data, base = robot.model.createData(), robot.nv - robot.n_joints
    for q, v, a in zip(*states_of(robot, rng, 3), strict=True):
        if base:  # a base has no drive
            M = mass_matrix(robot, q[None])[0]
            a[:6] -= np.linalg.solve(
                M[:6, :6], inverse_dynamics(robot, q[None], v[None], a[None])[0, :6]
            )
        tau = inverse_dynamics(robot, q[None], v[None], a[None])[0]
        C = pin.computeCoriolisMatrix(robot.model, data, q, v)
        expected = mass_matrix(robot, q[None])[0] @ a + (C + C.T) @ v
        assert stepped(robot, q, v, tau[base:]).rate == pytest.approx(expected, rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("ratio", [0.0, 0.4, 1.5])
@pytest.mark.parametrize(
    ("law", "tau"), [("coulomb", 4.0), ("coulomb-load", 4.0), ("stribeck-offset", 4.0)]
)
def test_friction_near_a_reversal_is_that_of_random_speeds(law, tau, ratio, rng):
    """Mean and variance under v ~ N(v, sigma²), against drawn speeds."""
    sigma, coefficients = 2e-3, {"Fv": 0.5, "Fc": 3.0, "Fs": 4.0, "Fo": 0.3, "Fl": 0.2}
    robot = load_robot("tx40")
    terms = [term for term in ("Fv", "Fc", "Fs", "Fo", "Fl") if term != "Fs" or "stri" in law]
    robot = robot.with_friction(law)
    terms = robot.friction.model.terms
    robot = robot.with_friction(law, coefficients={term: coefficients[term] for term in terms})
    n, v = 6, np.zeros(6)
    v[:] = ratio * sigma
    torque = np.full(n, tau)
    with_friction = stepped(robot, np.zeros(n), v, torque, velocity_std=sigma, start_std=1e-6)
    free = robot.with_friction("none")
    without = stepped(free, np.zeros(n), v, torque, velocity_std=sigma)
    lost = (without.rate - with_friction.rate)[0]
    speeds = rng.normal(v[0], sigma, 200_000)
    phi, _ = robot.friction.model.basis(speeds, robot.friction.shape[0])
    load = "Fl" in terms
    F = np.array([coefficients[term] for term in terms])
    drawn = phi[:, : len(F) - load] @ F[: len(F) - load]
    if load:  # T + g |T| = net, by iteration
        net, g = tau - drawn, F[-1] * phi[:, -1]
        T = net.copy()
        for _ in range(60):
            T = net - g * np.abs(T)
        drawn = tau - T
    assert lost == pytest.approx(drawn.mean(), abs=0.03)
    variance = with_friction.last.covariance[0, 0, 0]
    assert variance == pytest.approx(drawn.var(), rel=0.02, abs=1e-4)


def test_a_joint_that_stands_may_push_either_way(rng):
    robot = load_robot("tx40").with_friction("coulomb", coefficients={"Fc": 5.0, "Fv": 1.0})
    t = np.arange(2000) / 1000.0
    still = np.zeros((t.size, 6))
    held = np.tile(inverse_dynamics(robot, still[:1], still[:1], still[:1]), (t.size, 1))
    observer = MomentumObserver(robot, torque_std=0.05, velocity_std=1e-3)
    estimate = observer.estimate(t, still, 1e-3 * rng.normal(size=still.shape), held + 3.0)
    # 3 N·m more, which its friction can hold as well as a push
    assert estimate.tau_ext[1000:].mean(axis=0) == pytest.approx(np.full(6, -3.0), abs=0.2)
    assert (np.sqrt(estimate.variance[-1]) > 0.7 * 5.0).all()
    assert (np.sqrt(estimate.variance[-1]) < 1.1 * 5.0).all()


def followed(arm, frequency, velocity_std, torque_std):
    """Amplitude at which a held arm's external torques of a frequency are estimated, at 10 Hz."""
    t = np.arange(4000) / 1000.0
    still = np.zeros((t.size, 7))
    q = still + np.array([0.3, -0.5, 0.2, -1.5, 0.4, 1.8, 0.1])
    push = np.sin(2.0 * np.pi * frequency * t)
    tau = inverse_dynamics(arm, q, still, still) - push[:, None]
    observer = MomentumObserver(
        arm, torque_std=torque_std, velocity_std=velocity_std, bandwidth=10.0
    )
    estimate = observer.estimate(t, q, still, tau).tau_ext[2000:]
    waves = np.exp(-2j * np.pi * frequency * t[2000:])
    return np.abs(waves @ estimate) / np.abs(waves @ push[2000:])


@pytest.mark.parametrize(
    ("velocity_std", "torque_std"), [(1e-8, 0.1), (1e-3, 0.1), (1e-1, 0.1), (1e-2, 1e-4)]
)
def test_the_bandwidth_is_where_half_of_the_power_passes(arm, velocity_std, torque_std):
    """Whether torques or velocities are the noisy ones, and in whatever axes."""
    gain = followed(arm, 10.0, velocity_std, torque_std)
    assert gain == pytest.approx(np.full(7, np.sqrt(0.5)), abs=0.05)
    assert followed(arm, 1.0, velocity_std, torque_std) == pytest.approx(np.ones(7), abs=0.02)


def test_with_exact_velocities_it_is_the_classic_observer(arm):
    """r = K (p - ∫ (tau + Cᵀ v - g + r) dt), dr/dt = K (tau_ext - r): a step, with K = 2π f."""
    t = np.arange(1500) / 1000.0
    w = np.array([0.9, 1.1, 0.7, 1.3, 1.0, 0.8, 1.2])
    q, v = 0.3 * np.sin(t[:, None] * w), 0.3 * w * np.cos(t[:, None] * w)
    push = np.where(t < 0.5, 0.0, 1.0)[:, None] * np.array([5.0, -4.0, 3.0, 2.0, -1.0, 0.5, 0.2])
    tau = inverse_dynamics(arm, q, v, -(w**2) * q) - push
    K = 2.0 * np.pi * 5.0
    # p and its rate of Pinocchio, integrated by the trapezoidal rule, implicit in r
    model, data, h = arm.model, arm.model.createData(), 1e-3
    r, integral, last = np.zeros(7), None, np.zeros(7)
    classic = np.zeros((t.size, 7))
    for k in range(t.size):
        M = pin.crba(model, data, q[k])
        p = (np.triu(M) + np.triu(M, 1).T) @ v[k]
        C = pin.computeCoriolisMatrix(model, data, q[k], v[k])
        rate = tau[k] + C.T @ v[k] - pin.computeGeneralizedGravity(model, data, q[k])
        if integral is None:
            integral = p
        else:
            integral = integral + 0.5 * h * (rate + last + r)
            r = K * (p - integral) / (1.0 + 0.5 * h * K)
            integral = integral + 0.5 * h * r
        last, classic[k] = rate, r
    observer = MomentumObserver(
        arm, torque_std=0.1, velocity_std=1e-8, bandwidth=5.0, start_std=1e-3
    )
    estimate = observer.estimate(t, q, v, tau).tau_ext
    assert np.abs(estimate - classic)[700:].max() < 0.02 * 5.0
    assert np.abs(estimate - push)[-1].max() < 1e-3


@pytest.mark.parametrize("velocity_std", [1e-4, 1e-3, 1e-2])
def test_the_covariance_is_that_of_the_errors(pushed_arm, velocity_std):
    """Without contact, and over a push."""
    rng = np.random.default_rng(1)
    observer = MomentumObserver(pushed_arm.robot, torque_std=0.2, velocity_std=velocity_std)
    estimate = observer.estimate(**pushed_arm.noisy(rng, 0.2, velocity_std))
    error = estimate.tau_ext - pushed_arm.tau_ext
    inside = np.abs(error) < 2.0 * np.sqrt(estimate.variance)
    quiet = (pushed_arm.t < 2.0) | (pushed_arm.t > 4.2)
    assert 0.93 < inside[quiet].mean() < 0.985
    assert 0.93 < inside.mean() < 0.97
    white = np.linalg.solve(estimate.covariance[quiet], error[quiet][..., None])[..., 0]
    normalised = np.einsum("ti,ti->t", error[quiet], white)[100:].mean()
    assert normalised == pytest.approx(7.0, rel=0.2)


def test_a_floating_base_has_the_wrench_on_the_whole_robot(pushed_quadruped):
    rng = np.random.default_rng(2)
    observer = MomentumObserver(
        pushed_quadruped.robot,
        torque_std=0.2,
        velocity_std=1e-3,
        base_twist_std=TWIST,
        bandwidth=8.0,
        side="joint",
    )
    estimate = observer.estimate(**pushed_quadruped.noisy(rng, 0.2, 1e-3, TWIST))
    error = estimate.tau_ext - pushed_quadruped.tau_ext
    inside = np.abs(error) < 2.0 * np.sqrt(estimate.variance)
    assert 0.93 < inside.mean() < 0.97
    white = np.linalg.solve(estimate.covariance, error[..., None])[..., 0]
    assert np.einsum("ti,ti->t", error, white)[100:500].mean() == pytest.approx(18.0, rel=0.2)
    posterior = estimate.posterior()
    assert list(posterior.variables)[:2] == ["fx_total.base_link", "tau_ext.lf_haa_joint"]
    assert posterior["fx_total.base_link"].shape == (1500, 6)


def test_gravity_that_is_not_exact_is_counted(pushed_quadruped):
    settings = dict(torque_std=0.2, velocity_std=1e-3, base_twist_std=TWIST, side="joint")
    sharp = MomentumObserver(pushed_quadruped.robot, **settings)
    tilted = MomentumObserver(pushed_quadruped.robot, gravity_std=0.1, **settings)
    readings = pushed_quadruped.noisy(np.random.default_rng(0), 0.2, 1e-3, TWIST)
    readings = {name: value[:20] for name, value in readings.items()}
    more = tilted.estimate(**readings).covariance - sharp.estimate(**readings).covariance
    mass = sum(
        pushed_quadruped.robot.pi(k)[0] for k in range(len(pushed_quadruped.robot.link_names))
    )
    assert np.diag(more[-1])[:3] == pytest.approx(np.full(3, (0.1 * mass) ** 2), rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        (dict(velocity_std=0.0), ShapeError, "velocity_std holds 0: give positive"),
        (dict(torque_std=[1.0, 2.0]), ShapeError, "torque_std"),
        (dict(bandwidth=-1.0), ShapeError, "bandwidth"),
        (dict(side="motor"), UnknownNameError, "side"),
        (dict(side=["joint"]), ShapeError, "1 sides are given for 6 joints"),
        (dict(side=["joint"] * 3 + ["drive"] * 3), MismatchError, "one side for all"),
    ],
)
def test_settings_that_are_none_are_refused(robot_of, settings, error, says):
    with pytest.raises(error, match=says):
        MomentumObserver(
            robot_of("tx40-three"), **(dict(torque_std=0.1, velocity_std=1e-3) | settings)
        )


def test_friction_under_load_that_locks_a_drive_is_refused():
    robot = load_robot("tx40").with_friction("coulomb-load", coefficients={"Fl": 1.2})
    with pytest.raises(MismatchError, match="locks itself"):
        MomentumObserver(robot, torque_std=0.1, velocity_std=1e-3)


def test_a_floating_base_asks_for_what_it_needs(robot_of):
    robot = robot_of("floating")
    with pytest.raises(MismatchError, match="give base_twist_std"):
        MomentumObserver(robot, torque_std=0.1, velocity_std=1e-3)
    observer = MomentumObserver(robot, torque_std=0.1, velocity_std=1e-3, base_twist_std=1e-3)
    rows = np.zeros((3, 12))
    with pytest.raises(MismatchError, match="give base_twist"):
        observer.estimate(np.arange(3.0), rows, rows, rows)
