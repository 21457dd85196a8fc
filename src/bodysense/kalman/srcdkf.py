"""Central difference Kalman filter in square-root form: no Cholesky factor, no downdate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.kalman.root_form import SigmaRootFilter
from bodysense.kalman.sigma_points import CentralDifferences


@dataclass(frozen=True)
class SRCDKF(CentralDifferences, SigmaRootFilter):
    """Square-root central difference Kalman filter; settings as in `CentralDifferences`."""

    name: ClassVar[str] = "srcdkf"
