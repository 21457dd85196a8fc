"""Identification by filters on a small arm: the truth without noise, agreement, pieces, failure."""

from __future__ import annotations

import dataclasses
import json
from functools import cache

import numpy as np
import pytest

from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.excitation import FourierTrajectory
from bodysense.identification import Identification, Motion, Preprocessing, Regression, identifier
from bodysense.identification.prior import Prior
from bodysense.robot import (
    BaseParameters,
    Controller,
    Robot,
    base_parameters,
    load_robot,
)
from bodysense.simulation import Rollout, rollout

KALMAN = ("ekf", "srekf", "ukf", "srukf", "cdkf", "srcdkf")
every_filter = pytest.mark.parametrize("method", KALMAN)


@pytest.fixture(scope="module")
def arm(random_model) -> Robot:
    """Two joints with viscous and smooth Coulomb friction, and a controller."""
    robot = Robot.from_pinocchio(random_model(np.random.default_rng(11), 2))
    robot = robot.with_friction("coulomb", width=0.3)
    values = {"Fv1": 0.4, "Fv2": 0.3, "Fc1": 0.5, "Fc2": 0.3}
    robot = robot.with_parameter_values(values)
    return robot.with_controller(Controller.from_gains(2, kp=60.0, kd=8.0, rate=8000.0))


@pytest.fixture(scope="module")
def run(arm) -> Rollout:
    motion = FourierTrajectory.for_robot(arm, duration=4.0, rng=np.random.default_rng(1))
    made = rollout(arm, motion, sampling_rate=1000.0, integrator="rk4")
    assert made.ok
    return made


def off(robot: Robot, share: float = 0.1) -> Robot:
    rng = np.random.default_rng(5)
    return robot.with_parameters(
        robot.theta * (1.0 + share * rng.uniform(-1.0, 1.0, robot.layout.size))
    )


def samples(run: Rollout, log: int = 0, first: int = 0, last: int | None = None) -> Motion:
    at = slice(first, last)
    q, v, a, tau = (np.array(x[0, at]) for x in (run.q, run.v, run.a, run.tau))
    reference = np.array(run.reference[at])
    return Motion(run.t[at], q, v, a, tau, tau, 1000.0, log, reference=reference)


def problem_of(robot: Robot, base: BaseParameters, *motions: Motion) -> Regression:
    settings = Preprocessing(
        cutoff=1000.0, band=1000.0, border=0.0, still_speed=0.0, decimate=False
    )
    return Regression.of(robot, motions, settings, base)


@pytest.fixture(scope="module")
def base(arm) -> BaseParameters:
    return base_parameters(arm)


@pytest.fixture(scope="module")
def problem(arm, base, run) -> Regression:
    return problem_of(off(arm), base, samples(run))


def errors(found: Identification, problem: Regression, truth: Robot) -> np.ndarray:
    error = found.theta_base - problem.base.to_base(truth.theta)
    return np.abs(error / Prior.of(problem).size_base)


def require_sound(found: Identification) -> None:
    for name in ("theta", "covariance", "sigma", "resolution", "base_resolution", "noise"):
        assert np.isfinite(getattr(found, name)).all(), name
    assert (found.sigma_base > 0.0).all()
    np.testing.assert_array_equal(found.covariance, found.covariance.T)
    assert found.status.message


# -- the truth --------------------------------------------------------------------------------


@every_filter
def test_data_without_noise_give_nearly_the_truth(method, problem, arm):
    found = identifier(method).fit(problem)
    require_sound(found)
    assert found.status.ok, found.status.message
    assert found.method == method
    assert errors(found, problem, arm).max() < 3e-3
    assert 1 < len(found.trace) <= 10
    np.testing.assert_array_equal(identifier(method).theta(problem), found.theta)


def test_without_noise_the_held_torque_is_the_limit(arm):
    """Logs tell it half a control period too early: a quarter of the period, of the error."""
    worst = []
    for rate in (2000.0, 8000.0):
        robot = arm.with_controller(Controller.from_gains(2, kp=60.0, kd=8.0, rate=rate))
        motion = FourierTrajectory.for_robot(robot, duration=4.0, rng=np.random.default_rng(1))
        made = rollout(robot, motion, sampling_rate=1000.0, integrator="rk4")
        problem = problem_of(off(robot), base_parameters(robot), samples(made))
        worst.append(errors(identifier("ekf").fit(problem), problem, robot).max())
    assert 3.0 < worst[0] / worst[1] < 5.0


