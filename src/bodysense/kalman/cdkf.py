"""Central difference Kalman filter, thesis algorithms C.5 and C.6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.kalman.covariance_form import SigmaCovarianceFilter
from bodysense.kalman.sigma_points import CentralDifferences


@dataclass(frozen=True)
class CDKF(CentralDifferences, SigmaCovarianceFilter):
    """Central difference Kalman filter; settings as in `CentralDifferences`."""

    name: ClassVar[str] = "cdkf"
