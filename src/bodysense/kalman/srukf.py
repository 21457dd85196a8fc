"""Unscented Kalman filter in square-root form: no Cholesky factor, no downdate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.kalman.root_form import SigmaRootFilter
from bodysense.kalman.sigma_points import Unscented


@dataclass(frozen=True)
class SRUKF(Unscented, SigmaRootFilter):
    """Square-root unscented Kalman filter; settings as in `Unscented`."""

    name: ClassVar[str] = "srukf"
