"""Physically consistent, robust least squares, by sequential quadratic programming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.identification.consistent.physical_sqp import PhysicalSQP
from bodysense.identification.linear.irls import IRLS


@dataclass(frozen=True)
class ConsistentSQPIRLS(PhysicalSQP, IRLS):
    """Rows weighed as by `IRLS`, solved over square roots of robots that can exist."""

    name: ClassVar[str] = "pc-sqp-irls"
    about: ClassVar[str] = "robust least squares over physical robots, by quadratic programs"
    needs: ClassVar[str] = "noise levels: taken from the log"
    cost: ClassVar[str] = "one regression, a few quadratic programs an iteration"
    when: ClassVar[str] = "as pc-irls, of which it is an independent check"
