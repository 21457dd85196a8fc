"""Gains of controllers that are known come back from logs; others are noticed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bodysense.errors import MismatchError, ShapeError
from bodysense.excitation import FourierTrajectory
from bodysense.identification import Motion, Preprocessing, motions
from bodysense.identification.simulated.controller_fit import (
    ControllerFit,
    _motor,
    _positive_mean,
    fit_controller,
)
from bodysense.robot import Controller, Robot, inverse_dynamics, load_robot, suggested_controller
from bodysense.robot.actuators import Actuators
from bodysense.simulation import rollout
from bodysense.spatial import Array

SETTINGS = Preprocessing(cutoff=40.0, border=0.025)
QUIET = {"position_noise": 2e-6, "torque_noise": 0.02, "differentiate": False}


@cache
def robot_of(name: str) -> Robot:
    return load_robot(name)


@cache
def motion_of(name: str) -> FourierTrajectory:
    return FourierTrajectory.for_robot(
        robot_of(name), rng=np.random.default_rng(4), duration=10.0, harmonics=20
    )


def recorded(name: str, seed: int = 0, **how) -> tuple[Motion, ...]:
    """A simulated log at 1 kHz of a loop at 5 kHz, as motions."""
    robot = robot_of(name)
    run = rollout(
        robot,
        motion_of(name),
        sampling_rate=1000.0,
        integrator="rk4",
        rng=np.random.default_rng(seed),
        **how,
    )
    assert run.ok
    return motions(robot, [[run.log()]], SETTINGS)


@cache
def quiet(name: str) -> tuple[Motion, ...]:
    return recorded(name, **QUIET)


def sigmas(fit: ControllerFit, truth: Controller) -> dict[str, Array]:
    """How far gains are off, in their standard deviations."""
    return {
        name: (getattr(fit.controller, name) - getattr(truth, name)) / getattr(fit, f"sigma_{name}")
        for name in ("kp", "kd", "ki")
        if getattr(truth, name).any()
    }


# -- gains come back -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tx40", "rv2sq"])
def test_the_gains_of_a_pd_controller_come_back(name):
    robot = robot_of(name)
    fit = fit_controller(robot, quiet(name), SETTINGS, rate=5000.0)
    truth = robot.controller
    np.testing.assert_allclose(fit.controller.kp, truth.kp, rtol=1e-3)
    np.testing.assert_allclose(fit.controller.kd, truth.kd, rtol=0.05)
    assert not fit.controller.ki.any()
    assert fit.controller.rate == 5000.0
    # Ten blocks: a t-distribution with nine degrees of freedom, 12 gains.
    for z in sigmas(fit, truth).values():
        assert np.abs(z).max() < 4.3
        assert np.sqrt(np.mean(z**2)) < 2.0
    assert (fit.sigma_ki == 0.0).all()
    assert fit.fitted.all()
    assert (fit.explained > 0.99).all()
    assert fit.ok
    assert fit.summary().startswith("PD gains of 6 of 6 joints from the log, which explain at")


@pytest.mark.parametrize("name", ["tx40", "rv2sq"])
def test_an_integral_is_found_where_there_is_one(name):
    robot = robot_of(name)
    own = robot.controller
    truth = Controller.from_gains(6, kp=own.kp, kd=own.kd, ki=2.0 * own.kp, rate=5000.0)
    fit = fit_controller(
        robot, recorded(name, controller=truth, **QUIET), SETTINGS, rate=truth.rate
    )
    np.testing.assert_allclose(fit.controller.kp, truth.kp, rtol=3e-3)
    np.testing.assert_allclose(fit.controller.ki, truth.ki, rtol=3e-3)
    np.testing.assert_allclose(fit.controller.kd, truth.kd, rtol=0.05)
    off = sigmas(fit, truth)
    for gain in ("kd", "ki"):  # Kp bears that sums lag by half a control period, 0.02 %
        assert np.abs(off[gain]).max() < 4.3
    assert fit.summary().startswith("PID gains of 6 of 6 joints")


@pytest.mark.parametrize("name", ["tx40", "rv2sq"])
def test_a_controller_that_takes_differences(name):
    # Its velocities are half a period late, which the law does not know: Kd bears it.
    logs = recorded(name, **{**QUIET, "differentiate": True})
    fit = fit_controller(robot_of(name), logs, SETTINGS, rate=5000.0)
    np.testing.assert_allclose(fit.controller.kp, robot_of(name).controller.kp, rtol=4e-3)
    np.testing.assert_allclose(fit.controller.kd, robot_of(name).controller.kd, rtol=0.15)


def test_an_integral_of_single_joints_is_not_lent_to_others():
    own = robot_of("tx40").controller
    ki = own.kp * [0.0, 2.0, 0.0, 0.0, 0.0, 1.0]
    truth = Controller.from_gains(6, kp=own.kp, kd=own.kd, ki=ki, rate=5000.0)
    logs = recorded("tx40", controller=truth, **QUIET)
    found = fit_controller(robot_of("tx40"), logs, SETTINGS, rate=5000.0).controller.ki
    np.testing.assert_array_equal(found > 0.0, ki > 0.0)


def test_standard_deviations_are_as_large_as_the_errors():
    name, noise = "tx40", {"position_noise": 1e-5, "torque_noise": 0.05}
    found = [
        fit_controller(robot_of(name), recorded(name, seed, **noise), SETTINGS, rate=5e3)
        for seed in range(8)
    ]
    for gain in ("kp", "kd"):
        values = np.array([getattr(fit.controller, gain) for fit in found])
        told = np.array([getattr(fit, f"sigma_{gain}") for fit in found])
        ratio = values.std(axis=0, ddof=1) / np.sqrt(np.mean(told**2, axis=0))
        assert 0.5 < np.sqrt(np.mean(ratio**2)) < 1.5
    assert (found[0].explained > 0.95).all()


def test_pieces_of_two_recordings_count_together():
    both = (*quiet("tx40"), *recorded("tx40", 7, **QUIET))
    one, two = (
        fit_controller(robot_of("tx40"), logs, SETTINGS, rate=5e3) for logs in (both[:1], both)
    )
    np.testing.assert_allclose(two.controller.kp, robot_of("tx40").controller.kp, rtol=2e-3)
    assert np.median(two.sigma_kd / one.sigma_kd) < 1.2


# -- a law by formula ----------------------------------------------------------------------


def formula(robot: Robot, seed: int = 3, *, n_t: int = 4000, rate: float = 500.0) -> Motion:
    """A motion whose torques follow eq (12) by closed-form derivatives: Kp 40, Kd 0.8."""
    rng = np.random.default_rng(seed)
    t, n = np.arange(n_t) / rate, robot.n_joints
    w = 2.0 * np.pi * np.array([0.3, 0.7, 1.9, 4.1])[:, None, None]
    phase = rng.uniform(0.0, 2.0 * np.pi, (4, 1, n))
    angle = w * t[None, :, None] + phase
    e, de = 1e-3 * np.sin(angle).sum(axis=0), 1e-3 * (w * np.cos(angle)).sum(axis=0)
    q = np.sin(0.4 * w[1] * t[:, None] + phase[0])
    C = robot.actuators.coupling
    stiffness = 40.0 * np.abs(robot.actuators.drive_gain)
    tau = ((e @ C.T) + 0.02 * (de @ C.T)) * stiffness @ C
    return Motion(t, q, q, q, tau, tau, rate, reference=q + e)


def with_drives(robot: Robot, **drives) -> Robot:
    return replace(robot, actuators=Actuators.from_values(robot.n_joints, **drives))


def test_couplings_and_drive_gains_of_either_sign(small_arm):
    coupling = [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, -1.0, 1.0]]
    robot = with_drives(small_arm, drive_gain=[2.0, -3.0, 0.5], coupling=coupling)
    fit = fit_controller(robot, [formula(robot)], SETTINGS, rate=1e3)
    # Where a signal drives the other way, so must the controller.
    np.testing.assert_allclose(fit.controller.kp, [40.0, -40.0, 40.0], rtol=1e-4)
    np.testing.assert_allclose(fit.controller.kd, [0.8, -0.8, 0.8], rtol=1e-3)
    assert (fit.sigma_kp > 0.0).all()
    assert fit.ok


def test_a_constant_torque_does_not_matter(small_arm):
    motion = formula(small_arm)
    shifted = replace(motion, tau_raw=motion.tau_raw + np.array([3.0, -20.0, 1.0]))
    for logs in ([motion], [shifted]):
        fit = fit_controller(small_arm, logs, SETTINGS, rate=1e3)
        np.testing.assert_allclose(fit.controller.kp, 40.0, rtol=1e-4)
        np.testing.assert_allclose(fit.explained, 1.0, atol=1e-5)


def test_the_signals_as_recorded_are_what_counts(small_arm):
    motion = formula(small_arm)
    filtered = replace(motion, q=np.zeros_like(motion.q), tau=motion.q, q_raw=motion.q)
    one, other = (
        fit_controller(small_arm, [m], SETTINGS, rate=1e3).controller for m in (motion, filtered)
    )
    np.testing.assert_array_equal(one.kp, other.kp)


# -- what is no such law -------------------------------------------------------------------


def test_feed_forward_is_noticed():
    robot = robot_of("tx40")
    _, q, _, _ = motion_of("tx40").sample(5000.0)
    still = np.zeros_like(q)
    logs = recorded("tx40", feed_forward=inverse_dynamics(robot, q, still, still), **QUIET)
    fit = fit_controller(robot, logs, SETTINGS, rate=5000.0)
    assert not fit.ok
    assert fit.explained[1] < 0.8  # the shoulder carries the arm
    assert fit.explained[0] > 0.99  # the base does not
    text = fit.summary()
    assert "Gains of joint2 are not identifiable: its Kp is lost in torque of another kind" in text
    assert "Gains of joint3 explain only" in text
    assert "% of its torque: the real controller is of another kind (cascade, feed-fo" in text
    assert "treat results of simulating methods with care" in text


def test_a_cascade_is_noticed_joint_by_joint(small_arm):
    motion = formula(small_arm)
    v = np.gradient(motion.q, 1.0 / motion.rate, axis=0)
    tau = motion.tau_raw.copy()
    tau[:, 1] = 0.1 * (20.0 * (motion.reference - motion.q) - v)[:, 1]  # speed is fed back alone
    fit = fit_controller(small_arm, [replace(motion, tau_raw=tau)], SETTINGS, rate=1e3)
    (note,) = fit.notes
    assert "joint2" in note
    assert fit.explained[1] < 0.7
    np.testing.assert_allclose(fit.controller.kp[[0, 2]], 40.0, rtol=1e-4)


def test_noise_is_not_taken_for_another_law(small_arm, rng):
    motion = formula(small_arm)
    level = 1.5 * motion.tau_raw.std(axis=0)
    noisy = replace(motion, tau_raw=motion.tau_raw + level * rng.normal(size=motion.q.shape))
    fit = fit_controller(small_arm, [noisy], SETTINGS, rate=1e3)
    assert fit.explained.max() < 0.9
    assert "of another kind" not in fit.summary()


def test_a_vague_gain_is_said_to_be_vague():
    logs = recorded("rv2sq", position_noise=5e-5, torque_noise=0.05)
    fit = fit_controller(robot_of("rv2sq"), logs, SETTINGS, rate=5e3)
    assert (fit.controller.kd > 0.0).all()
    vague = fit.fitted & (fit.sigma_kd > 0.3 * fit.controller.kd)
    assert vague.any()
    text = fit.summary()
    assert "Uncertain gains:" in text
    for joint in np.flatnonzero(vague):
        assert f"Kd of joint{joint + 1} (± " in text


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: {"tau_raw": -m.tau_raw}, "its Kp would not be positive"),
        (lambda m: {"reference": m.q}, "its reference is the measured position itself"),
        (lambda m: {"reference": m.q + 0.01 * m.t[:, None]}, "joint2 are not identifiable: its Kp"),
        (lambda m: {"tau_raw": np.ones_like(m.q)}, "its torque does not change"),
    ],
)
def test_gains_that_cannot_be_seen_are_suggested(change, why, small_arm):
    motion = formula(small_arm)
    fit = fit_controller(small_arm, [replace(motion, **change(motion))], SETTINGS, rate=100.0)
    spare = suggested_controller(small_arm, bandwidth=5.0, rate=100.0)
    for name in ("kp", "kd", "ki"):
        np.testing.assert_array_equal(getattr(fit.controller, name), getattr(spare, name))
        assert np.isinf(getattr(fit, f"sigma_{name}")).all()
    assert not fit.fitted.any()
    assert len(fit.notes) == 3
    assert fit.summary().startswith("No gains of the controller are identifiable. Gains of joint1")
    assert why in fit.summary()


def test_columns_that_are_one_and_the_same():
    rows = np.random.default_rng(0).normal(size=(10, 30, 4))
    rows[..., 1] = 3.0 * rows[..., 0]
    found = _motor(np.einsum("btk,btl->bkl", rows, rows))
    assert "too poor to tell gains apart" in found.failure


def test_a_positive_quantity_has_a_positive_mean():
    assert _positive_mean(5.0, 0.0) == 5.0
    assert _positive_mean(5.0, 1.0) == pytest.approx(5.0, abs=1e-5)
    assert _positive_mean(0.0, 2.0) == pytest.approx(2.0 * np.sqrt(2.0 / np.pi))
    draws = np.random.default_rng(0).normal(-1.0, 2.0, 400_000)
    assert _positive_mean(-1.0, 2.0) == pytest.approx(draws[draws > 0.0].mean(), rel=0.01)
    assert 0.0 < _positive_mean(-40.0, 1.0) < 0.03


# -- what is refused -----------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, -1.0, np.nan, np.inf])
def test_a_control_rate_that_is_none(rate, small_arm):
    with pytest.raises(ShapeError, match=r"control rate is .*: give a positive number of Hz"):
        fit_controller(small_arm, [formula(small_arm)], SETTINGS, rate=rate)


def test_bad_motions_are_refused(small_arm):
    motion = formula(small_arm)
    with pytest.raises(MismatchError, match="no motion to identify gains from"):
        fit_controller(small_arm, [], SETTINGS, rate=1e3)
    untold = replace(motion, reference=None, log=2)
    with pytest.raises(MismatchError, match=r"log 3 does not hold .*q_des.<joint>.*actuator file"):
        fit_controller(small_arm, [motion, untold], SETTINGS, rate=1e3)
    with pytest.raises(ShapeError, match=r"reference has shape \(4000, 2\), expected \(4000, 3\)"):
        fit_controller(
            small_arm, [replace(motion, reference=motion.reference[:, :2])], SETTINGS, rate=1e3
        )
    with pytest.raises(ShapeError, match="tau holds nan"):
        fit_controller(
            small_arm, [replace(motion, tau_raw=np.full_like(motion.q, np.nan))], SETTINGS, rate=1e3
        )
    with pytest.raises(ShapeError, match="not settled"):
        fit_controller(small_arm, [motion], Preprocessing(), rate=1e3)


@pytest.mark.parametrize(("n_t", "left"), [(8, 0), (150, 124)])
def test_a_short_motion_is_refused(n_t, left, small_arm):
    motion = formula(small_arm, n_t=n_t)
    with pytest.raises(MismatchError, match=f"{left} samples are left .*record for longer"):
        fit_controller(small_arm, [motion], SETTINGS, rate=1e3)


def test_a_robot_without_a_fixed_base_is_refused():
    with pytest.raises(MismatchError, match="floats"):
        fit_controller(load_robot("example:human"), [], SETTINGS, rate=1e3)
