"""CLIE: closed-loop input error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.identification.simulated.linearised import Quantity
from bodysense.identification.simulated.output_error import ClosedLoopFit


@dataclass(frozen=True)
class CLIE(ClosedLoopFit):
    """Fit the simulated controller's torques to recorded ones, thesis eqs (38)-(40)."""

    name: ClassVar[str] = "clie"
    about: ClassVar[str] = "closed-loop input error: simulated against recorded torques"
    needs: ClassVar[str] = "the controller; what it was told, or it follows the measured motion"
    cost: ClassVar[str] = "one simulation with derivatives an iteration, about four of them"
    when: ClassVar[str] = "as didim, with the exact derivative"
    quantity: ClassVar[Quantity] = "tau"
