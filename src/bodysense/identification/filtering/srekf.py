"""Joint identification of state and parameters by `bodysense.kalman.SREKF`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from bodysense.identification.filtering.kalman_identifier import KalmanIdentifier
from bodysense.kalman import StateFilter, srekf


@dataclass(frozen=True)
class SREKF(KalmanIdentifier):
    """Extended Kalman filter that carries the covariance's root: it cannot lose its sign.

    Settings as in `KalmanIdentifier`.
    """

    name: ClassVar[str] = "srekf"
    about: ClassVar[str] = "extended Kalman filter in square-root form"
    needs: ClassVar[str] = "a robot file that is roughly right"
    cost: ClassVar[str] = "as ekf"
    when: ClassVar[str] = "as ekf, where that one loses its covariance"

    def state_filter(self) -> StateFilter[Any]:
        """The filter with these settings."""
        return srekf.SREKF()
