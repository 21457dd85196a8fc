"""Motions that make a robot show its parameters: trajectories t -> q, v, a, and their design."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bodysense.lazy import import_on_use

if TYPE_CHECKING:
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
    from bodysense.excitation.limits import LimitUse, MotionLimits, limit_breaches
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

_HOMES = {
    "CRITERIA": "excitation.criterion",
    "ConditionNumber": "excitation.criterion",
    "Criterion": "excitation.criterion",
    "Design": "excitation.design",
    "Determinant": "excitation.criterion",
    "FourierTrajectory": "excitation.fourier",
    "HoldTrajectory": "excitation.trajectory",
    "LimitUse": "excitation.limits",
    "MotionBounds": "excitation.fourier",
    "MotionLimits": "excitation.limits",
    "PoseDesign": "excitation.poses",
    "Precision": "excitation.criterion",
    "Progress": "excitation.search",
    "SampledTrajectory": "excitation.trajectory",
    "SplineTrajectory": "excitation.trajectory",
    "Trajectory": "excitation.trajectory",
    "TrajectoryError": "errors",
    "design_motion": "excitation.design",
    "design_poses": "excitation.poses",
    "limit_breaches": "excitation.limits",
    "read_trajectory": "excitation.trajectory_file",
    "write_trajectory": "excitation.trajectory_file",
}
"""Module of each name, imported when the name is first used: simulations need no design."""

__getattr__, __dir__ = import_on_use(__name__, _HOMES)
