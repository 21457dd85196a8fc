"""Reports: pages that stand on their own, to be opened in any browser and mailed around."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bodysense.lazy import import_on_use

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

_HOMES = {
    "write_estimation_page": "report.estimation_page",
    "write_excitation_page": "report.excitation_page",
    "write_gains_page": "report.load_page",
    "write_identification_page": "report.identification_page",
    "write_motion_page": "report.motion_page",
    "write_payload_page": "report.load_page",
    "write_rollout_page": "report.motion_page",
}
"""Module of each name, imported when first used: no page loads what another one needs."""

__getattr__, __dir__ = import_on_use(__name__, _HOMES)
