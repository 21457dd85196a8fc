"""Joint identification of state and parameters by `bodysense.kalman.SRCDKF`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from bodysense.identification.filtering.kalman_identifier import KalmanIdentifier
from bodysense.kalman import StateFilter, srcdkf


@dataclass(frozen=True)
class SRCDKF(KalmanIdentifier):
    """Central difference Kalman filter that carries the covariance's root.

    Settings as in `KalmanIdentifier`.

    Attributes:
        h: how far from the mean the points lie, in standard deviations: √3 for normal ones.
    """

    h: float = math.sqrt(3.0)

    name: ClassVar[str] = "srcdkf"
    about: ClassVar[str] = "central difference Kalman filter in square-root form"
    needs: ClassVar[str] = "a robot file that is roughly right"
    cost: ClassVar[str] = "as ukf"
    when: ClassVar[str] = "as cdkf, where that one loses its covariance"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.state_filter()  # which refuses settings that cannot be meant

    def state_filter(self) -> StateFilter[Any]:
        """The filter with these settings."""
        return srcdkf.SRCDKF(h=self.h)
