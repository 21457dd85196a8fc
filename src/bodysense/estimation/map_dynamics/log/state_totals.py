"""`StateTotals`: what is to be said of estimated positions and biases, gathered chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bodysense.estimation.map_dynamics.log.component_names import BIAS, component_names
from bodysense.estimation.map_dynamics.log.estimate import LogChunk
from bodysense.estimation.map_dynamics.log.state_estimate import StateLogEstimate
from bodysense.spatial.arrays import Array

ROUGH = 0.3
"""rad or m: a position that is known no better is hardly known."""


@dataclass(frozen=True)
class JointScore:
    """How well a joint is known over a log.

    Attributes:
        joint: its name.
        measured: whether its position was recorded.
        unit: of its position.
        lowest: estimated position.
        highest: estimated position.
        std: median standard deviation.
        worst: largest one.
    """

    joint: str
    measured: bool
    unit: str
    lowest: float
    highest: float
    std: float
    worst: float


@dataclass(frozen=True)
class BiasScore:
    """A bias after the last readings: name with axis, unit, mean and standard deviation."""

    name: str
    unit: str
    mean: float
    std: float


class StateTotals:
    """Sums over the chunks of a log; `add` them in their order."""

    def __init__(self, estimate: StateLogEstimate) -> None:
        """Start empty."""
        self.estimate = estimate
        self.moments = 0
        self._troubles: list[tuple[float, str]] = []
        self._q: list[Array] = []
        self._std: list[Array] = []
        self._last: LogChunk | None = None

    def add(self, chunk: LogChunk) -> None:
        """Count the moments of a chunk, which must hold variances."""
        names = self.estimate.problem.robot.joint_names
        self.moments += chunk.t.size
        self._troubles += chunk.troubles
        self._q.append(chunk.motion.q)
        self._std.append(
            np.concatenate([chunk.posterior.sigma(f"q.{name}") for name in names], axis=1)
        )
        self._last = chunk

    def joints(self) -> tuple[JointScore, ...]:
        """All joints, in their order."""
        robot = self.estimate.problem.robot
        q, std = np.concatenate(self._q), np.concatenate(self._std)
        return tuple(
            JointScore(
                joint=name,
                measured=name not in self.estimate.unmeasured,
                unit="m" if kind == "prismatic" else "rad",
                lowest=float(q[:, j].min()),
                highest=float(q[:, j].max()),
                std=float(np.median(std[:, j])),
                worst=float(std[:, j].max()),
            )
            for j, (name, kind) in enumerate(zip(robot.joint_names, robot.joint_types, strict=True))
        )

    def biases(self) -> tuple[BiasScore, ...]:
        """All of them, after the last readings."""
        if self._last is None:
            return ()
        found, sensors = self._last.posterior, self.estimate.problem.sensors
        by_name = {sensor.name: sensor for sensor in sensors}
        labels = component_names(self.estimate.variables, sensors)
        scores = []
        for name, where in self.estimate.variables.slices.items():
            quantity, _, owner = name.partition(".")
            if quantity == BIAS:
                values = zip(
                    labels[where],
                    by_name[owner].rows,
                    found[name][-1],
                    found.sigma(name)[-1],
                    strict=True,
                )
                scores += [
                    BiasScore(label.removeprefix(f"{BIAS}."), row[1], float(mean), float(std))
                    for label, row, mean, std in values
                ]
        return tuple(scores)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of the result."""
        notes = [
            f"q.{s.joint} is hardly known: its standard deviation is {s.std:.2g} {s.unit} at half "
            "of all moments. Say where it is at first (state, beliefs in the sensors file), or add "
            "an orientation or an accelerometer on a link that it moves"
            for s in self.joints()
            if s.std > ROUGH
        ]
        if self._troubles:
            t, why = self._troubles[0]
            several = f"{len(self._troubles)} times" if len(self._troubles) > 1 else "once"
            notes.append(f"{several}, first at {t:.6g} s: {why}")
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "method": self.estimate.state.method,
            "unmeasured": list(self.estimate.unmeasured),
            "joints": [vars(score) for score in self.joints()],
            "biases": [vars(score) for score in self.biases()],
        }
