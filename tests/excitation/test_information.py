from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import ShapeError, TrajectoryError
from bodysense.excitation import MotionLimits, design_motion
from bodysense.excitation.information import (
    BaseRegressor,
    _parameter_sizes,
    _torque_scale,
    moving_base_parameters,
    plausible_sizes,
    standard_deviations,
    torque_noise,
    with_smooth_friction,
)
from bodysense.identification import identify
from bodysense.logs import Log
from bodysense.robot import base_parameters, load_robot, torque_regressor
from bodysense.robot.dynamics import inverse_dynamics


def test_standard_deviations_of_many_estimates(rng):
    W = rng.normal(size=(60, 4)) * np.array([1.0, 5.0, 0.2, 1.0])
    noise = rng.standard_normal((4000, 60))
    estimates = noise @ np.linalg.pinv(W).T
    np.testing.assert_allclose(standard_deviations(W.T @ W), estimates.std(axis=0), rtol=0.05)


def test_what_is_not_told_is_infinitely_uncertain(rng):
    W = rng.normal(size=(20, 4))
    W[:, 2] = 0.0
    W[:, 3] = 2.0 * W[:, 0]
    sigma = standard_deviations(W.T @ W)
    assert list(np.isinf(sigma)) == [True, False, True, True]
    alone = np.sqrt(np.linalg.inv(W[:, :2].T @ W[:, :2])[1, 1])
    assert sigma[1] == pytest.approx(alone, rel=1e-6)


def test_noise_by_default():
    robot = load_robot("tx40")
    effort = np.array([10.0, 20.0, np.inf, np.inf, 5.0, np.inf])
    noise = torque_noise(robot, effort, None)
    np.testing.assert_allclose(noise[[0, 1, 4]], [0.1, 0.2, 0.05])
    assert (noise > 0.0).all()
    assert np.isfinite(noise).all()
    np.testing.assert_allclose(torque_noise(robot, effort, 0.3), 0.3)


def test_gravity_sets_the_scale_where_there_is_no_limit(robot_of):
    robot = robot_of("example:ur5")
    free = np.full(6, np.inf)
    scale = _torque_scale(robot, free)
    # The shoulder lifts all links behind it, at most at their full reach of 0.95 m.
    moved = sum(robot.pi(k)[0] for k in range(1, 6))
    assert 0.3 * moved * 9.81 * 0.95 < scale[1] < moved * 9.81 * 0.95
    assert scale[0] == scale.max()  # the vertical axis carries nothing: the largest stands for it


def test_plausible_sizes_are_above_what_the_robot_has(robot_of):
    robot = robot_of("example:ur5")
    sizes = _parameter_sizes(robot, MotionLimits.from_robot(robot, acceleration=8.0))
    assert (sizes > 0.0).all()
    inertial = robot.layout.inertial
    assert (np.abs(robot.theta[inertial]) <= 2.0 * sizes[inertial] * (1 + 1e-9)).all()
    fv, fc = robot.layout.friction("Fv"), robot.layout.friction("Fc")
    np.testing.assert_allclose(sizes[fc], 0.1 * robot.effort_limit)
    np.testing.assert_allclose(sizes[fv] * 0.25 * robot.velocity_limit, sizes[fc])
    np.testing.assert_allclose(sizes[robot.layout.rotor] * 2.0, sizes[fc])


def test_sizes_of_combinations_add_in_squares(robot_of):
    robot = robot_of("tx40")
    base, limits = base_parameters(robot), MotionLimits.from_robot(robot)
    own = _parameter_sizes(robot, limits)
    expected = own[base.independent] ** 2 + base.K**2 @ own[base.dependent] ** 2
    np.testing.assert_allclose(plausible_sizes(robot, limits, base), np.sqrt(expected))


def test_coupled_motors_have_sizes(robot_of):
    robot = robot_of("tx40-three")
    sizes = _parameter_sizes(
        robot, MotionLimits.from_robot(robot, effort=10.0, velocity=2.0, acceleration=5.0)
    )
    assert (sizes[robot.layout.coupling] > 0.0).all()


@pytest.mark.parametrize("noise", [0.0, -1.0])
def test_noise_that_is_none(noise):
    with pytest.raises(TrajectoryError, match="above zero"):
        torque_noise(load_robot("tx40"), np.full(6, 10.0), noise)


def test_noise_that_is_no_number():
    with pytest.raises(ShapeError, match="noise"):
        torque_noise(load_robot("tx40"), np.full(6, 10.0), np.nan)


