"""Joint identification of state and parameters by `bodysense.kalman.SRUKF`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from bodysense.identification.filtering.kalman_identifier import KalmanIdentifier
from bodysense.kalman import StateFilter, srukf


@dataclass(frozen=True)
class SRUKF(KalmanIdentifier):
    """Unscented Kalman filter that carries the covariance's root.

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

    name: ClassVar[str] = "srukf"
    about: ClassVar[str] = "unscented Kalman filter in square-root form"
    needs: ClassVar[str] = "a robot file that is roughly right"
    cost: ClassVar[str] = "as ukf"
    when: ClassVar[str] = "as ukf, where that one loses its covariance"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.state_filter()  # which refuses settings that cannot be meant

    def state_filter(self) -> StateFilter[Any]:
        """The filter with these settings."""
        return srukf.SRUKF(alpha=self.alpha, beta=self.beta, kappa=self.kappa)
