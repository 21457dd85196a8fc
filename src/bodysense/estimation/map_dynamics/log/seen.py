"""`LogSeen`: what sensors see of the dynamics at some moments of a log.

Where the state is estimated, accelerations of the joints are known as far as their bands say,
which counts as a reading of each.
"""

from __future__ import annotations

import numpy as np

from bodysense.estimation.map_dynamics.log.estimate import LogChunk, LogEstimate, Motion
from bodysense.estimation.map_dynamics.log.state_estimate import StateLogEstimate
from bodysense.estimation.map_dynamics.observability import Observability, observability
from bodysense.robot.sensors.covariance import variances
from bodysense.robot.sensors.joint_acceleration import JointAcceleration
from bodysense.spatial.arrays import Array

_MOMENTS = 3


class LogSeen:
    """Keeps what is needed of chunks, which `add` takes in their order."""

    def __init__(self, estimate: LogEstimate) -> None:
        """Start empty."""
        self._estimate = estimate
        self._wanted = np.unique(np.linspace(0, estimate.t.size - 1, _MOMENTS).astype(int))
        self._motions: list[Motion] = []
        self._spreads: list[Array] = []

    def add(self, chunk: LogChunk) -> None:
        """Keep the wanted moments of a chunk."""
        here = [k - chunk.first for k in self._wanted if 0 <= k - chunk.first < chunk.t.size]
        q, dq, twist = chunk.motion
        self._motions.append(Motion(q[here], dq[here], None if twist is None else twist[here]))
        if isinstance(self._estimate, StateLogEstimate):
            names = self._estimate.problem.robot.joint_names
            spread = [chunk.posterior.sigma(f"ddq.{name}")[here] for name in names]
            self._spreads.append(np.concatenate([np.zeros((len(here), 0)), *spread], axis=1))

    def observability(self) -> Observability:
        """Of these moments."""
        q, dq = (np.concatenate([m[k] for m in self._motions]) for k in range(2))
        twists = [m.base_twist for m in self._motions if m.base_twist is not None]
        problem = self._estimate.problem
        if self._spreads:
            std = np.median(np.concatenate(self._spreads), axis=0)
            taken = {sensor.name for sensor in problem.sensors}
            known = [
                JointAcceleration(name=f"ddq.{name}", joint=name, covariance=variances(s, 1))
                for name, s in zip(problem.robot.joint_names, std, strict=True)
                if f"ddq.{name}" not in taken
            ]
            problem = problem.with_sensors([*problem.sensors, *known])
        return observability(
            problem,
            q,
            dq,
            base_twist=np.concatenate(twists) if twists else None,
            gravity=self._estimate.setup.gravity,
        )