@pytest.mark.parametrize("rate", [500.0, 2000.0])
def test_predictions_are_the_errors_of_identifications(rate):
    robot = load_robot("tx40").with_friction("viscous")
    design = design_motion(
        robot,
        criterion="d-optimal",
        duration=8.0,
        rate=rate,
        noise=0.5,
        iterations=40,
        threads=1,
        rng=np.random.default_rng(0),
    )
    t, q, v, a = design.trajectories[0].sample(rate)
    tau = inverse_dynamics(robot, q, v, a)
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(4):
        noisy = tau + 0.5 * rng.standard_normal(tau.shape)
        channels = {f"q.{name}": q[:, k] for k, name in enumerate(robot.joint_names)}
        channels |= {f"tau.{name}": noisy[:, k] for k, name in enumerate(robot.joint_names)}
        found = identify(robot, Log.of(t, channels, {}), method="wls", friction="viscous")
        assert found.identification.base.names == design.base.names
        errors.append(found.identification.theta_base - design.theta_base)
    ratio = np.sqrt(np.square(errors).mean(axis=0)) / design.sigma
    assert 0.7 < np.median(ratio) < 1.4
    assert ratio.max() < 4.0


@pytest.mark.parametrize("name", ["tx40", "tx40-three", "example:ur5"])
def test_with_all_joints_moving_they_are_the_robots(name, robot_of):
    robot = robot_of(name)
    found = moving_base_parameters(robot, np.arange(6), np.zeros(6))
    expected = base_parameters(robot)
    np.testing.assert_array_equal(found.independent, expected.independent)
    np.testing.assert_allclose(found.K, expected.K, atol=1e-7)


def test_base_parameters_of_a_wrist_explain_its_torques(robot_of, rng):
    robot = robot_of("tx40")
    pose = np.array([0.3, -0.4, 1.0, 0.0, 0.0, 0.0])
    wrist = np.array([3, 4, 5])
    base = moving_base_parameters(robot, wrist, pose)
    q = np.tile(pose, (30, 1))
    v, a = np.zeros_like(q), np.zeros_like(q)
    for x in (q, v, a):
        x[:, wrist] = rng.normal(size=(30, 3))
    Y = torque_regressor(robot, q, v, a)[:, wrist].reshape(-1, robot.layout.size)
    W = Y[:, base.independent]
    assert np.linalg.matrix_rank(W) == base.size == np.linalg.matrix_rank(Y)
    tau = inverse_dynamics(robot, q, v, a)[:, wrist].ravel()
    np.testing.assert_allclose(W @ base.to_base(robot.theta), tau, atol=1e-6 * np.abs(tau).max())
    assert base.size < base_parameters(robot).size


def test_standing_still_shows_gravity_alone(robot_of):
    base = moving_base_parameters(robot_of("tx40"), np.arange(6), np.zeros(6), still=True)
    assert base.size > 0
    assert all(base.layout.names[k][:2] in ("MX", "MY", "MZ") for k in base.independent)


def test_a_sharp_sign_is_smoothed(robot_of):
    robot = robot_of("example:panda")
    smooth, notes = with_smooth_friction(robot, None)
    assert (smooth.friction.shape[:, 0] == 0.02).all()
    assert "smoothed" in notes[0]
    again, notes = with_smooth_friction(smooth, None)
    assert again is smooth
    assert notes == ()


def test_a_wide_sign_keeps_its_width(robot_of):
    robot = robot_of("example:panda").with_friction("coulomb", width=np.linspace(0.0, 0.1, 9))
    smooth, _ = with_smooth_friction(robot, None)
    np.testing.assert_allclose(smooth.friction.shape[:, 0], np.linspace(0.0, 0.1, 9).clip(0.02))


def test_another_law(robot_of):
    smooth, _ = with_smooth_friction(robot_of("tx40"), "viscous")
    assert smooth.friction.model.name == "viscous"


def test_rows_of_some_joints(robot_of, states_of, rng):
    robot = robot_of("tx40")
    base = base_parameters(robot)
    q, v, a = states_of(robot, rng, 5)
    for array in (q, v, a):
        array.flags.writeable = False  # as the samples of a trajectory are
    moving, scale = np.array([0, 3, 5]), np.array([1.0, 2.0, 0.5])
    W = BaseRegressor(robot, moving, base).rows(q, v, a, scale)
    Y = torque_regressor(robot, q, v, a, columns=base.independent)[:, moving]
    # Two kernels, which a processor may round differently: entries are of order 10.
    np.testing.assert_allclose(W, Y * scale[:, np.newaxis], rtol=1e-12, atol=1e-13)


def test_the_pull_of_a_function_by_finite_differences(robot_of, states_of, rng):
    robot = robot_of("tx40").with_friction("coulomb", width=0.5)
    regressor = BaseRegressor(robot, np.array([1, 2, 4]), base_parameters(robot))
    q, v, a = states_of(robot, rng, 3)
    scale = np.array([1.0, 2.0, 0.5])

    def f(q, v, a):
        return np.sum(regressor.rows(q, v, a, scale) ** 3)

    W = regressor.rows(q, v, a, scale)
    found = regressor.pull(q, v, a, scale, 3.0 * W**2)
    for k in range(3):
        d = [np.zeros_like(q) for _ in range(3)]
        d[k] = 1e-6 * rng.normal(size=q.shape)
        above = f(*(x + e for x, e in zip((q, v, a), d, strict=True)))
        below = f(*(x - e for x, e in zip((q, v, a), d, strict=True)))
        np.testing.assert_allclose(np.sum(found[k] * d[k]), 0.5 * (above - below), rtol=1e-5)
