"""What is said of a filter that failed, or cannot start: by its labels, and in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.errors import MismatchError
from bodysense.identification import Motion, Preprocessing, Regression, Status, identifier
from bodysense.identification.filtering.calibration import FilterOutcome
from bodysense.identification.filtering.method import FilterMethod, KalmanEngine
from bodysense.identification.prior import Prior
from bodysense.kalman import CovarianceFilter
from bodysense.robot import Controller, Robot

PLAIN = Preprocessing(cutoff=1e3, band=1e3, border=0.0, still_speed=0.0, decimate=False)


class Stopping(KalmanEngine):
    """A filter that stops, at the latest after the last sample."""

    def run(self, *given) -> FilterOutcome:
        return replace(super().run(*given), status=Status(False, "The filter stopped at 3 s."))


class Diverging(KalmanEngine):
    """A filter that is sure of parameters which explain nothing."""

    def run(self, *given) -> FilterOutcome:
        outcome = super().run(*given)
        return replace(outcome, mean=outcome.mean + 10.0)


@pytest.fixture(scope="module")
def problem(simulate) -> Regression:
    return simulate(0.01, n_t=600, rate=200.0).problem


def test_a_filter_that_stopped_has_identified_nothing(problem):
    """Whatever covariance it was left with."""
    usual, found = (
        identifier("ekf").fit(problem),
        FilterMethod("ekf", engine=Stopping(filter=CovarianceFilter())).fit(problem),
    )
    assert usual.status.ok
    assert "identified" in usual.base_labels
    assert not found.status.ok
    assert found.status.message.startswith("The filter stopped at 3 s.")
    np.testing.assert_array_equal(found.theta, usual.theta)  # better than the prior: it is kept
    assert set(found.base_labels) == set(found.labels) == {"not identifiable"}
    prior, spread = Prior.of(problem), FilterMethod("ekf").spread
    np.testing.assert_allclose(
        found.covariance, spread**2 * prior.base_factor @ prior.base_factor.T, rtol=1e-6, atol=1e-12
    )


def test_a_filter_that_went_astray_has_identified_nothing(problem):
    found = FilterMethod("ekf", engine=Diverging(filter=CovarianceFilter())).fit(problem)
    assert not found.status.ok
    assert "explains the torques worse than the prior, which is kept" in found.status.message
    np.testing.assert_allclose(found.theta, problem.robot.theta)
    assert set(found.base_labels) == {"not identifiable"}
    assert np.isfinite(found.covariance).all()


@pytest.mark.parametrize(
    ("controller", "told", "remedy"),
    [
        (None, True, "give it in the actuator file (controller: kp, kd, rate)"),
        (Controller.from_gains(3, kp=50.0, kd=5.0, ki=1.0, rate=2000.0), True, "has an integral"),
        (
            Controller.from_gains(3, kp=50.0, kd=5.0, rate=2000.0),
            False,
            "record the channels q_des",
        ),
    ],
)
def test_what_simulated_torques_lack_is_said_in_words(problem, controller, told, remedy):
    """That hold on the command line and in Python alike."""
    robot: Robot = problem.robot
    if controller is not None:
        robot = robot.with_controller(controller)
    (motion,) = problem.motions
    log: Motion = replace(motion, reference=motion.q if told else None)
    with pytest.raises(MismatchError) as caught:
        identifier("ekf", torque="simulated").fit(Regression.of(robot, [log], PLAIN, problem.base))
    message = str(caught.value)
    assert remedy in message
    assert "set torque to measured" in message
    assert not set('="(…') & set(message.replace("(controller", "")), message
