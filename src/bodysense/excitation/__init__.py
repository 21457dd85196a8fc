"""Motions that make a robot show its parameters: trajectories t -> q, v, a."""

from __future__ import annotations

from bodysense.errors import TrajectoryError
from bodysense.excitation.fourier import FourierTrajectory, MotionBounds
from bodysense.excitation.trajectory import HoldTrajectory, SampledTrajectory, Trajectory

__all__ = [
    "FourierTrajectory",
    "HoldTrajectory",
    "MotionBounds",
    "SampledTrajectory",
    "Trajectory",
    "TrajectoryError",
]
