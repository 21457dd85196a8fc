"""Motions that make a robot show its parameters: trajectories t -> q, v, a, and their design."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bodysense.lazy import import_on_use

if TYPE_CHECKING:
    from bodysense.errors import TrajectoryError as TrajectoryError
    from bodysense.excitation.criterion import CRITERIA as CRITERIA
    from bodysense.excitation.criterion import ConditionNumber as ConditionNumber
    from bodysense.excitation.criterion import Criterion as Criterion
    from bodysense.excitation.criterion import Determinant as Determinant
    from bodysense.excitation.criterion import Precision as Precision
    from bodysense.excitation.design import Design as Design
    from bodysense.excitation.design import design_motion as design_motion
    from bodysense.excitation.fourier import FourierTrajectory as FourierTrajectory
    from bodysense.excitation.fourier import MotionBounds as MotionBounds
    from bodysense.excitation.limits import LimitUse as LimitUse
    from bodysense.excitation.limits import MotionLimits as MotionLimits
    from bodysense.excitation.limits import limit_breaches as limit_breaches
    from bodysense.excitation.poses import PoseDesign as PoseDesign
    from bodysense.excitation.poses import design_poses as design_poses
    from bodysense.excitation.search import Progress as Progress
    from bodysense.excitation.trajectory import HoldTrajectory as HoldTrajectory
    from bodysense.excitation.trajectory import SampledTrajectory as SampledTrajectory
    from bodysense.excitation.trajectory import SplineTrajectory as SplineTrajectory
    from bodysense.excitation.trajectory import Trajectory as Trajectory
    from bodysense.excitation.trajectory_file import read_trajectory as read_trajectory
    from bodysense.excitation.trajectory_file import write_trajectory as write_trajectory

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

__all__ = sorted(_HOMES)
__getattr__, __dir__ = import_on_use(__name__, _HOMES)
