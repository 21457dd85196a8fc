"""Physically consistent iteratively reweighted least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.identification.consistent.physical import Physical
from bodysense.identification.linear.irls import IRLS


@dataclass(frozen=True)
class ConsistentIRLS(Physical, IRLS):
    """Rows weighed as by `IRLS`, solved over robots that can exist."""

    name: ClassVar[str] = "pc-irls"
    about: ClassVar[str] = "robust least squares over physical robots"
    needs: ClassVar[str] = "noise levels: taken from the log"
    cost: ClassVar[str] = "one regression, one semidefinite program an iteration"
    when: ClassVar[str] = "recordings with outliers: knocks, contacts, samples that are wrong"
