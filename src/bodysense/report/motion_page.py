"""The report of a motion: facts, curves over time, and the robot moving.

`write_rollout_page` shows a simulated run, `write_motion_page` any motion.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.excitation.trajectory import Trajectory
from bodysense.logs.filtering import Stretches, drawable
from bodysense.report.figures import TracePool, float_bytes, stick_figure
from bodysense.report.page import Section, write_page
from bodysense.robot.robot import Robot, require_robot
from bodysense.simulation.rollout import Rollout
from bodysense.spatial.arrays import Array, as_array

# What keeps the page below a megabyte, whatever the length of the recording: a point of a curve
# takes 2.7 bytes, a coordinate of the animation about 5.
_POINTS_PER_CURVE = 1000
_POINTS_IN_ALL = 150_000
_FRAMES = 600
_BODY_POSITIONS_IN_ALL = 12_000
_POSITION_STEPS = 1000  # of the radius of the scene

# Light and dark variants; neighbours differ in hue and in lightness.
_COLOURS = (
    ("#1f6fd6", "#5aa2ff"),
    ("#d9541e", "#ff8a57"),
    ("#128a5b", "#3ecf95"),
    ("#8b3fc4", "#c08bf0"),
    ("#b8860b", "#e8bd4a"),
    ("#0f8fa8", "#45cbe2"),
    ("#c2306f", "#f57fb0"),
    ("#5b6472", "#a9b3c1"),
    ("#6b8e1f", "#a9d04e"),
    ("#8a4b2a", "#d19a78"),
)


def write_motion_page(
    path: str | os.PathLike[str],
    *,
    title: str,
    facts: Mapping[str, str],
    t: ArrayLike,
    series: Mapping[str, Mapping[str, ArrayLike]],
    references: Mapping[str, Mapping[str, ArrayLike]] | None = None,
    bodies: ArrayLike | None = None,
    parents: Sequence[int] | None = None,
) -> Path:
    """Write the page and return its path.

    Args:
        path: the HTML file to write; its folder must exist.
        title: heading of the page.
        facts: what the table beside the animation says, in this order.
        t: (n_t,) time [s], increasing.
        series: one chart for each quantity, named with its unit, e.g. "torque [N m]", holding
            one curve (n_t,) for each name, e.g. of a joint. The same name has the same colour
            in all charts. Where a value is not finite the curve has a gap.
        references: curves to draw dashed under those of the same quantity and name, e.g. what
            was commanded where `series` holds what was measured.
        bodies: (n_frames, n_bodies, 3) positions of the joints' origins in the world [m], z up.
            The frames are those at `t` if there are as many, else evenly spaced from the first
            to the last time.
        parents: (n_bodies,) index of the body that each hangs on, -1 for a base.

    Raises:
        ShapeError: arrays that do not fit together.
        UnknownNameError: a reference to a curve that is not there.
    """
    times = as_array(t, (None,), "t")
    if times.size < 2 or not (np.diff(times) > 0.0).all():
        raise ShapeError(
            f"t holds {times.size} times, which must be at least 2 and increase: sort the samples "
            "and drop repeated ones."
        )
    references = references or {}
    _check_references(series, references)
    n_curves = sum(map(len, series.values())) + sum(map(len, references.values()))
    most = min(_POINTS_PER_CURVE, max(_POINTS_IN_ALL // max(n_curves, 1), 2))
    stretches, pool = Stretches.of([times.size], most), TracePool()

    def trace(quantity: str, name: str, curve: ArrayLike) -> int:
        y = _values(curve, times, quantity, name)
        return pool.add(stretches.values([y[:, None]])[:, 0])

    # Keys keep the order of first appearance; a set would not.
    colours = {name: 0 for curves in series.values() for name in curves}
    colours = {name: k for k, name in enumerate(colours)}
    charts = [
        {
            "title": quantity,
            "curves": [
                {
                    "name": name,
                    "colour": colours[name],
                    "trace": trace(quantity, name, curve),
                    "reference": trace(quantity, name, references[quantity][name])
                    if name in references.get(quantity, {})
                    else None,
                }
                for name, curve in curves.items()
            ],
        }
        for quantity, curves in series.items()
    ]
    scene = _scene(times, bodies, parents)
    return write_page(
        path,
        "motion",
        title=title,
        kicker="Motion",
        sections={"motion": "Motion", "curves": "Curves"},
        style=_colour_rules(len(colours)),
        facts=facts,
        charts=charts,
        animated=scene is not None,
        data={
            "start": float(times[0]),
            "end": float(times[-1]),
            "time": float_bytes(stretches.times([times - times[0]])),
            "charts": charts,
            "traces": pool.traces,
            "scene": scene,
        },
    )


def _check_references(
    series: Mapping[str, Mapping[str, ArrayLike]],
    references: Mapping[str, Mapping[str, ArrayLike]],
) -> None:
    for quantity, curves in references.items():
        if quantity not in series:
            raise unknown_name("quantity", quantity, series, "Give its curves in `series`.")
        for name in curves:
            if name not in series[quantity]:
                raise unknown_name(f"curve of {quantity!r}", name, series[quantity])


def _values(curve: ArrayLike, t: Array, quantity: str, name: str) -> Array:
    """The curve (n_t,), NaN where it cannot be drawn."""
    try:
        y = np.array(curve, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{quantity!r}, {name!r} must be an array of numbers: {error}") from error
    if y.shape != t.shape:
        raise ShapeError(
            f"{quantity!r}, {name!r} has shape {y.shape}: give one value for each of the {t.size} "
            "times in t."
        )
    return drawable(y)


def _colour_rules(n: int) -> str:
    """Style of the classes ``c0`` … of `n` curves, light and dark."""
    colours = [_colour(k) for k in range(n)]
    light = "".join(f".c{k} {{ --colour: {colour}; }}\n" for k, (colour, _) in enumerate(colours))
    dark = "".join(f".c{k} {{ --colour: {colour}; }}\n" for k, (_, colour) in enumerate(colours))
    return f"{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _colour(k: int) -> tuple[str, str]:
    """The k-th colour on light and on dark ground."""
    if k < len(_COLOURS):
        return _COLOURS[k]
    hue = round(k * 137.508) % 360  # the golden angle: no two hues come close for long
    return f"hsl({hue} 65% 40%)", f"hsl({hue} 70% 68%)"


def _scene(t: Array, bodies: ArrayLike | None, parents: Sequence[int] | None) -> Section | None:
    """What the animation needs: few frames, positions as whole numbers."""
    if bodies is None and parents is None:
        return None
    if bodies is None or parents is None:
        raise ShapeError("bodies and parents belong together: give both, or neither.")
    positions = as_array(bodies, (None, None, 3), "bodies")
    n_frames, n_bodies, _ = positions.shape
    if n_frames == 0 or n_bodies == 0:
        raise ShapeError(f"bodies has shape {positions.shape}: leave it out if there are none.")
    tree = _tree(parents, n_bodies)
    frame_times = t if n_frames == t.size else np.linspace(t[0], t[-1], n_frames)
    n_kept = min(n_frames, _FRAMES, max(_BODY_POSITIONS_IN_ALL // n_bodies, 2))
    keep = np.linspace(0, n_frames - 1, n_kept).round().astype(np.intp)
    lowest, highest = positions.min(axis=(0, 1)), positions.max(axis=(0, 1))
    centre = 0.5 * lowest + 0.5 * highest
    radius = float(np.linalg.norm(positions - centre, axis=2).max()) or 1.0
    scaled = (positions[keep] - centre) * (_POSITION_STEPS / radius)
    return {
        "times": [round(time, 4) for time in frame_times[keep].tolist()],
        "positions": scaled.round().astype(np.int64).ravel().tolist(),
        "steps": _POSITION_STEPS,
        "parents": tree,
        "centre": centre.tolist(),
        "radius": radius,
    }


def _tree(parents: Sequence[int], n_bodies: int) -> list[int]:
    tree = [int(parent) for parent in parents]
    if len(tree) != n_bodies or not all(
        -1 <= parent < n_bodies and parent != k for k, parent in enumerate(tree)
    ):
        raise ShapeError(
            f"parents is {tree}: give for each of the {n_bodies} bodies the index of another one, "
            "or -1 for a base."
        )
    return tree


def write_rollout_page(
    path: str | os.PathLike[str],
    robot: Robot,
    rollout: Rollout,
    trajectory: Trajectory,
    *,
    run: int = 0,
    title: str | None = None,
    facts: Mapping[str, str] | None = None,
) -> Path:
    """Write an HTML page with one run: stick figure, positions, velocities, torques, error.

    The reference `trajectory` is drawn dashed; `facts` are rows beside the animation.
    """
    require_robot(robot)
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
