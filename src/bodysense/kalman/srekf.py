"""Extended Kalman filter in square-root form: the factor's columns move along the tangent, F S."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bodysense.kalman.model import StateModel, noise_columns, tangent
from bodysense.kalman.root_form import RootFilter
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class SREKF(RootFilter):
    """Square-root extended Kalman filter. It has no settings."""

    name: ClassVar[str] = "srekf"

    def _response(
        self, model: StateModel, k: int, x: Array, U: Array
    ) -> tuple[Array, Array] | None:
        moved, F = tangent(model, k, x)
        if not (np.isfinite(moved).all() and np.isfinite(F).all()):
            return None
        return moved, np.concatenate((U @ F.T, noise_columns(model, k, x).T))
