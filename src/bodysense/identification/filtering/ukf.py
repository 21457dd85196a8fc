"""Joint identification of state and parameters by `bodysense.kalman.UKF`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from bodysense.identification.filtering.kalman_identifier import KalmanIdentifier
from bodysense.kalman import StateFilter, ukf


@dataclass(frozen=True)
class UKF(KalmanIdentifier):
    """Unscented Kalman filter: 2 n + 1 points are sent through the dynamics, thesis C.3.

    Settings as in `KalmanIdentifier`.

    Attributes:
        alpha: how far from the mean the points lie: α √(n + κ) standard deviations for n unknowns;
            the thesis has 0.01.
        beta: what is known of the distribution: 2 for a normal one.
        kappa: κ in the distance α √(n + κ) of the points from the mean; the thesis has 0.
    """

    alpha: float = 1e-2
    beta: float = 2.0
    kappa: float = 0.0

    name: ClassVar[str] = "ukf"
    about: ClassVar[str] = "joint state and parameter filter by sigma points"
    needs: ClassVar[str] = "a robot file that is roughly right"
    cost: ClassVar[str] = "two simulations a parameter and sample, several times ekf"
    when: ClassVar[str] = "priors further off than a tangent can tell"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.state_filter()  # which refuses settings that cannot be meant

    def state_filter(self) -> StateFilter[Any]:
        """The filter with these settings."""
        return ukf.UKF(alpha=self.alpha, beta=self.beta, kappa=self.kappa)
