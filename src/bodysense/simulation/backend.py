"""Where simulations run: methods ask a backend for batches of runs and do not know the place.

A backend is found by name, so that the settings of a method stay plain words in its files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from bodysense.errors import unknown_name
from bodysense.robot.base_parameters import BaseParameters
from bodysense.simulation.experiment import Experiment
from bodysense.simulation.rollout import Rollout, rollout
from bodysense.simulation.sensitivities import Sensitivities, sensitivities
from bodysense.spatial.arrays import Array


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
