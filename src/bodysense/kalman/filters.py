"""The six Kalman filters by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from bodysense.errors import unknown_name
from bodysense.kalman.forms import (
    CovarianceFilter,
    FilterPrediction,
    RootFilter,
    SigmaCovarianceFilter,
    SigmaRootFilter,
    StateFilter,
)
from bodysense.kalman.model import CovarianceBelief, StateModel, noise_columns, tangent
from bodysense.kalman.sigma_points import CentralDifferences, Unscented
from bodysense.spatial.arrays import Array

# Extended Kalman filter, thesis algorithm C.1: dynamics replaced by their tangent.
#
# m⁺ = f(x),   P_mm⁺ = F P Fᵀ + E Eᵀ,   P_mp⁺ = F P_xp,   P_pp⁺ = P_pp


@dataclass(frozen=True)
class EKF(CovarianceFilter):
    """Extended Kalman filter. It has no settings."""

    name: ClassVar[str] = "ekf"

    def step(
        self, model: StateModel, k: int, belief: CovarianceBelief
    ) -> FilterPrediction[CovarianceBelief]:
        """The time step from sample k to k + 1."""
        moved, F = tangent(model, k, belief.mean)
        if not (np.isfinite(moved).all() and np.isfinite(F).all()):
            return self._not_finite(model, belief)
        E = noise_columns(model, k, belief.mean)
        FP = F @ belief.matrix
        own = FP @ F.T + E @ E.T
        own = 0.5 * (own + own.T)
        new = self._joined(model, k, belief, moved, FP[:, : model.n_parameters], own)
        return FilterPrediction(new, belief.matrix, F.T)


# Extended Kalman filter in square-root form: the factor's columns move along the tangent, F S.


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


# Unscented Kalman filter, thesis algorithms C.3 and C.4, without their twofold noise.


@dataclass(frozen=True)
class UKF(Unscented, SigmaCovarianceFilter):
    """Unscented Kalman filter; settings as in `Unscented`."""

    name: ClassVar[str] = "ukf"


# Unscented Kalman filter in square-root form: no Cholesky factor, no downdate.


@dataclass(frozen=True)
class SRUKF(Unscented, SigmaRootFilter):
    """Square-root unscented Kalman filter; settings as in `Unscented`."""

    name: ClassVar[str] = "srukf"


# Central difference Kalman filter, thesis algorithms C.5 and C.6.


@dataclass(frozen=True)
class CDKF(CentralDifferences, SigmaCovarianceFilter):
    """Central difference Kalman filter; settings as in `CentralDifferences`."""

    name: ClassVar[str] = "cdkf"


# Central difference Kalman filter in square-root form: no Cholesky factor, no downdate.


@dataclass(frozen=True)
class SRCDKF(CentralDifferences, SigmaRootFilter):
    """Square-root central difference Kalman filter; settings as in `CentralDifferences`."""

    name: ClassVar[str] = "srcdkf"


_ALL: tuple[type[StateFilter[Any]], ...] = (EKF, SREKF, UKF, SRUKF, CDKF, SRCDKF)

FILTERS: Mapping[str, type[StateFilter[Any]]] = MappingProxyType({kind.name: kind for kind in _ALL})


def state_filter(name: str) -> StateFilter[Any]:
    """A filter with its usual settings.

    Raises:
        UnknownNameError: there is no filter of this name.
    """
    if name not in FILTERS:
        raise unknown_name("filter", name, FILTERS)
    return FILTERS[name]()
