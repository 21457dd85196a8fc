"""Designed motions and poses in files: tables, and trajectories as ROS 2 takes them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import FileWriteError, MismatchError
from bodysense.excitation.trajectory import Trajectory
from bodysense.excitation.trajectory_file import write_trajectory
from bodysense.files import write_atomically
from bodysense.signals.log import Log
from bodysense.signals.write import write_log
from bodysense.spatial.arrays import Array, as_array

TABLES = (".csv", ".parquet")
MESSAGES = (".yaml", ".yml")
MOTION_SUFFIXES = (*TABLES, *MESSAGES)
"""How names of files end that `write_motion` knows."""


def write_motion(
    path: str | PathLike[str],
    trajectory: Trajectory,
    joint_names: Sequence[str],
    rate: float,
    *,
    sliding: Collection[str] = (),
) -> Path:
    """Write samples of a motion by the suffix: a table, or a ROS 2 message.

    Args:
        path: the file: ``.csv`` or ``.parquet`` (see `write_trajectory`), ``.yaml`` (see
            `write_joint_trajectory`).
        trajectory: the motion.
        joint_names: one an axis.
        rate: of the samples [Hz].
        sliding: those of the joints that slide; a message has no units to tell them by.

    Raises:
        FileWriteError: another suffix, or the system refuses.
        MismatchError: not as many names as axes.
    """
    suffix = Path(path).suffix.lower()
    if suffix in TABLES:
        return write_trajectory(path, trajectory, joint_names, rate, sliding=sliding)
    if suffix in MESSAGES:
        return write_joint_trajectory(path, trajectory, joint_names, rate)
    raise FileWriteError(
        f"cannot write {path}: a motion is written as {', '.join(MOTION_SUFFIXES)}; name it so."
    )


def write_joint_trajectory(
    path: str | PathLike[str], trajectory: Trajectory, joint_names: Sequence[str], rate: float
) -> Path:
    """Write a motion as ``trajectory_msgs/msg/JointTrajectory`` of ROS 2, in YAML.

    It has ``joint_names``, and ``points`` with positions, velocities, accelerations and
    ``time_from_start`` in seconds and nanoseconds, as ``ros2 topic pub`` and controllers take it.
    ROS itself is not needed.

    Args:
        path: the file.
        trajectory: the motion, of joints that turn [rad] or slide [m].
        joint_names: one an axis.
        rate: points per second [Hz]; the end is one too. Controllers draw quintic splines between
            such points.
    """
    _require_one_an_axis(joint_names, trajectory.n_axes)
    t, q, v, a = trajectory.sample_to_end(rate)
    nanoseconds = np.rint(1e9 * t).astype(np.int64)
    names = ", ".join(_quoted(name) for name in joint_names)
    lines = [f"joint_names: [{names}]", "points:"]
    for k, ns in enumerate(nanoseconds.tolist()):
        lines += [
            f"- positions: {_row(q[k])}",
            f"  velocities: {_row(v[k])}",
            f"  accelerations: {_row(a[k])}",
            f"  time_from_start: {{sec: {ns // 10**9}, nanosec: {ns % 10**9}}}",
        ]
    return write_atomically(path, "\n".join(lines) + "\n")


def write_poses(
    path: str | PathLike[str],
    q: ArrayLike,
    joint_names: Sequence[str],
    *,
    sliding: Collection[str] = (),
) -> Path:
    """Write poses as a table: columns ``t`` and ``q.<joint>``, a pose a row.

    The times are the numbers of the poses, from 0: poses have an order, but no times.

    Args:
        path: the file, ``.csv`` or ``.parquet``.
        q: (n, n_joints) poses [rad or m].
        joint_names: one a column.
        sliding: those of the joints that slide.
    """
    poses = as_array(q, (None, None), "q")
    _require_one_an_axis(joint_names, poses.shape[1])
    channels = {f"q.{name}": poses[:, k] for k, name in enumerate(joint_names)}
    units = {f"q.{name}": "m" for name in sliding}
    return write_log(path, Log.of(np.arange(poses.shape[0], dtype=np.float64), channels, units))


def _require_one_an_axis(joint_names: Sequence[str], n_axes: int) -> None:
    if len(joint_names) != n_axes:
        raise MismatchError(
            f"{len(joint_names)} joint names ({', '.join(joint_names)}) for {n_axes} axes: give "
            "one an axis."
        )


def _row(values: Array) -> str:
    """Numbers that YAML reads as such, to the last bit: it wants a point in 1.0e-05."""
    return "[" + ", ".join(_number(value) for value in values.tolist()) + "]"


def _number(value: float) -> str:
    text = repr(value)
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}.0e{exponent}" if mark and "." not in mantissa else text


def _quoted(name: str) -> str:
    """A name as a string that YAML takes for nothing else."""
    return json.dumps(name, ensure_ascii=False)
