"""An experiment that can be simulated again and again with other parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bodysense.excitation.trajectory import Trajectory
from bodysense.robot.controller import Controller
from bodysense.robot.robot import Robot
from bodysense.simulation.rollout import Integrator
from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False)
class Experiment:
    """Everything about a closed-loop run but the parameters, without noise.

    Attributes:
        robot: a fixed-base robot.
        trajectory: the reference.
        controller: of the joints.
        sampling_rate: of the recorded samples [Hz].
        integrator: ``euler``, ``rk2`` or ``rk4``, one step a control period.
        start: first position and velocity, (n,) each; those of the trajectory if `None`.
        feed_forward: (n_control_steps, n) joint torques added to the controller's.
        differentiate: whether the controller sees differences of positions, as drives do, instead
            of velocities.
    """

    robot: Robot
    trajectory: Trajectory
    controller: Controller
    sampling_rate: float
    integrator: Integrator = "rk2"
    start: tuple[Array, Array] | None = None
    feed_forward: Array | None = None
    differentiate: bool = False

    def settings(self) -> dict[str, Any]:
        """As `rollout` and `sensitivities` take them."""
        return {
            "controller": self.controller,
            "sampling_rate": self.sampling_rate,
            "integrator": self.integrator,
            "start": self.start,
            "feed_forward": self.feed_forward,
            "differentiate": self.differentiate,
        }
