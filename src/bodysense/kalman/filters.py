"""The six Kalman filters by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bodysense.errors import unknown_name
from bodysense.kalman.cdkf import CDKF
from bodysense.kalman.ekf import EKF
from bodysense.kalman.srcdkf import SRCDKF
from bodysense.kalman.srekf import SREKF
from bodysense.kalman.srukf import SRUKF
from bodysense.kalman.state_filter import StateFilter
from bodysense.kalman.ukf import UKF

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
