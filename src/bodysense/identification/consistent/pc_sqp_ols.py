"""Physically consistent ordinary least squares, by sequential quadratic programming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.identification.consistent.physical_sqp import PhysicalSQP
from bodysense.identification.linear.ols import OLS


@dataclass(frozen=True)
class ConsistentSQPOLS(PhysicalSQP, OLS):
    """Rows weighed as by `OLS`, solved over square roots of robots that can exist."""

    name: ClassVar[str] = "pc-sqp-ols"
    about: ClassVar[str] = "ordinary least squares over physical robots, by quadratic programs"
    needs: ClassVar[str] = "nothing more"
    cost: ClassVar[str] = "one regression, a few quadratic programs"
    when: ClassVar[str] = "as pc-ols, of which it is an independent check"
