"""Motions that make a robot show its parameters: trajectories t -> q, v, a."""

from __future__ import annotations

from bodysense.errors import TrajectoryError
from bodysense.excitation.fourier import FourierTrajectory, MotionBounds
from bodysense.excitation.limits import LimitBreach, limit_breaches
from bodysense.excitation.trajectory import HoldTrajectory, SampledTrajectory, Trajectory
from bodysense.excitation.trajectory_file import read_trajectory, write_trajectory

__all__ = [
    "FourierTrajectory",
    "HoldTrajectory",
    "LimitBreach",
    "MotionBounds",
    "SampledTrajectory",
    "Trajectory",
    "TrajectoryError",
    "limit_breaches",
    "read_trajectory",
    "write_trajectory",
]
