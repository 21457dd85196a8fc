"""Defects of logs that show in the torques: estimated beside the model, and named."""

from bodysense.identification.defects.defect import Defect
from bodysense.identification.defects.find import find_defects

__all__ = ["Defect", "find_defects"]
