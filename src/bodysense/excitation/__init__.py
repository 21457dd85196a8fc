"""Motions that make a robot show its parameters: trajectories t -> q, v, a, and their design."""

from __future__ import annotations

from bodysense.errors import TrajectoryError
from bodysense.excitation.criterion import (
    CRITERIA,
    ConditionNumber,
    Criterion,
    Determinant,
    Precision,
)
from bodysense.excitation.design import Design, design_motion
from bodysense.excitation.fourier import FourierTrajectory, MotionBounds
from bodysense.excitation.limits import LimitBreach, LimitUse, MotionLimits, limit_breaches
from bodysense.excitation.poses import PoseDesign, design_poses
from bodysense.excitation.search import Progress
from bodysense.excitation.trajectory import (
    HoldTrajectory,
    SampledTrajectory,
    SplineTrajectory,
    Trajectory,
)
from bodysense.excitation.trajectory_file import read_trajectory, write_trajectory

__all__ = [
    "CRITERIA",
    "ConditionNumber",
    "Criterion",
    "Design",
    "Determinant",
    "FourierTrajectory",
    "HoldTrajectory",
    "LimitBreach",
    "LimitUse",
    "MotionBounds",
    "MotionLimits",
    "PoseDesign",
    "Precision",
    "Progress",
    "SampledTrajectory",
    "SplineTrajectory",
    "Trajectory",
    "TrajectoryError",
    "design_motion",
    "design_poses",
    "limit_breaches",
    "read_trajectory",
    "write_trajectory",
]
