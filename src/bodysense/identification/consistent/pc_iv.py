"""Physically consistent instrumental variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.identification.consistent.physical import Physical
from bodysense.identification.simulated.iv import IV


@dataclass(frozen=True)
class ConsistentIV(Physical, IV):
    """`IV` with a semidefinite program an iteration, thesis eqs (66)-(67)."""

    name: ClassVar[str] = "pc-iv"
    about: ClassVar[str] = "instrumental variables over physical robots"
    cost: ClassVar[str] = "one simulation and one semidefinite program an iteration"
    when: ClassVar[str] = "as iv, where the result is to be simulated or controlled with"
