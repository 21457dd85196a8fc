"""What is implausible about a result: gravity, masses and bodies unlike those of the file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.identification import identifier
from bodysense.identification.plausibility import bursts, implausibilities
from bodysense.identification.regression import Regression
from bodysense.identification.scores import Prediction
from bodysense.logs import Log
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
    assert said(held_against(simulated, inertial=1.05)) == []
    assert said(held_against(simulated, torque=0.95)) == []


@pytest.mark.parametrize("torque", [0.75, 1.6])
def test_a_gain_of_all_torques_is_told(torque, simulated):
    """It predicts torques as well as the right one does."""
    (sentence,) = said(held_against(simulated, torque=torque))
    assert "for all joints alike" in sentence
    assert "drive gains" in sentence


@pytest.mark.parametrize(
    ("torque", "words"), [(0.1, "currents or motor torques"), (3.0, "a larger one of the same")]
)
def test_gravity_that_is_not_that_of_the_file_is_told(torque, words, simulated):
    (sentence,) = said(held_against(simulated, torque=torque))
    assert sentence.startswith("Gravity torques are")
    assert words in sentence
    assert float(sentence.split()[3]) == pytest.approx(torque, rel=0.35)  # the file is 15 % off


def test_gravity_that_acts_elsewhere_is_told(simulated):
    """Every joint has another zero, so that links hang where those of the file do not."""
    zeros = np.array([0.0, 1.6, 1.0, 0.5, 0.9, 0.0])
    problem = held_against(simulated, motion=lambda m: replace(m, q=m.q + zeros))
    sentences = said(problem)
    assert any("are unlike those of the robot's file" in x for x in sentences)


def test_time_that_makes_bodies_inconsistent_is_told(simulated):
    """At half the speed, inertia and gravity belong to no body."""
    problem = held_against(simulated, motion=lambda m: replace(m, v=2.0 * m.v, a=4.0 * m.a))
    assert any("No physically consistent robot" in x or "weigh" in x for x in said(problem))


def test_a_method_without_bodies_is_not_blamed_for_them(simulated):
    problem = held_against(simulated, motion=lambda m: replace(m, v=2.0 * m.v, a=4.0 * m.a))
    assert not any("No physically consistent robot" in x for x in said(problem, "wls"))


def torques_of(simulated, touched):
    """Held-out predictions of two joints that are off by the noise, and more where touched."""
    rng, t = np.random.default_rng(1), np.arange(0.0, 20.0, 0.01)
    tau = 10.0 * np.sin(t)[:, None] * np.ones(2)
    off = 0.3 * rng.normal(size=tau.shape) + np.stack([touched(t), 0.0 * t], axis=1)
    moving = np.ones(tau.shape, dtype=bool)
    made = (tau + off, tau + off, tau, tau, tau, tau, moving, moving)
    return Prediction("log.csv", "training", 0, t, *made, 0.1, 10.0)


def recorded(p: Prediction, zero: float | None = None) -> Log:
    return replace(Log.of(p.t, {}), source=p.source, zero=zero)


@pytest.mark.parametrize(
    ("touched", "said"),
    [
        (lambda t: 0.0 * t, False),
        (lambda t: 8.0 * ((t > 5.0) & (t < 6.3)), True),
        (lambda t: 8.0 * ((t > 5.0) & (t < 5.2)), False),  # as where friction reverses
        (lambda t: 8.0 * (t > 10.0), False),  # the model is wrong
    ],
    ids=["clean", "push", "reversal", "always"],
)
def test_a_short_time_unlike_the_rest_is_said(touched, said, simulated):
    """Of a part of a recording that began a second before it."""
    p = torques_of(simulated, touched)
    sentences = bursts(("a", "b"), [p], [recorded(p, zero=-1.0)])
    assert bool(sentences) is said
    if said:
        assert "Torques of a between 6 and 7.5 s are unlike the rest of log.csv" in sentences[0]
        assert "(LOG@1:6 LOG@7.5:20.99)" in sentences[0]


def test_each_short_time_is_said_by_itself(simulated):
    p = torques_of(simulated, lambda t: 8.0 * ((t > 5.0) & (t < 6.3) | (t > 15.0) & (t < 16.3)))
    (sentence,) = bursts(("a", "b"), [p], [recorded(p)])
    assert "a between 5 and 6.5 s; of a between 15 and 16.5 s" in sentence
    assert "(LOG@:5 LOG@6.5:15 LOG@16.5:)" in sentence


def test_recordings_of_one_name_keep_their_own_times(simulated):
    p = torques_of(simulated, lambda t: 8.0 * ((t > 5.0) & (t < 6.3)))
    other = replace(p, log=1, t=p.t + 1000.0)
    sentences = bursts(("a", "b"), [p, other], [recorded(p), recorded(other)])
    assert len(sentences) == 2
    assert all("between 5 and 6.5 s" in sentence for sentence in sentences)


def test_a_joint_that_stands_makes_no_burst(simulated):
    p = torques_of(simulated, lambda t: 8.0 * ((t > 5.0) & (t < 6.3)))
    moving = np.repeat(((p.t < 5.0) | (p.t > 6.3))[:, None], 2, axis=1)
    assert bursts(("a", "b"), [replace(p, fast=moving)], [recorded(p)]) == []


def test_the_total_mass_is_held_against_the_file(simulated):
    """Mass in the base, which carries no weight: torques are the same."""
    problem = simulated.problem
    result = identifier("pc-wls").fit(problem)
    theta = result.theta.copy()
    theta[problem.robot.layout.link(0)][0] += 100.0
    (sentence,) = implausibilities(problem, replace(result, theta=theta))
    assert sentence.startswith("The links weigh 1")
