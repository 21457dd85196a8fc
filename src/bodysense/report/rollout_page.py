"""A page that shows a simulated run: the robot in motion, and its curves."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import numpy as np
import pinocchio as pin

from bodysense.errors import MismatchError, ShapeError
from bodysense.excitation.trajectory import Trajectory
from bodysense.report.motion_page import write_motion_page
from bodysense.robot.robot import Robot
from bodysense.simulation.rollout import Rollout
from bodysense.spatial.arrays import Array

_FRAMES = 600  # of the animation


def write_rollout_page(
    path: str | PathLike[str],
    robot: Robot,
    rollout: Rollout,
    trajectory: Trajectory,
    *,
    run: int = 0,
    title: str | None = None,
    facts: Mapping[str, str] | None = None,
) -> Path:
    """Write an HTML page with one run: stick figure, positions, velocities, torques, error.

    Args:
        path: the file to write.
        robot: that moved.
        rollout: what `bodysense.rollout` returned.
        trajectory: the reference, drawn dashed.
        run: which of the runs.
        title: of the page.
        facts: rows of the table beside the animation.
    """
    if rollout.joint_names != robot.joint_names or trajectory.n_axes != robot.n_joints:
        raise MismatchError(
            f"the run has joints {', '.join(rollout.joint_names)} and the trajectory "
            f"{trajectory.n_axes} axes: they belong to another robot than {robot.name!r}."
        )
    if not 0 <= run < rollout.n_runs:
        raise ShapeError(f"run is {run}: there are {rollout.n_runs}, counted from 0.")
    q_reference, v_reference, _ = trajectory(rollout.t)
    q = rollout.q[run]
    known = int(np.isfinite(q).all(axis=1).sum())  # a lost run ends in NaN: the figure stands
    shown = np.unique(np.linspace(0, len(q) - 1, min(len(q), _FRAMES)).astype(int))
    bodies = parents = None
    if known:
        bodies, parents = stick_figure(robot, q[np.minimum(shown, known - 1)])
    unit = "rad" if "prismatic" not in robot.joint_types else "rad, m"
    effort = "N·m" if unit == "rad" else "N·m, N"

    def by_joint(values: Array) -> dict[str, Array]:
        return dict(zip(rollout.joint_names, values.T, strict=True))

    return write_motion_page(
        path,
        title=title if title is not None else f"{robot.name} in closed loop",
        facts={"robot": robot.summary(), "runs": rollout.summary(), **(facts or {})},
        t=rollout.t,
        series={
            f"position [{unit}]": by_joint(q),
            f"velocity [{unit.replace(',', '/s,')}/s]": by_joint(rollout.v[run]),
            f"torque [{effort}]": by_joint(rollout.tau[run]),
            f"tracking error [{unit}]": by_joint(q - q_reference),
        },
        references={
            f"position [{unit}]": by_joint(q_reference),
            f"velocity [{unit.replace(',', '/s,')}/s]": by_joint(v_reference),
        },
        bodies=bodies,
        parents=parents,
    )


def stick_figure(robot: Robot, q: Array) -> tuple[Array, list[int]]:
    """Points of a robot (n_t, n_points, 3) and the point before each: origin, joints, tips.

    A last link has no joint at its end: it is drawn to its centre of mass.
    """
    model, data = robot.model, robot.model.createData()
    parents = [-1, *(int(parent) for parent in model.parents[1:])]
    tips = [joint for joint in range(1, model.njoints) if joint not in parents]
    points = np.zeros((len(q), model.njoints + len(tips), 3))
    for k, q_k in enumerate(q):
        pin.forwardKinematics(model, data, q_k)
        points[k, : model.njoints] = [pose.translation for pose in data.oMi]
        points[k, model.njoints :] = [data.oMi[i].act(model.inertias[i].lever) for i in tips]
    return points, parents + tips
