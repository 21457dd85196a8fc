"""Trajectories in files: a table of times and joint positions, as a log has them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import FileReadError, FileWriteError, MismatchError, TrajectoryError
from bodysense.excitation.fourier import FourierTrajectory
from bodysense.excitation.trajectory import SampledTrajectory, SplineTrajectory, Trajectory
from bodysense.files import write_atomically
from bodysense.logs.layout import LogLayout
from bodysense.logs.log import Log
from bodysense.logs.write import write_log
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.layout import ParameterLayout
from bodysense.spatial.arrays import Array, as_array, read_only

_LINEAR = {"q": "m", "v": "m/s", "a": "m/s²"}


def read_trajectory(
    path: str | PathLike[str],
    joint_names: Sequence[str],
    *,
    layout: LogLayout | str | PathLike[str] | None = None,
    at_rest: bool = True,
) -> SampledTrajectory:
    """Read a motion through the points of a file: column ``t``, and ``q.<joint>`` for each joint.

    Any log that `bodysense.logs.read.read_log` reads will do, degrees marked as such
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
    from bodysense.logs.read import read_log

    where = fspath(path)
    raw = read_log(path, layout)
    names = [f"q.{name}" for name in joint_names]
    result = [name for name in raw.channels if name.startswith("q.")]
    missing = [name for name in names if name not in result]
    if missing:
        raise MismatchError(
            f"{where} has no column {', '.join(missing)}; it has {', '.join(result) or 'none'} of "
            "that kind. Is it the trajectory of another robot? Otherwise rename its columns to "
            "q.<joint>."
        )
    foreign = [name for name in result if name not in names]
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
    from bodysense.logs.write import write_log

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


def _require_whole(raw: Log, names: Sequence[str], where: str) -> None:
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


# Base parameters and trajectories as arrays and plain values, for the files of results.

BASE_ARRAYS = ("independent", "dependent", "K", "gap", "new")
"""Names of what `base_arrays` gives."""


def base_arrays(base: BaseParameters) -> dict[str, Array]:
    """Base parameters but their names."""
    return {name: np.asarray(getattr(base, name)) for name in BASE_ARRAYS}


def layout_words(layout: ParameterLayout) -> dict[str, Any]:
    """The names of all parameters, ready for JSON."""
    return {
        "links": list(layout.link_names),
        "joints": list(layout.joint_names),
        "friction": list(layout.friction_terms),
        "coupled": [list(pair) for pair in layout.coupled],
        "floating_base": layout.floating_base,
    }


def base_of(words: Mapping[str, Any], arrays: Mapping[str, Array]) -> BaseParameters:
    """Base parameters from what `layout_words` and `base_arrays` made."""
    layout = ParameterLayout(
        tuple(words["links"]),
        tuple(words["joints"]),
        tuple(words["friction"]),
        tuple((str(term), int(motor)) for term, motor in words["coupled"]),
        bool(words["floating_base"]),
    )
    return BaseParameters(
        layout,
        arrays["independent"].astype(np.int64),
        arrays["dependent"].astype(np.int64),
        read_only(arrays["K"]),
        float(arrays["gap"]),
        read_only(arrays["new"]),
    )


def trajectory_arrays(trajectories: Sequence[Trajectory]) -> tuple[dict[str, Array], list[str]]:
    """The coefficients of trajectories by name, and their families.

    Raises:
        FileWriteError: a trajectory that has no coefficients.
    """
    arrays: dict[str, Array] = {}
    families = []
    for k, motion in enumerate(trajectories):
        if isinstance(motion, FourierTrajectory):
            families.append("fourier")
            parts = {"a": motion.a, "b": motion.b, "q0": motion.q0}
        elif isinstance(motion, SplineTrajectory):
            families.append("spline")
            parts = {"points": motion.points}
        else:
            raise FileWriteError(
                f"cannot save a {type(motion).__name__}: Fourier series and splines have "
                "coefficients; write others with write_trajectory."
            )
        parts["duration"] = np.array(motion.duration)
        arrays |= {f"motion{k}_{name}": values for name, values in parts.items()}
    return arrays, families


def trajectory_names(families: Sequence[str]) -> list[str]:
    """Names of the arrays that `trajectory_arrays` makes for such families."""
    parts = {"fourier": ("a", "b", "q0", "duration"), "spline": ("points", "duration")}
    return [f"motion{k}_{name}" for k, family in enumerate(families) for name in parts[family]]


def trajectories_of(families: Sequence[str], arrays: Mapping[str, Array]) -> tuple[Trajectory, ...]:
    """Trajectories from their families and what `trajectory_arrays` made."""
    result: list[Trajectory] = []
    for k, family in enumerate(families):
        duration = float(arrays[f"motion{k}_duration"])
        if family == "fourier":
            a, b, q0 = (arrays[f"motion{k}_{name}"] for name in ("a", "b", "q0"))
            result.append(FourierTrajectory(duration, a, b, q0))
        else:
            result.append(SplineTrajectory(duration, arrays[f"motion{k}_points"]))
    return tuple(result)


def damaged(folder: str | PathLike[str], name: str, error: Exception) -> FileReadError:
    """The error for files that can be read and do not make sense."""
    return FileReadError(
        f"{name}.json and {name}.npz in {fspath(folder)} are damaged or do not belong together "
        f"({error!r}): save the result again."
    )


# Designed motions and poses in files: tables, and trajectories as ROS 2 takes them.

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
        joint_names: one per column.
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
