"""An experiment is the settings of a rollout, kept."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest

from bodysense.robot import inverse_dynamics
from bodysense.simulation import rollout, sensitivities
from bodysense.simulation.rollout import Experiment


def test_every_setting_is_one_of_rollouts_and_of_sensitivities():
    kept = {f.name for f in dataclasses.fields(Experiment)}
    for function in (rollout, sensitivities):
        assert kept <= set(inspect.signature(function).parameters)


def test_an_experiment_is_a_rollout_with_its_settings(robot_of, wave_of):
    robot, motion = robot_of("tx40"), wave_of(6)
    _, q, v, a = motion.sample(5000.0)
    start, torque = (q[0] + 0.001, v[0] - 0.1), inverse_dynamics(robot, q, v, a)
    made = Experiment(
        robot, motion, robot.controller, 250.0, "rk4", start, torque, differentiate=True
    )
    expected = rollout(
        robot,
        motion,
        sampling_rate=250.0,
        integrator="rk4",
        start=start,
        feed_forward=torque,
        differentiate=True,
    )
    np.testing.assert_array_equal(made.simulate(None).q, expected.q)


def test_an_experiment_does_not_change(robot_of, wave_of):
    made = Experiment(robot_of("tx40"), wave_of(6), robot_of("tx40").controller, 500.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.sampling_rate = 100.0
    assert made.integrator == "rk2"
    assert made.start is None
    assert made.feed_forward is None
    assert not made.differentiate
