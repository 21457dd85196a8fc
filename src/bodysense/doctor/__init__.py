"""The doctor: looks at a recording before anybody computes with it."""

from bodysense.doctor.diagnosis import Diagnosis, Finding, Severity
from bodysense.doctor.examine import examine, examine_readings, require_clean

__all__ = ["Diagnosis", "Finding", "Severity", "examine", "examine_readings", "require_clean"]
