"""Physically consistent ordinary least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.identification.consistent.physical import Physical
from bodysense.identification.linear.ols import OLS


@dataclass(frozen=True)
class ConsistentOLS(Physical, OLS):
    """Rows weighed as by `OLS`, solved over robots that can exist."""

    name: ClassVar[str] = "pc-ols"
    about: ClassVar[str] = "ordinary least squares over physical robots"
    needs: ClassVar[str] = "nothing more"
    cost: ClassVar[str] = "one regression, one semidefinite program"
    when: ClassVar[str] = "joints of equal noise, or too few rows to tell their noise apart"
