"""The doctor: looks at a recording before anybody computes with it."""

from bodysense.doctor.diagnosis import Diagnosis, examine, examine_readings, require_clean
from bodysense.doctor.locked_joints import lock_asked, lock_unrecorded
from bodysense.doctor.sensor_check import check_sensors
from bodysense.status import SEVERITIES, Finding, Severity

__all__ = [
    "SEVERITIES",
    "Diagnosis",
    "Finding",
    "Severity",
    "check_sensors",
    "examine",
    "examine_readings",
    "lock_asked",
    "lock_unrecorded",
    "require_clean",
]
