"""Priors about what is not measured."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.estimation import Assumptions, GaussianPrior, MapDynamics


@pytest.mark.parametrize("std", [-1.0, [1.0, -0.5]])
def test_a_negative_deviation_is_refused(std):
    with pytest.raises(ShapeError, match="from zero up"):
        GaussianPrior.of([1.0, 2.0], std)


def test_a_force_along_a_line_varies_along_it_alone():
    prior = GaussianPrior.force(2.0, direction=[0, 3, 4], mean=10.0, moment_std=[0.1, 0, 0])
    np.testing.assert_allclose(prior.mean, [0, 6, 8, 0, 0, 0])
    line = np.array([0, 0.6, 0.8])
    np.testing.assert_allclose(prior.covariance[:3, :3], 4.0 * np.outer(line, line))
    np.testing.assert_allclose(prior.covariance[3:, 3:], np.diag([0.01, 0, 0]))
    free = GaussianPrior.force([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(np.diag(free.covariance), [1, 4, 9, 0, 0, 0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"std": -1.0}, "from zero up"),
        ({"std": np.nan}, "std holds nan"),
        ({"std": [1.0, 2.0]}, "std has shape"),
        ({"std": 1.0, "direction": [0, 0, 0]}, "no length"),
        ({"std": 1.0, "direction": [0, 1]}, "direction has shape"),
        ({"std": [1.0, 1.0, 1.0], "direction": [0, 0, 1]}, "std has shape"),
        ({"std": 1.0, "moment_std": -1.0}, "from zero up"),
    ],
)
def test_bad_forces_are_refused(arguments, words):
    with pytest.raises(ShapeError, match=words):
        GaussianPrior.force(**arguments)


def test_wrenches_on_frames_that_are_not_there_are_refused(robot_of):
    ur5 = robot_of("example:ur5")
    for frame, error, words in (
        ("tool1", UnknownNameError, "tool0"),
        ("base", MismatchError, "part of the ground"),
    ):
        with pytest.raises(error, match=words):
            MapDynamics(ur5, [], Assumptions(wrenches={frame: GaussianPrior.unknown(6)}))
