"""`ConsideredParameters`: what errors of the robot's parameters do to the estimates.

An identified robot is known up to a covariance Sigma = Σ s_k s_kᵀ of its parameters. Estimates d(y;
theta) are computed with the parameters as they are, and their uncertainty is widened by what one
standard deviation in each direction would change (a *considered* uncertainty: readings are not
used to correct the parameters),

    Cov(d) = Cov(d | theta) + Σ_k (d(theta + s_k) - d(theta)) (…)ᵀ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bodysense.errors import ShapeError
from bodysense.estimation.map_dynamics.estimation_setup import EstimationSetup
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, as_array


@dataclass(frozen=True, eq=False)
class ConsideredParameters:
    """Estimators of robots that are one standard deviation away.

    Attributes:
        problems: one a direction.
    """

    problems: tuple[MapDynamics, ...]

    @classmethod
    def of(cls, setup: EstimationSetup, robot: Robot, directions: Array) -> ConsideredParameters:
        """Build the estimators.

        Args:
            setup: sensors and beliefs.
            robot: as identified.
            directions: (r, n_parameters) changes of robot.theta, one standard deviation each, whose
                outer products add up to the covariance.
        """
        steps = as_array(directions, (None, robot.theta.size), "directions")
        if not np.isfinite(steps).all():
            raise ShapeError("the covariance of the parameters is not finite: identify anew.")
        robots = [robot.with_parameters(robot.theta + step) for step in steps if step.any()]
        return cls(tuple(setup.problem(other) for other in robots))

    def variance(self, mean: Array, solve: Callable[[MapDynamics], Array]) -> Array:
        """What is added to the variances of means (T, size).

        Args:
            mean: with the parameters as they are.
            solve: the means with another estimator.
        """
        added = np.zeros_like(mean)
        for problem in self.problems:
            added += (solve(problem) - mean) ** 2
        return added


def directions_of(covariance: Array, places: Array, size: int) -> Array:
    """Directions (r, size) of a covariance (b, b) of the parameters at some places of theta."""
    values, vectors = np.linalg.eigh(covariance)
    some = values > 1e-12 * values.max(initial=0.0)
    steps = np.zeros((int(some.sum()), size))
    steps[:, np.asarray(places, dtype=np.int64)] = (vectors[:, some] * np.sqrt(values[some])).T
    return steps
