"""Motions that make a robot show its parameters: trajectories t -> q, v, a, and their design."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

_HOME = {
    "criterion": ("CRITERIA", "ConditionNumber", "Criterion", "Determinant", "Precision"),
    "design": ("Design", "design_motion"),
    "fourier": ("FourierTrajectory", "MotionBounds"),
    "limits": ("LimitUse", "MotionLimits", "limit_breaches"),
    "poses": ("PoseDesign", "design_poses"),
    "search": ("Progress",),
    "trajectory": (
        *("HoldTrajectory", "SampledTrajectory", "SplineTrajectory"),
        *("Trajectory", "TrajectoryError"),
    ),
    "trajectory_file": ("read_trajectory", "write_trajectory"),
}


def __getattr__(name: str) -> Any:
    """Import a module when a name of it is first asked for: simulations need no design."""
    for home, names in _HOME.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
