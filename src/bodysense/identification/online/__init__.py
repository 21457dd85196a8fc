"""Identification while the robot moves: one sample after the other, at a fixed cost each."""

from bodysense.identification.online.online_identifier import OnlineIdentifier, Sample
from bodysense.identification.online.recursive_least_squares import (
    RecursiveLeastSquares,
    RecursiveState,
)

__all__ = ["OnlineIdentifier", "RecursiveLeastSquares", "RecursiveState", "Sample"]
