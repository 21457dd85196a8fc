"""Where the simulation cannot follow: an answer all the same, finite, with advice, and soon."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.identification import Preprocessing, Regression, identifier
from bodysense.robot import Robot, base_parameters
from bodysense.simulation import rollout

EVERY = ("iv", "didim", "cloe", "clie", "pc-iv", "pc-didim", "pc-cloe")
every_method = pytest.mark.parametrize("name", EVERY)


def require_sound(found) -> None:
    """Finite, whatever went in, and with something to say."""
    for name in ("theta", "covariance", "sigma", "resolution", "base_resolution", "noise"):
        assert np.isfinite(getattr(found, name)).all(), name
    assert found.status.message
    for step in found.trace:
        assert np.isfinite(step.cost)
        assert np.isfinite(step.change)
    if found.method.startswith("pc"):
        assert found.consistent


def require_least_squares(found, problem: Regression) -> None:
    """A failure, with advice, whose estimate is that of weighted least squares."""
    assert not found.status.ok
    assert "leaves the recorded motion" in found.status.message
    assert "controller's gains" in found.status.message
    assert "q_des" in found.status.message
    plain = (identifier("pc-wls") if found.method.startswith("pc") else identifier("wls")).fit(
        problem
    )
    away = np.abs(found.theta_base - plain.theta_base)
    assert (away < 0.05 * plain.sigma_base).all()  # weights settle to 1 %


def with_gains(problem: Regression, factor: float) -> Regression:
    own = problem.robot.controller
    other = replace(own, kp=factor * own.kp, kd=factor * own.kd)
    return replace(problem, robot=problem.robot.with_controller(other))


def with_prior(problem: Regression, robot: Robot) -> Regression:
    return replace(problem, robot=robot)


@every_method
@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_a_prior_ten_times_off(name, factor, record):
    recorded = record(torque_noise=0.1)
    wrong = recorded.robot.with_parameters(factor * recorded.robot.theta)
    found = identifier(name).fit(with_prior(recorded.problem, wrong))
    require_sound(found)
    assert found.status.ok  # least squares is a better start
    assert np.median(recorded.errors(found)) < 0.05


@every_method
@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_gains_ten_times_off(name, factor, told, record):
    recorded = record(torque_noise=0.1, told=told, rate=500.0)
    found = identifier(name).fit(with_gains(recorded.problem, factor))
    require_sound(found)
    if not found.status.ok:
        require_least_squares(found, recorded.problem)


@every_method
@pytest.mark.parametrize("told", [True, False])
def test_gains_of_the_wrong_sign(name, told, record):
    recorded = record(torque_noise=0.1, told=told)
    problem = with_gains(recorded.problem, -1.0)
    found = identifier(name).fit(problem)
    require_sound(found)
    require_least_squares(found, problem)


@every_method
def test_a_controller_too_slow_for_its_gains(name, record):
    recorded = record(torque_noise=0.1)
    slow = replace(recorded.robot.controller, rate=50.0)
    problem = with_prior(recorded.problem, recorded.problem.robot.with_controller(slow))
    found = identifier(name).fit(problem)
    require_sound(found)


@every_method
@pytest.mark.parametrize("told", [True, False])
def test_torques_of_the_wrong_sign(name, told, record):
    recorded = record(torque_noise=0.1, told=told)
    motion = recorded.problem.motions[0]
    flipped = replace(motion, tau=-motion.tau, tau_raw=-motion.tau_raw)
    problem = replace(recorded.problem, motions=(flipped,))
    found = identifier(name).fit(problem)
    require_sound(found)
    if not found.status.ok:
        require_least_squares(found, problem)


@every_method
@pytest.mark.parametrize("law", ["none", "viscous"])
def test_a_friction_law_that_is_missing(name, law, record, off):
    recorded = record(torque_noise=0.1)
    robot = off(recorded.robot.with_friction(law, coefficients={}))
    base = base_parameters(robot)
    problem = replace(recorded.problem, robot=robot, base=base)
    found = identifier(name).fit(problem)
    require_sound(found)
    if not found.status.ok:
        require_least_squares(found, problem)


@every_method
def test_a_reference_of_another_motion(name, record):
    recorded = record(torque_noise=0.1)
    motion = recorded.problem.motions[0]
    other = replace(motion, reference=np.ascontiguousarray(2.0 - motion.q[::-1]))
    problem = replace(recorded.problem, motions=(other,))
    found = identifier(name).fit(problem)
    require_sound(found)
    require_least_squares(found, problem)


@every_method
def test_torques_that_are_nothing_but_noise(name, record, rng):
    recorded = record()
    motion = recorded.problem.motions[0]
    tau = 100.0 * rng.normal(size=motion.tau.shape)
    problem = replace(recorded.problem, motions=(replace(motion, tau=tau, tau_raw=tau),))
    found = identifier(name).fit(problem)
    require_sound(found)


@every_method
def test_a_robot_that_stands(name, record):
    recorded = record()
    n_t = 400
    q = np.tile([0.3, -0.2], (n_t, 1))
    still, tau = np.zeros((n_t, 2)), np.random.default_rng(0).normal(size=(n_t, 2))
    problem = Regression.from_samples(
        recorded.problem.robot, q, still, still, tau, rate=250.0, reference=q
    )
    require_sound(identifier(name).fit(problem))


@every_method
def test_few_samples(name, record):
    recorded = record(duration=0.1, torque_noise=0.1)
    assert recorded.run.t.size == 26
    require_sound(identifier(name).fit(recorded.problem))


@every_method
def test_samples_too_few_to_simulate(name, arm, motion_of, off):
    robot = arm().with_friction("none", coefficients={})
    run = rollout(robot, motion_of(2), sampling_rate=50.0)
    few = slice(0, 7)
    problem = Regression.from_samples(
        off(robot), run.q[0, few], run.v[0, few], run.a[0, few], run.tau[0, few], rate=50.0
    )
    found = identifier(name).fit(problem)
    require_sound(found)
    require_least_squares(found, problem)


@every_method
def test_noise_that_the_controller_answers(name, record):
    """Estimates that cannot exist, which simulations do not survive."""
    recorded = record(
        filtered=Preprocessing(cutoff=40.0), position_noise=1e-3, torque_noise=0.1, rate=500.0
    )
    found = identifier(name).fit(recorded.problem)
    require_sound(found)
    if not found.status.ok:
        require_least_squares(found, recorded.problem)
        assert "after" in found.status.message or "from the start" in found.status.message
