"""Motions that make a robot show its parameters: trajectories t -> q, v, a."""

from __future__ import annotations

from bodysense.excitation.fourier import FourierTrajectory, MotionBounds
from bodysense.excitation.trajectory import (
    HoldTrajectory,
    SampledTrajectory,
    Trajectory,
    TrajectoryError,
)

__all__ = [
    "FourierTrajectory",
    "HoldTrajectory",
    "MotionBounds",
    "SampledTrajectory",
    "Trajectory",
    "TrajectoryError",
]
