"""Is output error taken where noise drowns inverse dynamics, and only if it is right?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense import FourierTrajectory, load_robot, rollout
from bodysense.identification import Preprocessing, Regression, choose_method, identifier, motions
from bodysense.robot import base_parameters

CUTOFF = 15.0  # Hz


@pytest.fixture(scope="module")
def recorded_at(off):
    """The TX40, with positions as noisy as given [rad]: its true robot, and the problem."""

    def made(position_noise):
        robot, rng = load_robot("tx40"), np.random.default_rng(6)
        motion = FourierTrajectory.for_robot(robot, duration=5.0, rng=rng)
        run = rollout(
            robot,
            motion,
            sampling_rate=500.0,
            integrator="rk4",
            position_noise=position_noise,
            torque_noise=0.1,
            rng=rng,
        )
        prior, base = off(robot), base_parameters(robot)
        settings = Preprocessing().settled(prior, CUTOFF)
        pieces = motions(prior, [[run.log()]], settings)
        return robot, Regression.of(prior, pieces, settings, base)

    return made


@pytest.fixture(scope="module")
def noisy(recorded_at):
    """The highest noise of the thesis (table 7): 1e-2 degrees."""
    return recorded_at(float(np.deg2rad(1e-2)))


def relative_error(robot, problem, theta) -> float:
    truth = problem.base.to_base(robot.theta)
    return float(np.linalg.norm(problem.base.to_base(theta) - truth) / np.linalg.norm(truth))


def test_noisy_encoders_under_a_known_controller(noisy):
    robot, problem = noisy
    choice = choose_method(problem)
    assert choice.identifier.name == "pc-cloe"
    assert "Inverse dynamics leaves" in choice.summary()
    assert "Simulated under the controller" in choice.summary()
    result = choice.identifier.fit(problem)
    assert result.status.ok
    assert result.consistent
    mine = relative_error(robot, problem, result.theta)
    others = [
        relative_error(robot, problem, identifier(name).theta(problem))
        for name in ("pc-wls", "pc-iv", "cloe")
    ]
    assert mine <= 1.5 * min(others)
    assert mine < 0.5 * min(others[:2])  # not by chance: inverse dynamics is far worse


def test_a_wrong_controller_does_not_bear_output_error_out(noisy):
    """With gains a half too high all links would be a half too heavy, and move as recorded."""
    _, problem = noisy
    own = problem.robot.controller
    gains = {name: 1.5 * getattr(own, name) for name in ("kp", "kd", "ki")}
    robot = problem.robot.with_controller(replace(own, **gains))
    choice = choose_method(replace(problem, robot=robot))
    assert choice.identifier.name != "pc-cloe"
    assert "is the controller right?" in choice.summary()


def test_good_encoders_need_no_simulation(recorded_at):
    _, problem = recorded_at(float(np.deg2rad(1e-5)))
    choice = choose_method(problem)
    assert choice.identifier.name in ("pc-wls", "pc-ols", "pc-irls")
    assert "Simulated under" not in choice.summary()
