"""CLOE: closed-loop output error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.identification.simulated.linearised import Quantity
from bodysense.identification.simulated.output_error import ClosedLoopFit


@dataclass(frozen=True)
class CLOE(ClosedLoopFit):
    """Fit simulated positions to recorded ones, thesis eqs (33)-(37)."""

    name: ClassVar[str] = "cloe"
    about: ClassVar[str] = "closed-loop output error: simulated against recorded positions"
    needs: ClassVar[str] = "the controller; what it was told, or it follows the measured motion"
    cost: ClassVar[str] = "one simulation with derivatives an iteration, about four of them"
    when: ClassVar[str] = "torques are poor, positions and the controller good"
    quantity: ClassVar[Quantity] = "q"
