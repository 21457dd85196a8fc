"""Trajectories in files: a table of times and joint positions, as a log has them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from os import PathLike, fspath
from pathlib import Path

import numpy as np

from bodysense.errors import MismatchError, TrajectoryError
from bodysense.excitation.trajectory import SampledTrajectory, Trajectory
from bodysense.signals.layout import LogLayout
from bodysense.signals.log import Log
from bodysense.signals.raw_log import RawLog

_LINEAR = {"q": "m", "v": "m/s", "a": "m/s²"}


def read_trajectory(
    path: str | PathLike[str],
    joint_names: Sequence[str],
    *,
    layout: LogLayout | str | PathLike[str] | None = None,
    at_rest: bool = True,
) -> SampledTrajectory:
    """Read a motion through the points of a file: column ``t``, and ``q.<joint>`` for each joint.

    Any log that `bodysense.signals.read.read_log` reads will do, degrees marked as such
    (``q.elbow [deg]``) included. The order of the columns does not matter, their names do; columns
    of other quantities are left alone.

    Args:
        path: the file.
        joint_names: of the robot that is to move, in its order.
        layout: of a file whose columns do not name themselves, see `read_log`.
        at_rest: start and end at rest; False for a piece that was cut out of a running motion,
            see `SampledTrajectory`.

    Raises:
        MismatchError: joints are missing or too many, as in the file of another robot.
        TrajectoryError: values that are no numbers, times that do not ascend, rows that cannot
            be read.
    """
    from bodysense.signals.read import read_log

    where = fspath(path)
    raw = read_log(path, layout)
    names = [f"q.{name}" for name in joint_names]
    found = [name for name in raw.channels if name.startswith("q.")]
    missing = [name for name in names if name not in found]
    if missing:
        raise MismatchError(
            f"{where} has no column {', '.join(missing)}; it has {', '.join(found) or 'none'} of "
            "that kind. Is it the trajectory of another robot? Otherwise rename its columns to "
            "q.<joint>."
        )
    foreign = [name for name in found if name not in names]
    if foreign:
        raise MismatchError(
            f"{where} also has {', '.join(foreign)}, which the robot has not. Is it the trajectory "
            "of another robot? Otherwise leave these columns out."
        )
    _require_whole(raw, names, where)
    return SampledTrajectory(
        raw.t, np.stack([raw.channels[name] for name in names], axis=1), at_rest=at_rest
    )


def write_trajectory(
    path: str | PathLike[str],
    trajectory: Trajectory,
    joint_names: Sequence[str],
    rate: float,
    *,
    sliding: Collection[str] = (),
) -> Path:
    """Write samples of a motion: columns ``t``, ``q.<joint>``, ``v.<joint>`` and ``a.<joint>``.

    Velocities and accelerations are for robots that take them; `read_trajectory` needs q alone.

    Args:
        path: the file, ``.csv`` or ``.parquet``.
        trajectory: the motion.
        joint_names: one an axis.
        rate: of the samples [Hz]; the end is written too, see `Trajectory.sample_to_end`.
        sliding: those of the joints that slide, whose units are m, m/s and m/s².
    """
    from bodysense.signals.write import write_log

    if len(joint_names) != trajectory.n_axes:
        raise MismatchError(
            f"{len(joint_names)} joint names ({', '.join(joint_names)}) for a trajectory of "
            f"{trajectory.n_axes} axes: give one an axis."
        )
    t, *motion = trajectory.sample_to_end(rate)
    channels = {
        f"{quantity}.{name}": values[:, k]
        for quantity, values in zip("qva", motion, strict=True)
        for k, name in enumerate(joint_names)
    }
    units = {f"{quantity}.{name}": unit for name in sliding for quantity, unit in _LINEAR.items()}
    return write_log(path, Log.of(t, channels, units))


def _require_whole(raw: RawLog, names: Sequence[str], where: str) -> None:
    """Refuse what a robot cannot follow, with the row of the file at which it is."""
    if raw.faults:
        fault = raw.faults[0]
        raise TrajectoryError(
            f"{where}, row {fault.row}: {fault.reason} ({len(raw.faults)} such rows): a motion "
            "needs every row, correct them or cut them off."
        )
    for name, values in (("t", raw.t), *((name, raw.channels[name]) for name in names)):
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise TrajectoryError(
                f"{where}, row {raw.rows[bad[0]]}: {name} is {values[bad[0]]} ({bad.size} such "
                "values): fill them in or leave these rows out."
            )
    back = np.flatnonzero(~(np.diff(raw.t) > 0.0))
    if back.size:
        k = int(back[0])
        raise TrajectoryError(
            f"{where}, row {raw.rows[k + 1]}: t = {raw.t[k + 1]:g} s after {raw.t[k]:g} s "
            f"({back.size} such rows): sort the rows by time and drop repeated ones."
        )
