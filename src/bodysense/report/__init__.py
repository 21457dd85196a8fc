"""Reports: pages that stand on their own, to be opened in any browser and mailed around."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bodysense.report.estimation_page import write_estimation_page
    from bodysense.report.excitation_page import write_excitation_page
    from bodysense.report.identification_page import write_identification_page
    from bodysense.report.load_page import write_gains_page, write_payload_page
    from bodysense.report.motion_page import write_motion_page, write_rollout_page

__all__ = [
    "write_estimation_page",
    "write_excitation_page",
    "write_gains_page",
    "write_identification_page",
    "write_motion_page",
    "write_payload_page",
    "write_rollout_page",
]


_SHARED = {
    "write_gains_page": "load_page",
    "write_payload_page": "load_page",
    "write_rollout_page": "motion_page",
}


def __getattr__(name: str) -> Any:
    """Import a page when it is first asked for: no report loads what another one needs."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    stem = _SHARED.get(name, name.removeprefix("write_"))
    return getattr(importlib.import_module(f"{__name__}.{stem}"), name)
