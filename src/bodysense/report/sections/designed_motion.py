"""Curves of a designed motion within its limits, and how far bodies stay apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bodysense.excitation.design import Design
from bodysense.excitation.limits import MotionLimits
from bodysense.excitation.trajectory import Trajectory
from bodysense.report.rendering import effort_unit, number, percent
from bodysense.report.traces import TracePool, float_bytes
from bodysense.robot.dynamics.dynamics import inverse_dynamics
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.collisions import Collisions
from bodysense.spatial.arrays import Array

_POINTS = 1500  # of a curve: every motion has far fewer ups and downs
_POINTS_IN_ALL = 600_000
_PAIRS = 8


@dataclass(frozen=True)
class MotionSection:
    """What can be chosen, and the curves.

    Attributes:
        trajectories: label of each.
        joints: names of those that move.
        held: name and place of those that hold, in words.
        data: for the page's script.
    """

    trajectories: tuple[str, ...]
    joints: tuple[str, ...]
    held: tuple[str, ...]
    data: dict[str, object]

    @classmethod
    def of(cls, design: Design, robot: Robot, limits: MotionLimits) -> MotionSection:
        """The section of a design."""
        places = [robot.joint_names.index(name) for name in design.joints]
        sliding = [robot.joint_types[j] == "prismatic" for j in places]
        labels = tuple(f"Trajectory {k + 1}" for k in range(len(design.trajectories)))
        pool = TracePool()
        q0 = design.trajectories[0](np.zeros(1))[0][0]
        return cls(
            trajectories=labels,
            joints=design.joints,
            held=tuple(
                f"{name} at {number(float(q0[j]), 3)} "
                f"{'m' if robot.joint_types[j] == 'prismatic' else 'rad'}"
                for j, name in enumerate(robot.joint_names)
                if name not in design.joints
            ),
            data={
                "joints": list(design.joints),
                "units": [["m", "m/s", "m/s²", "N"] if s else _TURNING for s in sliding],
                "limits": [
                    [
                        [limits.lower[j], limits.upper[j]],
                        [-limits.velocity[j], limits.velocity[j]],
                        [-limits.acceleration[j], limits.acceleration[j]],
                        [-limits.effort[j], limits.effort[j]],
                    ]
                    for j in places
                ],
                "uses": [percent(_peak(design, name)) for name in design.joints],
                "trajectories": [
                    _curves(robot, motion, places, len(labels), pool)
                    for motion in design.trajectories
                ],
                "traces": pool.traces,
            },
        )


_TURNING = ["rad", "rad/s", "rad/s²", effort_unit("revolute")]


@dataclass(frozen=True)
class ClearanceSection:
    """How far bodies stay apart.

    Attributes:
        margin: closer than this counts as a collision, in words.
        checked: how many pairs, in words.
        shifted: whether pairs have smaller margins of their own; curves are shifted by the
            difference, so that one line is the margin of all.
        rows: the nearest pairs: both names, distance, when.
        ignored: pairs that were not looked at, and why.
        wall: least distance to the walls in words, empty without any.
        data: curves for the page's script, None where nothing was checked.
    """

    margin: str
    checked: str
    shifted: bool
    rows: tuple[tuple[str, str, str], ...]
    ignored: tuple[tuple[str, str], ...]
    wall: str
    data: dict[str, object] | None

    @classmethod
    def of(cls, design: Design, collisions: Collisions | None) -> ClearanceSection:
        """The section of a design whose collisions were checked, or not."""
        margin = design.workspace_margin
        wall = f"{number(1e3 * margin, 3)} mm" if np.isfinite(margin) else ""
        if collisions is None or not collisions.pairs:
            return cls("", "", False, (), (), wall, None)
        times = [_times(motion, len(design.trajectories)) for motion in design.trajectories]
        distances = [
            collisions.distances(motion(t)[0])
            for motion, t in zip(design.trajectories, times, strict=True)
        ]
        shift = collisions.margin - collisions.margins
        return cls(
            margin=f"{number(1e3 * collisions.margin, 3)} mm",
            checked=collisions.summary(),
            shifted=bool(shift.any()),
            rows=_nearest(collisions, times, distances),
            ignored=tuple((" and ".join(i.pair), i.reason) for i in collisions.ignored),
            wall=wall,
            data={
                "margin": 1e3 * collisions.margin,
                "trajectories": [
                    {"time": float_bytes(t), "distance": float_bytes(1e3 * (d + shift).min(axis=1))}
                    for t, d in zip(times, distances, strict=True)
                ],
            },
        )


def _nearest(
    collisions: Collisions, times: Sequence[Array], distances: Sequence[Array]
) -> tuple[tuple[str, str, str], ...]:
    """The pairs that come closest to their margins, the closest one first."""
    least = np.min([d.min(axis=0) for d in distances], axis=0)
    rows = []
    for pair in np.argsort(least - collisions.margins)[:_PAIRS]:
        index = int(np.argmin([d[:, pair].min() for d in distances]))
        at = times[index][int(np.argmin(distances[index][:, pair]))]
        when = f"{at:.2f} s" + (f" of trajectory {index + 1}" if len(times) > 1 else "")
        own = float(collisions.margins[pair])
        name = " and ".join(collisions.pairs[pair])
        if own < collisions.margin:
            name += f" (margin {number(1e3 * own, 2)} mm)"
        rows.append((name, f"{number(1e3 * float(least[pair]), 3)}", when))
    return tuple(rows)


def _times(motion: Trajectory, count: int) -> Array:
    """(n_t,) of the points of curves, fewer of each where there are many motions."""
    points = max(200, min(_POINTS, _POINTS_IN_ALL // (4 * motion.n_axes * count)))
    return np.linspace(0.0, motion.duration, points)


def _curves(
    robot: Robot, motion: Trajectory, places: Sequence[int], count: int, pool: TracePool
) -> dict[str, object]:
    t = _times(motion, count)
    q, v, a = motion(t)
    tau = inverse_dynamics(robot, q, v, a)
    return {
        "time": float_bytes(t),
        "joints": [[pool.add(np.array(x[:, j])) for x in (q, v, a, tau)] for j in places],
    }


def _peak(design: Design, joint: str) -> float:
    return max((use.ratio for use in design.uses if use.joint == joint), default=0.0)
