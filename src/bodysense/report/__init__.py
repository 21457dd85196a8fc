"""Reports: pages that stand on their own, to be opened in any browser and mailed around."""

from __future__ import annotations

from bodysense.report.estimation_page import write_estimation_page
from bodysense.report.excitation_page import write_excitation_page
from bodysense.report.gains_page import write_gains_page
from bodysense.report.identification_page import write_identification_page
from bodysense.report.motion_page import write_motion_page
from bodysense.report.payload_page import write_payload_page
from bodysense.report.rollout_page import write_rollout_page

__all__ = [
    "write_estimation_page",
    "write_excitation_page",
    "write_gains_page",
    "write_identification_page",
    "write_motion_page",
    "write_payload_page",
    "write_rollout_page",
]
