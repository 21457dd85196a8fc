"""Physically consistent weighted least squares, by sequential quadratic programming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.identification.consistent.physical_sqp import PhysicalSQP
from bodysense.identification.linear.wls import WLS


@dataclass(frozen=True)
class ConsistentSQPWLS(PhysicalSQP, WLS):
    """Rows weighed as by `WLS`, solved over square roots of robots that can exist."""

    name: ClassVar[str] = "pc-sqp-wls"
    about: ClassVar[str] = "weighted least squares over physical robots, by quadratic programs"
    needs: ClassVar[str] = "noise levels: taken from the log"
    cost: ClassVar[str] = "one regression, a few quadratic programs"
    when: ClassVar[str] = "as pc-wls, of which it is an independent check"
