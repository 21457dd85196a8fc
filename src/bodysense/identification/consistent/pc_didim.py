"""Physically consistent DIDIM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.identification.consistent.physical import Physical
from bodysense.identification.simulated.didim import DIDIM


@dataclass(frozen=True)
class ConsistentDIDIM(Physical, DIDIM):
    """`DIDIM` with a semidefinite program an iteration, thesis eq (65)."""

    name: ClassVar[str] = "pc-didim"
    about: ClassVar[str] = "DIDIM over physical robots"
    cost: ClassVar[str] = "one simulation and one semidefinite program an iteration"
    when: ClassVar[str] = "as didim, where the result is to be simulated or controlled with"
