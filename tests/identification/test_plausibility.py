"""What is implausible about a result: gravity, masses and bodies unlike those of the file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.identification import identifier
from bodysense.identification.plausibility import implausibilities
from bodysense.identification.regression import Regression
from bodysense.robot import load_robot


@pytest.fixture(scope="module")
def simulated(simulate):
    """The TX40, whose file is 15 % off, and torques of it."""
    robot = load_robot("tx40").with_friction("coulomb", width=0.02)
    return simulate(0.05, robot=robot)


def held_against(simulated, *, torque=1.0, inertial=1.0, motion=lambda m: m):
    """The problem of the same motions with other torques, and another file."""
    problem = simulated.problem
    theta = problem.robot.theta.copy()
    theta[problem.robot.layout.inertial] *= inertial
    motions = [
        motion(replace(m, tau=torque * m.tau, tau_raw=torque * m.tau_raw)) for m in problem.motions
    ]
    robot = problem.robot.with_parameters(theta)
    return Regression.of(robot, motions, problem.settings, problem.base)


def said(problem, method="pc-wls"):
    return implausibilities(problem, identifier(method).fit(problem))


def test_a_sound_result_is_plausible(simulated):
    assert said(simulated.problem) == []
    assert said(held_against(simulated, inertial=1.3)) == []
    assert said(held_against(simulated, torque=0.8)) == []


@pytest.mark.parametrize(
    ("torque", "words"), [(0.1, "currents or motor torques"), (3.0, "a larger one of the same")]
)
def test_gravity_that_is_not_that_of_the_file_is_told(torque, words, simulated):
    (sentence,) = said(held_against(simulated, torque=torque))
    assert sentence.startswith("Gravity takes")
    assert words in sentence
    assert float(sentence.split()[2]) == pytest.approx(torque, rel=0.35)  # the file is 15 % off


def test_gravity_that_acts_elsewhere_is_told(simulated):
    """Every joint has another zero, so that links hang where those of the file do not."""
    zeros = np.array([0.0, 1.6, 1.0, 0.5, 0.9, 0.0])
    problem = held_against(simulated, motion=lambda m: replace(m, q=m.q + zeros))
    sentences = said(problem)
    assert any("is unlike what it does to that of the file" in x for x in sentences)


def test_time_that_makes_bodies_inconsistent_is_told(simulated):
    """At half the speed, inertia and gravity belong to no body."""
    problem = held_against(simulated, motion=lambda m: replace(m, v=2.0 * m.v, a=4.0 * m.a))
    assert any("No physically consistent robot" in x or "weigh" in x for x in said(problem))


def test_a_method_without_bodies_is_not_blamed_for_them(simulated):
    problem = held_against(simulated, motion=lambda m: replace(m, v=2.0 * m.v, a=4.0 * m.a))
    assert not any("No physically consistent robot" in x for x in said(problem, "wls"))


def test_the_total_mass_is_held_against_the_file(simulated):
    """Mass in the base, which carries no weight: torques are the same."""
    problem = simulated.problem
    result = identifier("pc-wls").fit(problem)
    theta = result.theta.copy()
    theta[problem.robot.layout.link(0)][0] += 100.0
    (sentence,) = implausibilities(problem, replace(result, theta=theta))
    assert sentence.startswith("The links weigh 1")
