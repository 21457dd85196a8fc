"""`StateSetup`: how positions and velocities of a log are estimated, if not measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from bodysense.errors import ShapeError
from bodysense.estimation.map_dynamics.belief import Belief
from bodysense.spatial.arrays import Array

StateMethod = Literal["track", "smooth"]
METHODS: tuple[StateMethod, ...] = ("track", "smooth")

QUANTITIES = ("q", "dq", "ddq")
"""What may be believed of a joint at the first moment."""

WINDOW = 200
"""Moments that are smoothed together."""


@dataclass(frozen=True, eq=False)
class StateSetup:
    """The method, and what is believed before any reading.

    Attributes:
        method: ``track``, from moment to moment with the readings up to each, or ``smooth``, with
            all readings of a window.
        window: moments that are smoothed together.
        jerk: (n,) or one, spectral density of each joint's jerk [(rad/s³)² s]; `None`: that of
            `StateTracker`.
        beliefs: at the first moment, by ``q.<joint>``, ``dq.<joint>`` and ``ddq.<joint>``; the
            others come from the first readings.
    """

    method: StateMethod = "track"
    window: int = WINDOW
    jerk: Array | float | None = None
    beliefs: Mapping[str, Belief] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ShapeError(
                f"the method of a state is {self.method!r}: give one of {', '.join(METHODS)}."
            )
        if self.window < 2:
            raise ShapeError(f"the window of a state is {self.window}: give 2 moments or more.")
        if self.jerk is not None and not (np.asarray(self.jerk) > 0.0).all():
            raise ShapeError(
                "the jerk of a state is not positive: give spectral densities above 0."
            )
