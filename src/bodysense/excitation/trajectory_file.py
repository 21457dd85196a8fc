"""Motions in files: tables as a log has them, messages of ROS 2, and designs that are kept."""

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
from bodysense.files import plain, read_json, save_result, write_atomically
from bodysense.logs.layout import LogLayout
from bodysense.logs.log import Log
from bodysense.logs.read import read_log
from bodysense.logs.write import write_log
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.layout import ParameterLayout
from bodysense.spatial.arrays import Array, as_array

_TABLES, _MESSAGES = (".csv", ".parquet"), (".yaml", ".yml")
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
    """Write samples of a motion by the suffix: a table, or a ROS 2 message.

    A table has columns ``t``, ``q.<joint>``, ``v.<joint>`` and ``a.<joint>``. Velocities and
    accelerations are for robots that take them; `read_trajectory` needs q alone.

    A message is a ``trajectory_msgs/msg/JointTrajectory`` of ROS 2 in YAML: ``joint_names``, and
    ``points`` with positions, velocities, accelerations and ``time_from_start`` in seconds and
    nanoseconds, as ``ros2 topic pub`` and controllers take it, which draw quintic splines between
    such points. ROS itself is not needed.

    Args:
        path: the file: ``.csv`` or ``.parquet`` for a table, ``.yaml`` for a message.
        trajectory: the motion, of joints that turn [rad] or slide [m].
        joint_names: one per axis.
        rate: of the samples [Hz]; the end is written too, see `Trajectory.sample_to_end`.
        sliding: those of the joints that slide, whose units are m, m/s and m/s²; a message has no
            units.

    Raises:
        FileWriteError: another suffix, or the system refuses.
        MismatchError: not as many names as axes.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (*_TABLES, *_MESSAGES):
        known = ", ".join((*_TABLES, *_MESSAGES))
        raise FileWriteError(f"cannot write {path}: a motion is written as {known}; name it so.")
    _require_one_per_axis(joint_names, trajectory.n_axes)
    t, *motion = trajectory.sample_to_end(rate)
    if suffix in _MESSAGES:
        return write_atomically(path, _message(t, motion, joint_names))
    channels = {
        f"{quantity}.{name}": values[:, k]
        for quantity, values in zip("qva", motion, strict=True)
        for k, name in enumerate(joint_names)
    }
    units = {f"{quantity}.{name}": unit for name in sliding for quantity, unit in _LINEAR.items()}
    return write_log(path, Log.of(t, channels, units))


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
    _require_one_per_axis(joint_names, poses.shape[1])
    channels = {f"q.{name}": poses[:, k] for k, name in enumerate(joint_names)}
    units = {f"q.{name}": "m" for name in sliding}
    return write_log(path, Log.of(np.arange(poses.shape[0], dtype=np.float64), channels, units))


def _require_one_per_axis(joint_names: Sequence[str], n_axes: int) -> None:
    if len(joint_names) != n_axes:
        raise MismatchError(
            f"{len(joint_names)} joint names ({', '.join(joint_names)}) for {n_axes} axes: give "
            "one per axis."
        )


def _message(t: Array, motion: Sequence[Array], joint_names: Sequence[str]) -> str:
    # Quoted, so that YAML takes a name for nothing else.
    names = ", ".join(json.dumps(name, ensure_ascii=False) for name in joint_names)
    lines = [f"joint_names: [{names}]", "points:"]
    for k, ns in enumerate(np.rint(1e9 * t).astype(np.int64).tolist()):
        q, v, a = (", ".join(map(_number, values[k].tolist())) for values in motion)
        lines += [
            f"- positions: [{q}]",
            f"  velocities: [{v}]",
            f"  accelerations: [{a}]",
            f"  time_from_start: {{sec: {ns // 10**9}, nanosec: {ns % 10**9}}}",
        ]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """A number that YAML reads as such, to the last bit: it wants a point in 1.0e-05."""
    text = repr(value)
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}.0e{exponent}" if mark and "." not in mantissa else text


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


# Designs in files: figures, base parameters, and motions by their coefficients.

_BASE = ("independent", "dependent", "K", "gap", "new")
_MOTIONS = {"fourier": ("a", "b", "q0", "duration"), "spline": ("points", "duration")}


def save_design(
    design: Any,
    folder: str | PathLike[str],
    name: str,
    figures: Sequence[str],
    words: Sequence[str],
    motions: Sequence[Trajectory] = (),
    **arrays: Array,
) -> None:
    """Write a dataclass with base parameters as ``name.npz`` and ``name.json``.

    The `figures` are fields of numbers, stored as arrays because JSON knows no infinity, the
    `words` fields that go to JSON; motions are stored by their coefficients, and `FileWriteError`
    is raised for one that has none.
    """
    families = [_family(motion) for motion in motions]
    for k, (motion, family) in enumerate(zip(motions, families, strict=True)):
        arrays |= {f"motion{k}_{x}": np.asarray(getattr(motion, x)) for x in _MOTIONS[family]}
    arrays |= {x: np.asarray(getattr(design.base, x)) for x in _BASE}
    arrays |= {x: np.asarray(getattr(design, x)) for x in figures}
    about = {x: plain(getattr(design, x)) for x in words}
    layout = design.base.layout
    about["families"] = families
    about["layout"] = {
        "links": layout.link_names,
        "joints": layout.joint_names,
        "friction": layout.friction_terms,
        "coupled": layout.coupled,
        "floating_base": layout.floating_base,
    }
    save_result(design, folder, name, about, arrays)


def design_arrays(path: Path) -> list[str]:
    """Names of the arrays of base parameters and motions that belong to a JSON file."""
    families = read_json(path, ()).get("families", [])
    if not isinstance(families, list) or any(family not in [*_MOTIONS] for family in families):
        raise FileReadError(f"{path} has motions of families {families}: save the result again.")
    motions = [f"motion{k}_{x}" for k, family in enumerate(families) for x in _MOTIONS[family]]
    return [*_BASE, *motions]


def stored_motions(stored: Mapping[str, Any]) -> tuple[Trajectory, ...]:
    """The motions among what `save_design` wrote."""
    result: list[Trajectory] = []
    for k, family in enumerate(stored["families"]):
        parts = {x: stored[f"motion{k}_{x}"] for x in _MOTIONS[family]}
        duration = float(parts.pop("duration"))
        if family == "fourier":
            result.append(FourierTrajectory(duration, **parts))
        else:
            result.append(SplineTrajectory(duration, **parts))
    return tuple(result)


def _family(motion: Trajectory) -> str:
    if isinstance(motion, FourierTrajectory):
        return "fourier"
    if isinstance(motion, SplineTrajectory):
        return "spline"
    raise FileWriteError(
        f"cannot save a {type(motion).__name__}: Fourier series and splines have coefficients; "
        "write others with write_trajectory."
    )


def stored_base(stored: Mapping[str, Any]) -> BaseParameters:
    """The base parameters among what `save_design` wrote."""
    words = stored["layout"]
    layout = ParameterLayout(
        tuple(words["links"]),
        tuple(words["joints"]),
        tuple(words["friction"]),
        tuple((str(term), int(motor)) for term, motor in words["coupled"]),
        bool(words["floating_base"]),
    )
    independent, dependent = (stored[x].astype(np.int64) for x in ("independent", "dependent"))
    return BaseParameters(
        layout, independent, dependent, stored["K"], float(stored["gap"]), stored["new"]
    )
