"""Measured friction is kept, placeholders are not."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.excitation import FourierTrajectory
from bodysense.identification import Preprocessing, identify
from bodysense.identification.given_friction import (
    RICHEST,
    start_friction,
    with_widths_for,
    without_friction,
)
from bodysense.robot import check_robot, load_robot, write_actuators
from bodysense.robot.checks.joints import unmeasured_friction
from bodysense.simulation import rollout

MEASURED = [0.7, 0.9, 0.4, 0.3, 0.25, 0.12]


@pytest.mark.parametrize(
    ("law", "coefficients", "why"),
    [
        ("coulomb", {"Fv": 0.0, "Fc": 0.0}, "no friction coefficients"),
        ("coulomb", {"Fv": 1.0, "Fc": 1.0}, "same few values"),
        ("coulomb", {"Fv": 0.003, "Fc": 0.0}, "same few values"),
        ("coulomb", {"Fv": [10, 10, 5, 5, 5, 2], "Fc": 1.0}, "same few values"),
        ("stribeck", {"Fv": 0.1, "Fc": 0.2, "Fs": 0.3}, "same few values"),
        ("coulomb", {"Fv": MEASURED, "Fc": 0.0}, "without Coulomb friction"),
        ("viscous", {"Fv": MEASURED}, ""),  # which no URDF says
        ("viscous", {"Fv": 0.5}, "same few values"),
        ("coulomb", {"Fv": MEASURED, "Fc": [-0.1, *MEASURED[1:]]}, "negative"),
        ("coulomb", {"Fv": MEASURED, "Fc": MEASURED}, ""),
        ("coulomb", {"Fv": 0.1, "Fc": MEASURED}, ""),
        ("offset", {"Fv": 0.1, "Fc": MEASURED, "Fo": [-0.1, 0.1, 0.2, 0.0, 0.3, -0.2]}, ""),
    ],
)
def test_placeholders_are_told_from_measurements(tx40, law, coefficients, why):
    robot = tx40.with_friction(law, coefficients=coefficients)
    told = unmeasured_friction(robot)
    assert (why in told) if why else not told
    start = start_friction(robot, "auto")
    kept = start.friction.model is robot.friction.model
    assert kept == (not why)
    if why:  # what is no measurement is no prior either
        assert not start.theta[start.layout.rotor.stop :].any()
    assert start_friction(robot, "own") is robot


def test_couplings_are_no_friction_of_joints():
    """Their terms are given apart, and say nothing of zeros in all joints."""
    robot = load_robot("tx40-coupled").with_friction("coulomb", coefficients={"Fv": 0, "Fc": 0})
    assert robot.theta[robot.layout.rotor.stop :].any()
    assert unmeasured_friction(robot) == "there are no friction coefficients"
    assert start_friction(robot, "auto").friction.model.name == RICHEST


def test_friction_that_was_identified_is_measured(tmp_path):
    """A law without Coulomb friction, with another value for each joint, in an actuator file."""
    robot = load_robot("tx40").with_friction("viscous", coefficients={"Fv": MEASURED})
    write_actuators(robot, tmp_path / "identified.actuators.yaml")
    again = load_robot("tx40", actuators=tmp_path / "identified.actuators.yaml")
    assert start_friction(again, "auto") is again
    assert "placeholder-friction" not in {finding.kind for finding in check_robot(again).findings}


@pytest.mark.parametrize("damping", [1.0, 0.003])
def test_a_placeholder_does_not_switch_the_choice_off(damping):
    truth = load_robot("rv2sq").with_friction("coulomb", width=0.02)
    rng = np.random.default_rng(0)
    motion = FourierTrajectory.for_robot(truth, duration=8.0, rng=rng)
    log = rollout(truth, motion, sampling_rate=500.0, torque_noise=0.1, rng=rng).log()
    Fc = damping if damping == 1.0 else 0.0
    given = truth.with_friction("coulomb", coefficients={"Fv": damping, "Fc": Fc}, width=0.0)
    run = identify(given, [log], preprocessing=Preprocessing(cutoff=20.0), method="wls")
    assert run.friction is not None
    assert run.friction.reason.startswith("The friction of the robot's files is not used")
    assert run.robot.friction.model.name == "coulomb"
    layout = truth.layout
    for term in layout.friction_terms:
        found, expected = (robot.theta[layout.friction(term)] for robot in (run.robot, truth))
        np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.02)


def test_joints_that_are_slow_reverse_within_less():
    """Otherwise all that they do is a reversal, and no law is told apart."""
    robot = load_robot("tx40")
    started = start_friction(without_friction(robot), "coulomb")
    speeds = np.sqrt(2.0) * np.array([1.0, 0.5, 0.1, 0.02, 0.0, 1.0])
    v = speeds * np.sin(np.arange(1000.0))[:, None]
    width = with_widths_for(started, robot, v).friction.shape[:, 0]
    assert width == pytest.approx([0.02, 0.02, 0.005, 0.001, 0.02, 0.02], rel=1e-2)
    given = robot.with_friction("coulomb", width=0.02)
    assert with_widths_for(given, given, v) is given
