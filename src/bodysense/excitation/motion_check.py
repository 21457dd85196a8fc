"""The final check of designed motions, far finer than the search, and their repair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bodysense.excitation.limits import LimitUse, MotionLimits, limit_uses
from bodysense.excitation.motion_problem import MotionProblem
from bodysense.excitation.trajectory import Trajectory
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.collisions import Closest, Collisions
from bodysense.robot.shapes.workspace import WorkspaceMargins
from bodysense.spatial.arrays import Array

_STEPS = 60
_SHRINK = 0.995
_SPARE = 1e-4
"""Share of a limit that stays unused: peaks lie between the samples, and other rates meet them."""


@dataclass(frozen=True)
class Checked:
    """What a check found.

    Attributes:
        kept: whether all limits are kept.
        uses: greatest use of every limit of every joint.
        closest: where bodies come closest, None if they were not looked at.
        closest_time: when [s], and in which trajectory.
        workspace_margin: least distance to a wall [m], infinite without any.
    """

    kept: bool
    uses: tuple[LimitUse, ...]
    closest: Closest | None
    closest_time: tuple[float, int]
    workspace_margin: float

    def broken(self) -> str:
        """What is broken, in words."""
        parts = [str(use) for use in self.uses if not use.ratio <= 1.0 - _SPARE]
        if self.closest is not None and self.closest.room < 0.0:
            parts.append(self.closest.summary())
        if self.workspace_margin < 0.0:
            parts.append(f"{-1e3 * self.workspace_margin:.1f} mm outside the workspace")
        return "; ".join(parts)


@dataclass(frozen=True, eq=False)
class Check:
    """All limits at a rate [Hz]: of joints, torques, collisions, workspace."""

    robot: Robot
    limits: MotionLimits
    collisions: Collisions | None
    margins: WorkspaceMargins | None
    rate: float

    def of(self, trajectories: Sequence[Trajectory]) -> Checked:
        """Look at every sample of some motions."""
        uses = limit_uses(self.robot, self.limits, trajectories, self.rate)
        kept = all(use.ratio <= 1.0 - _SPARE for use in uses)
        closest, when, margin = None, (0.0, 0), np.inf
        for index, trajectory in enumerate(trajectories):
            t, q, _, _ = trajectory.sample(self.rate)
            result = self.collisions.closest(q) if self.collisions is not None else None
            if result is not None and (closest is None or result.room < closest.room):
                closest, when = result, (float(t[result.sample]), index)
            if self.margins is not None and self.margins.parts:
                margin = min(margin, float(self.margins.margins(q).min()))
        if closest is not None:
            kept = kept and closest.room >= 0.0
        return Checked(kept and margin >= 0.0, uses, closest, when, margin)

    def repaired(
        self, problem: MotionProblem, x: Array
    ) -> tuple[tuple[Trajectory, ...], Checked, float]:
        """The motions of x, shrunk about their centre until they keep all limits.

        Between the samples of the search a motion may leave a limit by a little. Joints that leave
        limits of their own are shrunk alone, for torques and clearances all are. Returns the
        motions, what the check found, and the smallest scale.
        """
        first = int(not problem.family.anchored)
        scale = np.ones(problem.moving.size)
        place = {self.robot.joint_names[j]: k for k, j in enumerate(problem.moving)}
        for step in range(1, _STEPS + 1):
            shrunk = x.copy()
            shrunk[:, :, first:] *= scale[:, np.newaxis]
            motions = problem.motions(shrunk)
            uses = limit_uses(self.robot, self.limits, motions, self.rate)
            broken = [use for use in uses if use.ratio > 1.0 - _SPARE]
            if not broken:
                checked = self.of(motions)
                if checked.kept:
                    return motions, checked, float(scale.min())
                scale *= _SHRINK
            for use in broken:
                own = place.get(use.joint) if use.quantity != "torque" else None
                # More each time: about a centre near a limit, a position shrinks by little.
                by = max(1.0 - step * (use.ratio - 1.0 + _SPARE) - 1e-6, 0.95)
                if own is None:
                    scale *= min(by, 0.999)
                else:
                    scale[own] *= by
        return motions, self.of(motions), float(scale.min())
