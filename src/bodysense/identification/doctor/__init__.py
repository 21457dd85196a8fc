"""The doctor: looks at a recording before anybody computes with it."""

from bodysense.identification.doctor.diagnosis import Diagnosis, Finding, Severity
from bodysense.identification.doctor.examine import examine

__all__ = ["Diagnosis", "Finding", "Severity", "examine"]