def test_all_forms_agree(problem):
    found = [identifier(method).fit(problem) for method in KALMAN]
    for other in found[1:]:
        gap = np.abs(other.theta_base - found[0].theta_base) / Prior.of(problem).size_base
        assert gap.max() < 5e-3, other.method


def test_the_root_forms_are_the_plain_ones(problem):
    size = Prior.of(problem).size_base
    for plain, root in (("ekf", "srekf"), ("ukf", "srukf"), ("cdkf", "srcdkf")):
        a, b = identifier(plain).fit(problem), identifier(root).fit(problem)
        np.testing.assert_allclose(a.theta_base / size, b.theta_base / size, rtol=0, atol=1e-4)
        np.testing.assert_allclose(a.sigma_base, b.sigma_base, rtol=0.05)


def test_simulated_torques_do_as_measured_ones(problem, arm, run, base):
    """The controller of the robot is known, and what it was told."""
    measured = identifier("srekf").fit(problem)
    simulated = identifier("srekf", torque="simulated").fit(problem)
    assert simulated.status.ok, simulated.status.message
    gap = np.abs(measured.theta_base - simulated.theta_base) / Prior.of(problem).size_base
    assert gap.max() < 2e-2
    method = identifier("srekf", torque="simulated")
    nothing = problem_of(off(arm), base, dataclasses.replace(samples(run), reference=None))
    with pytest.raises(MismatchError, match="q_des"):
        method.theta(nothing)
    integral = arm.with_controller(Controller.from_gains(2, kp=60.0, kd=8.0, ki=1.0, rate=8000.0))
    wound = problem_of(integral, base, samples(run))
    with pytest.raises(MismatchError, match="integral"):
        method.theta(wound)


def test_smoothing_changes_little(problem, arm):
    plain, smooth = (
        identifier("srekf", drift=0.01).fit(problem),
        identifier("srekf", drift=0.01, smooth=True).fit(problem),
    )
    require_sound(smooth)
    assert smooth.status.ok
    assert errors(smooth, problem, arm).max() < 1e-2
    gap = np.abs(plain.theta_base - smooth.theta_base) / Prior.of(problem).size_base
    assert 0.0 < gap.max() < 1e-2


# -- pieces -----------------------------------------------------------------------------------


def test_logs_and_pieces_go_on_with_the_parameters(arm, base, run):
    parts = problem_of(
        off(arm), base, samples(run, 0, 0, 1500), samples(run, 0, 1500, 2500), samples(run, 1, 2500)
    )
    found = identifier("ekf").fit(parts)
    require_sound(found)
    assert found.status.ok
    assert found.correlation_time.shape == (2,)
    assert errors(found, parts, arm).max() < 1e-2


def test_a_fold_is_left_out(problem, arm):
    whole = identifier("ekf").fit(problem)
    parts = [identifier("ekf").fit(problem.without(fold)) for fold in range(3)]
    for part in parts:
        assert part.status.ok
        assert errors(part, problem, arm).max() < 2e-2
        assert (part.theta_base != whole.theta_base).any()
    # What is held out does not enter: another torque there changes nothing.
    motion = problem.motions[0]
    held = problem.folds(motion) == 0
    other = dataclasses.replace(
        motion, tau=motion.tau + held[:, None], tau_raw=motion.tau_raw + held[:, None]
    )
    again = problem_of(problem.robot, problem.base, other).without(0)
    inside = identifier("ekf").theta(again)
    size = Prior.of(problem).size
    assert (np.abs(inside - parts[0].theta) < 0.02 * size).all()


# -- repeatability, failure, settings -----------------------------------------------------------


@every_filter
def test_nothing_is_random(method, problem):
    one, two = identifier(method).fit(problem), identifier(method).fit(problem)
    assert one.theta.tobytes() == two.theta.tobytes()
    assert one.covariance.tobytes() == two.covariance.tobytes()
    assert one.trace == two.trace


@every_filter
def test_nonsense_ends_with_a_status(method, arm, base, run):
    """Torques of the wrong sign, and a prior ten times too heavy."""
    motion = samples(run)
    turned = dataclasses.replace(motion, tau=-motion.tau, tau_raw=-motion.tau_raw)
    found = identifier(method).fit(problem_of(arm, base, turned))
    require_sound(found)
    heavy = problem_of(arm.with_parameters(10.0 * arm.theta), base, motion)
    found = identifier(method).fit(heavy)
    require_sound(found)
    before = heavy.squares(Prior.of(heavy).theta_base)[0].sum()
    assert heavy.squares(found.theta_base)[0].sum() <= 1.5 * before


