"""What an online identifier is: a state, and a pure function from state and sample to a state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.identification.prior import Prior
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.regressors import torque_regressor
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, as_array, one_each

State = TypeVar("State")


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows of one instant, y = Y theta_base + noise.

    Attributes:
        Y: (n, b) regressor in base parameters.
        y: (n,) torques [N·m or N].
        sigma: (n,) standard deviation of their noise; infinite for a row that does not count, such
            as that of a standing joint.
    """

    Y: Array
    y: Array
    sigma: Array

    @classmethod
    def of(
        cls,
        robot: Robot,
        base: BaseParameters,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        tau: ArrayLike,
        sigma: ArrayLike = 1.0,
    ) -> Sample:
        """From what was measured at one instant.

        Args:
            robot: geometry and friction law.
            base: its base parameters.
            q: (n,) positions, filtered.
            v: (n,) velocities.
            a: (n,) accelerations.
            tau: (n,) torques, with the same delay as the motion.
            sigma: standard deviation of the torques' noise, one or one a joint.

        Raises:
            ShapeError: a standard deviation that is not positive.
        """
        n = robot.n_joints
        level = one_each(sigma, n, "sigma", infinite=True)
        if not (level > 0.0).all():
            raise ShapeError(
                f"sigma of joint {int(np.argmin(level)) + 1} is {level.min():g}: give a positive "
                "standard deviation, or infinity for a row that does not count."
            )
        positions, velocities, accelerations = (
            as_array(x, (n,), name)[None] for x, name in ((q, "q"), (v, "v"), (a, "a"))
        )
        Y = torque_regressor(robot, positions, velocities, accelerations, columns=base.independent)
        return cls(Y[0], as_array(tau, (n,), "tau"), level)


class OnlineIdentifier(ABC, Generic[State]):
    """A method that learns while the robot moves. Implementations are frozen dataclasses.

    `step` changes nothing that goes in: a state can be kept, a recording replayed, and a step
    taken back by going on from an earlier state.
    """

    @abstractmethod
    def init(self, prior: Prior) -> State:
        """The state before the first sample."""

    @abstractmethod
    def step(self, state: State, sample: Sample) -> State:
        """The state after one more sample."""

    def replay(self, state: State, samples: Iterable[Sample]) -> State:
        """The state after all of these samples, in their order."""
        for sample in samples:
            state = self.step(state, sample)
        return state
