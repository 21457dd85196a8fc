"""An experiment that can be simulated again and again with other parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from bodysense.errors import unknown_name
from bodysense.excitation.trajectory import Trajectory
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.controller import Controller
from bodysense.robot.robot import Robot
from bodysense.simulation.rollout import Integrator, Rollout, rollout
from bodysense.simulation.sensitivities import Sensitivities, sensitivities
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


# Where simulations run: methods ask a backend for batches of runs and do not know the place.
#
# A backend is found by name, so that the settings of a method stay plain words in its files.


class Backend(ABC):
    """Runs experiments.

    Class attributes:
        name: by which it is asked for.
    """

    name: ClassVar[str]

    @abstractmethod
    def rollouts(self, experiment: Experiment, theta: Array) -> Rollout:
        """One run for each row of theta (runs, p)."""

    @abstractmethod
    def sensitivities(
        self, experiment: Experiment, theta: Array, base: BaseParameters
    ) -> Sensitivities:
        """One run for each row of theta (runs, p), with derivatives by the base parameters."""


class Threads(Backend):
    """On the threads of this process."""

    name: ClassVar[str] = "threads"

    def rollouts(self, experiment: Experiment, theta: Array) -> Rollout:
        """One run a thread at a time."""
        return rollout(
            experiment.robot, experiment.trajectory, theta=theta, **experiment.settings()
        )

    def sensitivities(
        self, experiment: Experiment, theta: Array, base: BaseParameters
    ) -> Sensitivities:
        """One run a thread at a time."""
        return sensitivities(
            experiment.robot,
            experiment.trajectory,
            theta=theta,
            base=base,
            **experiment.settings(),
        )


BACKENDS: Mapping[str, Backend] = MappingProxyType({Threads.name: Threads()})
"""Every backend by its name."""


def backend(name: str) -> Backend:
    """The backend of that name."""
    if name not in BACKENDS:
        raise unknown_name("backend", name, BACKENDS)
    return BACKENDS[name]
