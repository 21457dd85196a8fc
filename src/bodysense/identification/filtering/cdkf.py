"""Joint identification of state and parameters by `bodysense.kalman.CDKF`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from bodysense.identification.filtering.kalman_identifier import KalmanIdentifier
from bodysense.kalman import StateFilter, cdkf


@dataclass(frozen=True)
class CDKF(KalmanIdentifier):
    """Central difference Kalman filter: points further out than those of ukf, thesis C.5.

    Settings as in `KalmanIdentifier`.

    Attributes:
        h: how far from the mean the points lie, in standard deviations: √3 for normal ones.
    """

    h: float = math.sqrt(3.0)

    name: ClassVar[str] = "cdkf"
    about: ClassVar[str] = "joint state and parameter filter by central differences"
    needs: ClassVar[str] = "a robot file that is roughly right"
    cost: ClassVar[str] = "as ukf"
    when: ClassVar[str] = "as ukf, with one setting less"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.state_filter()  # which refuses settings that cannot be meant

    def state_filter(self) -> StateFilter[Any]:
        """The filter with these settings."""
        return cdkf.CDKF(h=self.h)
