"""Identification while the robot moves: one sample after the other, at a fixed cost each."""

from bodysense.identification.online.recursive_least_squares import (
    OnlineIdentifier,
    RecursiveLeastSquares,
    RecursiveState,
    RegressionSample,
)

__all__ = ["OnlineIdentifier", "RecursiveLeastSquares", "RecursiveState", "RegressionSample"]
