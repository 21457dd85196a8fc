"""One small design problem for all tests of its parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bodysense.excitation.criterion import Criterion, Determinant
from bodysense.excitation.design_space import DesignSpace
from bodysense.excitation.information import BaseRegressor, moving_base_parameters
from bodysense.excitation.limits import MotionLimits
from bodysense.excitation.motion_family import MotionFamily
from bodysense.excitation.motion_problem import MotionProblem
from bodysense.robot import Robot


def _problem(
    robot: Robot,
    *,
    family: MotionFamily | None = None,
    criterion: Criterion | None = None,
    effort: float | None = None,
    moving: tuple[int, ...] = (0, 1, 2, 3, 4, 5),
    noise: float | np.ndarray = 1.0,
    trajectories: int = 1,
    rate: float = 10.0,
    clearances=(),
) -> MotionProblem:
    limits, places = MotionLimits.from_robot(robot, effort=effort), np.array(moving)
    base = moving_base_parameters(robot, places, limits.middle)
    sizes = np.ones(base.size)
    return MotionProblem(
        DesignSpace(robot, places, limits, clearances=tuple(clearances)),
        BaseRegressor(robot, places, base),
        MotionFamily("fourier", 4.0, False, 5) if family is None else family,
        limits.middle[np.newaxis],
        noise * np.ones(robot.n_joints),
        sizes,
        (criterion or Determinant()).measure(base, sizes),
        np.zeros((base.size, base.size)),
        trajectories,
        rate,
    )


@pytest.fixture(scope="session")
def problem_of() -> Callable[..., MotionProblem]:
    """Makes problems of a robot, in the middle of its ranges, without collisions."""
    return _problem


def _draw(problem: MotionProblem, rng: np.random.Generator, use: float = 0.6):
    x = rng.normal(size=problem.shape)
    if not problem.family.anchored:
        x[:, :, 0] = 0.0
    scale = use / problem.linear_use(x).reshape(problem.shape[:2])
    return x * scale[:, :, np.newaxis]


@pytest.fixture(scope="session")
def motion_of() -> Callable[..., np.ndarray]:
    """Draws coefficients that use a share of the tightest linear limit."""
    return _draw
