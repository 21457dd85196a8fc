"""Physically consistent weighted least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.identification.consistent.physical import Physical
from bodysense.identification.linear.wls import WLS


@dataclass(frozen=True)
class ConsistentWLS(Physical, WLS):
    """Rows weighed as by `WLS`, solved over robots that can exist."""

    name: ClassVar[str] = "pc-wls"
    about: ClassVar[str] = "weighted least squares over physical robots (the default)"
    needs: ClassVar[str] = "noise levels: taken from the log"
    cost: ClassVar[str] = "one regression, one semidefinite program"
    when: ClassVar[str] = "nearly always: links that can exist, also where the motion is poor"
