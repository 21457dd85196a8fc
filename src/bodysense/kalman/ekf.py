"""Extended Kalman filter, thesis algorithm C.1: dynamics replaced by their tangent.

m⁺ = f(x),   P_mm⁺ = F P Fᵀ + E Eᵀ,   P_mp⁺ = F P_xp,   P_pp⁺ = P_pp
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bodysense.kalman.belief import CovarianceBelief
from bodysense.kalman.covariance_form import CovarianceFilter
from bodysense.kalman.model import StateModel, noise_columns, tangent
from bodysense.kalman.state_filter import Prediction


@dataclass(frozen=True)
class EKF(CovarianceFilter):
    """Extended Kalman filter. It has no settings."""

    name: ClassVar[str] = "ekf"

    def step(
        self, model: StateModel, k: int, belief: CovarianceBelief
    ) -> Prediction[CovarianceBelief]:
        """The time step from sample k to k + 1."""
        moved, F = tangent(model, k, belief.mean)
        if not (np.isfinite(moved).all() and np.isfinite(F).all()):
            return self._not_finite(model, belief)
        E = noise_columns(model, k, belief.mean)
        FP = F @ belief.matrix
        own = FP @ F.T + E @ E.T
        own = 0.5 * (own + own.T)
        new = self._joined(model, k, belief, moved, FP[:, : model.n_parameters], own)
        return Prediction(new, belief.matrix, F.T)
