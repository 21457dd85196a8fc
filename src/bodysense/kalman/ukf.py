"""Unscented Kalman filter, thesis algorithms C.3 and C.4, without their twofold noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bodysense.kalman.covariance_form import SigmaCovarianceFilter
from bodysense.kalman.sigma_points import Unscented


@dataclass(frozen=True)
class UKF(Unscented, SigmaCovarianceFilter):
    """Unscented Kalman filter; settings as in `Unscented`."""

    name: ClassVar[str] = "ukf"