def test_a_file_that_knows_no_masses_gets_a_start_from_the_data(arm, base, run):
    """As some robot files do, which are made for pictures."""
    light = problem_of(arm.with_parameters(1e-3 * arm.theta), base, samples(run))
    found = identifier("srekf").fit(light)
    require_sound(found)
    assert found.status.ok
    assert "starts from ridge" in found.status.message
    # Sizes follow the file's masses, which are a thousand times too small: torques must do.
    left = light.squares(found.theta_base)[0] / light.squares(Prior.of(light).theta_base)[0]
    assert left.max() < 1e-4


def test_particles_are_honest(problem, arm):
    found = identifier("pf", particles=300).fit(problem, rng=np.random.default_rng(3))
    require_sound(found)
    again = identifier("pf", particles=300).fit(problem, rng=np.random.default_rng(3))
    assert found.theta.tobytes() == again.theta.tobytes()
    before = problem.squares(Prior.of(problem).theta_base)[0].sum()
    after = problem.squares(found.theta_base)[0].sum()
    assert after <= 1.25 * before
    if found.status.ok:
        assert errors(found, problem, arm).max() < 0.5


@pytest.mark.parametrize("method", [*KALMAN, "pf"])
def test_settings_are_plain_and_checked(method):
    made = identifier(method)
    assert made == identifier(method)
    json.dumps(dataclasses.asdict(made), allow_nan=False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.rate = 1.0
    for name in ("rate", "spread", "mass_spread", "annealing"):
        with pytest.raises(ShapeError, match=name):
            identifier(method, **{name: 0.0})
    with pytest.raises(ShapeError, match="drift"):
        identifier(method, drift=-1.0)
    with pytest.raises(ShapeError, match="substeps"):
        identifier(method, substeps=0)
    with pytest.raises(UnknownNameError, match="measured"):
        identifier(method, torque="guessed")
    with pytest.raises(UnknownNameError, match="rk2"):
        identifier(method, integrator="rk3")


def test_settings_of_single_filters_are_checked():
    with pytest.raises(ShapeError, match="alpha"):
        identifier("ukf", alpha=0.0)
    with pytest.raises(ShapeError, match="beta"):
        identifier("srukf", beta=-1.0)
    for method in ("cdkf", "srcdkf"):
        with pytest.raises(ShapeError, match="h is"):
            identifier(method, h=0.5)
    with pytest.raises(ShapeError, match="particles"):
        identifier("pf", particles=1)
    with pytest.raises(ShapeError, match="blur"):
        identifier("pf", blur=0.1)


# -- six joints, noise --------------------------------------------------------------------------


@cache
def tx40_log() -> tuple[Robot, Regression]:
    from bodysense.identification import motions
    from bodysense.identification.choices import choose_cutoff

    robot, rng = load_robot("tx40"), np.random.default_rng(2)
    base = base_parameters(robot)
    motion = FourierTrajectory.for_robot(robot, duration=10.0, rng=rng)
    made = rollout(
        robot,
        motion,
        sampling_rate=1000.0,
        integrator="rk4",
        position_noise=np.deg2rad(1e-4),
        torque_noise=0.05,
        rng=rng,
    )
    prior = robot.with_parameters(robot.theta * np.exp(0.15 * rng.normal()))
    logs = [[made.log(0)]]
    settings = Preprocessing().settled(
        prior, choose_cutoff(prior, logs, Preprocessing(), base).cutoff
    )
    return robot, Regression.of(prior, motions(prior, logs, settings), settings, base)


@pytest.mark.parametrize("method", ["ekf", "srukf", "srcdkf"])
def test_noise_of_a_real_arm_costs_no_more_than_a_regression(method):
    robot, problem = tx40_log()
    found = identifier(method).fit(problem)
    require_sound(found)
    assert found.status.ok, found.status.message
    tau = problem.torque_size

    def error(theta_base: np.ndarray) -> float:
        squares, rows = problem.squares(theta_base)
        return float(np.sqrt((squares.sum(axis=0) / rows.sum(axis=0) / tau**2).mean()))

    truth = problem.base.to_base(robot.theta)
    assert error(found.theta_base) < error(truth) + 0.003
    assert error(identifier("wls").fit(problem).theta_base) < error(found.theta_base) + 1e-3
    lower, upper = found.interval()
    assert np.mean((lower <= truth) & (truth <= upper)) > 0.85
