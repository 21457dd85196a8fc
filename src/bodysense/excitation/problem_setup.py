"""From what a caller asks for to the problem that a search solves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import TrajectoryError
from bodysense.excitation.criterion import Criterion, criterion_of
from bodysense.excitation.limits import CollisionClearance, MotionLimits, WorkspaceClearance
from bodysense.excitation.motion_family import motion_family
from bodysense.excitation.motion_problem import Clearance, MotionProblem
from bodysense.excitation.motion_setup import (
    checked_start,
    free_poses,
    moving_base_parameters,
    moving_joints,
    with_smooth_friction,
)
from bodysense.excitation.precision import base_sizes, plausible_sizes, torque_noise
from bodysense.excitation.trajectory import positive
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.collisions import Collisions
from bodysense.robot.shapes.link_shapes import link_hulls
from bodysense.robot.shapes.workspace import Workspace, WorkspaceMargins
from bodysense.spatial.arrays import Array, as_array

Telling = Callable[[Robot, BaseParameters, Array], Array]
"""What is recorded already: from the robot, the base parameters of the design and the noise
(n_joints,) to R (b, b) with RᵀR its information."""


@dataclass(frozen=True, eq=False)
class ProblemSetup:
    """A problem and what belongs to it.

    Attributes:
        problem: what to minimise.
        centres: (n, n_joints) poses to start around, free of collisions and holdable.
        sizes: (b,) plausible sizes of the base parameters.
        margins: to the walls of the workspace, None without any.
        notes: what was decided, in words.
    """

    problem: MotionProblem
    centres: Array
    sizes: Array
    margins: WorkspaceMargins | None
    notes: tuple[str, ...]


def motion_problem_of(
    robot: Robot,
    *,
    family: str = "fourier",
    criterion: str | Criterion = "d-optimal",
    duration: float = 10.0,
    harmonics: int | None = None,
    knots: int | None = None,
    limits: MotionLimits | None = None,
    collisions: Collisions | None = None,
    workspace: Workspace | WorkspaceMargins | None = None,
    joints: Sequence[str] | None = None,
    start: ArrayLike | None = None,
    trajectories: int = 1,
    known: ArrayLike | Telling | None = None,
    noise: ArrayLike | None = None,
    friction: str | None = None,
    rate: float = 1000.0,
) -> ProblemSetup:
    """Set up the problem of `design_motion`, whose arguments these are.

    Raises:
        TrajectoryError: the limits exclude every such motion; the message says why.
        UnknownNameError: a joint, criterion, family or parameter that does not exist.
    """
    moving, notes = moving_joints(robot, joints)
    limits = MotionLimits.of(robot) if limits is None else limits
    limits.require_room(robot.joint_names, moving.tolist())
    rate = positive(rate, "rate", "Hz")
    if trajectories < 1:
        raise TrajectoryError(f"trajectories is {trajectories}: ask for one at least.")
    smooth, more = with_smooth_friction(robot, friction)
    margins = margins_of(robot, workspace)
    if start is None:
        anchor = np.array(limits.middle)
        centres = free_poses(robot, limits, moving, anchor, collisions, margins)
        anchor[moving] = centres[0][moving]
    else:
        anchor = checked_start(robot, limits, moving, start, collisions, margins)
        centres = anchor[np.newaxis]
    chosen = motion_family(family, duration, harmonics, knots, rate, anchored=start is not None)
    base = moving_base_parameters(smooth, moving, anchor)
    sizes = base_sizes(
        base, plausible_sizes(smooth, limits.effort, limits.velocity, limits.acceleration)
    )
    sigma = torque_noise(robot, limits.effort, noise)
    problem = MotionProblem(
        smooth,
        moving,
        base,
        chosen,
        anchor,
        limits,
        sigma,
        criterion_of(criterion).measure(base, sizes),
        _information(known(smooth, base, sigma) if callable(known) else known, base),
        trajectories,
        rate,
        _clearances(collisions, margins),
    )
    room_notes = margins.notes if margins is not None else ()
    return ProblemSetup(problem, centres, sizes, margins, (*notes, *more, *room_notes))


def margins_of(
    robot: Robot, workspace: Workspace | WorkspaceMargins | None
) -> WorkspaceMargins | None:
    """The margins of a robot to the walls of a workspace, of its own shapes unless given."""
    if isinstance(workspace, Workspace):
        return workspace.around(robot, link_hulls(robot))
    return workspace


def _clearances(
    collisions: Collisions | None, margins: WorkspaceMargins | None
) -> tuple[Clearance, ...]:
    result: list[Clearance] = []
    if collisions is not None:
        result.append(CollisionClearance(collisions))
    if margins is not None and margins.parts:
        result.append(WorkspaceClearance(margins))
    return tuple(result)


def _information(known: ArrayLike | None, base: BaseParameters) -> Array:
    """(b, b) RᵀR of what is known."""
    if known is None:
        return np.zeros((base.size, base.size))
    R = as_array(known, (base.size, base.size), "known")
    return np.asarray(R.T @ R)
