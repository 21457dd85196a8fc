"""Joint identification of state and parameters by `bodysense.kalman.EKF`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from bodysense.identification.filtering.kalman_identifier import KalmanIdentifier
from bodysense.kalman import StateFilter, ekf


@dataclass(frozen=True)
class EKF(KalmanIdentifier):
    """Extended Kalman filter: the dynamics are replaced by their tangent, thesis C.1.

    Settings as in `KalmanIdentifier`.
    """

    name: ClassVar[str] = "ekf"
    about: ClassVar[str] = "joint state and parameter filter along the tangent of the dynamics"
    needs: ClassVar[str] = "a robot file that is roughly right"
    cost: ClassVar[str] = "one tangent and one update a sample, about as long as a regression"
    when: ClassVar[str] = "a quick second opinion that computes no accelerations"

    def state_filter(self) -> StateFilter[Any]:
        """The filter with these settings."""
        return ekf.EKF()
