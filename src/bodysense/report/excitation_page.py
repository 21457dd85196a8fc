"""The report of a designed motion: curves within limits, and the precision that it promises."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bodysense.excitation.design import Design
from bodysense.excitation.limits import LimitUse, MotionLimits
from bodysense.excitation.trajectory import Trajectory
from bodysense.files import versions
from bodysense.report.figures import WIDTH, TracePool, float_bytes
from bodysense.report.page import (
    NOTHING,
    Section,
    count,
    number,
    percent,
    provenance_section,
    setup_facts,
    tile,
    write_page,
)
from bodysense.report.parameters import PRECISION_LABELS, precision_labels, precision_section
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.layout import effort_unit, position_unit
from bodysense.robot.robot import Robot, require_robot
from bodysense.robot.shapes.collisions import Collisions
from bodysense.spatial.arrays import Array

_SECTIONS = {
    "summary": "Summary",
    "motion": "Motion",
    "limits": "Limits",
    "clearance": "Clearance",
    "parameters": "Parameters",
    "search": "Search",
    "provenance": "Provenance",
}
_QUANTITIES = ("position", "speed", "acceleration", "torque")

_POINTS = 1500  # of a curve: every motion has far fewer ups and downs
_POINTS_IN_ALL = 600_000
_PAIR_ROWS = 8  # pairs of bodies in the table of clearances
_LIMIT_REACHED = 0.995  # use from which on a limit counts as reached


def write_excitation_page(
    path: str | os.PathLike[str],
    design: Design,
    robot: Robot,
    limits: MotionLimits,
    *,
    collisions: Collisions | None = None,
    title: str | None = None,
    command: str | None = None,
    seed: int | None = None,
) -> Path:
    """Write the report of a designed motion and return its path.

    Args:
        path: the HTML file to write; its folder must exist.
        design: what `design_motion` returned.
        robot: that it was designed for.
        limits: that it was designed within.
        collisions: pairs that were kept apart; their distances are not shown if None.
        title: heading of the page; by default the robot's name.
        command: by which the design can be repeated, to be shown and copied.
        seed: of the random starts.
    """
    require_robot(robot)
    motion, clearance = _motion(design, robot, limits), _clearance(design, collisions)
    origin = {
        "versions": versions(),
        "robot": robot.origin,
        "joints": design.joints,
        "criterion": design.criterion,
        "torque_noise": design.noise.tolist(),
        "duration": [motion.duration for motion in design.trajectories],
        "seconds": design.seconds,
        "status": design.status,
        "seed": seed,
        "command": command,
    }
    return write_page(
        path,
        "excitation",
        title=title or f"Exciting motion for {robot.name}",
        kicker="Designed motion",
        sections=_SECTIONS,
        verdict=_summary(design, robot, collisions),
        motion=motion,
        quantities=_QUANTITIES,
        limits=_limits(design, robot, limits),
        rate=f"{design.rate:g}",
        clearance=clearance,
        precision=precision_section(design, robot),
        bar_width=WIDTH,
        provenance=provenance_section(origin, command, {}),
        data={
            "motion": motion["data"],
            "clearance": clearance["data"],
            "search": {
                "seconds": [at for at, _ in design.history],
                "values": [value for _, value in design.history],
                "start": design.start_value,
                "criterion": design.criterion,
                "total": design.seconds,
            },
        },
    )


def _summary(design: Design, robot: Robot, collisions: Collisions | None = None) -> Section:
    """Grade, sentence, advice, key numbers, and what went in."""
    notes = (*(collisions.notes if collisions is not None else ()), *design.notes)
    labels = precision_labels(design)
    well, poorly, unidentifiable = (labels.count(label) for label in PRECISION_LABELS)
    return {
        "grade": _grade(design, unidentifiable, len(labels)),
        "sentence": f"{well + poorly} of {len(labels)} base parameters are predicted to be known "
        f"better than a guess, {well} of them at least four times better.",
        "advice": [design.advice],
        "notes": [note[:1].upper() + note[1:] for note in notes],
        "tiles": _tiles(design, well, unidentifiable),
        "facts": _facts(design, robot),
    }


def _grade(design: Design, unidentifiable: int, size: int) -> str:
    """``good`` where every base parameter is better than a guess, ``fair`` where two thirds are."""
    if design.status == "violated":
        return "failed"
    if unidentifiable == 0:
        return "good"
    return "fair" if 3 * unidentifiable <= size else "poor"


def _tiles(design: Design, well: int, unidentifiable: int) -> tuple[Section, ...]:
    tightest = max(_QUANTITIES, key=lambda what: design.use(what).ratio)
    use = design.use(tightest)
    closest = design.closest
    return (
        tile("Condition number", number(design.condition, 4), "cond(W) of the base regressor"),
        tile(
            "Criterion",
            number(design.value, 4),
            f"{design.criterion}; {number(design.start_value, 3)} for random motions",
        ),
        tile("Well identified", f"{well} of {design.base.size}", "base parameters"),
        tile(
            "Not identifiable", str(unidentifiable), "base parameters, σ above their plausible size"
        ),
        tile("Tightest limit", percent(use.ratio), f"{use.quantity} of {use.joint}"),
        tile(
            "Clearance",
            NOTHING if closest is None else f"{number(1e3 * closest.distance, 3)} mm",
            "not checked" if closest is None else " and ".join(closest.pair),
        ),
    )


def _facts(design: Design, robot: Robot) -> list[tuple[str, Sequence[str]]]:
    held = [name for name in robot.joint_names if name not in design.joints]
    motions = count(len(design.trajectories), "motion")
    return [
        *setup_facts(robot),
        ("Moves", [", ".join(design.joints)]),
        ("Holds", [", ".join(held) or NOTHING]),
        ("Motion", [f"{motions} of {number(design.trajectories[0].duration, 3)} s"]),
        ("Torque noise assumed", [_noise(design, robot)]),
        ("Search", [f"{number(design.seconds, 3)} s"]),
        ("Checked at", [f"{number(design.rate, 4)} Hz"]),
    ]


def _noise(design: Design, robot: Robot) -> str:
    """Standard deviations of the torques of joints that move, on which every σ depends."""
    deviations = [
        f"{number(design.noise[j], 3)} {effort_unit(kind)}"
        for j, (name, kind) in enumerate(zip(robot.joint_names, robot.joint_types, strict=True))
        if name in design.joints
    ]
    return f"{', '.join(deviations)}, white"


# Curves within their limits.


def _motion(design: Design, robot: Robot, limits: MotionLimits) -> Section:
    """What can be chosen, and the curves for the page's script."""
    places = [robot.joint_names.index(name) for name in design.joints]
    n_motions, pool = len(design.trajectories), TracePool()
    q0 = design.trajectories[0](np.zeros(1))[0][0]
    return {
        "trajectories": [f"Trajectory {k + 1}" for k in range(n_motions)],
        "joints": design.joints,
        "held": [
            f"{name} at {number(float(q0[j]), 3)} {position_unit(robot.joint_types[j])}"
            for j, name in enumerate(robot.joint_names)
            if name not in design.joints
        ],
        "data": {
            "joints": design.joints,
            "units": [_units(robot, j) for j in places],
            "limits": [[[low[j], high[j]] for low, high in _limit_pairs(limits)] for j in places],
            "uses": [percent(_largest_use(design, name)) for name in design.joints],
            "trajectories": [
                _curves(robot, motion, places, n_motions, pool) for motion in design.trajectories
            ],
            "traces": pool.traces,
        },
    }


def _limit_pairs(limits: MotionLimits) -> list[tuple[Array, Array]]:
    """Lowest and highest values (n_joints,) of `_QUANTITIES`."""
    most = (limits.velocity, limits.acceleration, limits.effort)
    return [(limits.lower, limits.upper), *((-limit, limit) for limit in most)]


def _largest_use(design: Design, joint: str) -> float:
    return max((use.ratio for use in design.uses if use.joint == joint), default=0.0)


def _units(robot: Robot, joint: int) -> list[str]:
    """Of `_QUANTITIES`."""
    unit = position_unit(robot.joint_types[joint])
    return [unit, f"{unit}/s", f"{unit}/s²", effort_unit(robot.joint_types[joint])]


def _times(motion: Trajectory, count: int) -> Array:
    """(n_t,) of the points of curves, fewer of each where there are many motions."""
    points = max(200, min(_POINTS, _POINTS_IN_ALL // (4 * motion.n_axes * count)))
    return np.linspace(0.0, motion.duration, points)


def _curves(
    robot: Robot, motion: Trajectory, places: Sequence[int], count: int, pool: TracePool
) -> Section:
    t = _times(motion, count)
    q, v, a = motion(t)
    tau = inverse_dynamics(robot, q, v, a)
    return {
        "time": float_bytes(t),
        "joints": [[pool.add(np.array(x[:, j])) for x in (q, v, a, tau)] for j in places],
    }


def _limits(design: Design, robot: Robot, limits: MotionLimits) -> list[Section]:
    """How much of its limits each joint that moves uses; a cell for each of `_QUANTITIES`."""
    uses = {(use.joint, use.quantity): use for use in design.uses}
    rows = []
    for name in design.joints:
        j = robot.joint_names.index(name)
        pairs = zip(_QUANTITIES, _limit_pairs(limits), _units(robot, j), strict=True)
        cells = [
            _cell(uses[name, what], float(low[j]), float(high[j]), unit)
            for what, (low, high), unit in pairs
        ]
        rows.append({"joint": name, "cells": cells})
    return rows


def _cell(use: LimitUse, low: float, high: float, unit: str) -> Section:
    """The use of one limit: in words, as a ratio, when, and the limit itself."""
    if not np.isfinite(high):
        return {"use": NOTHING, "ratio": 0.0, "time": "", "limit": "no limit", "full": False}
    span = number(high, 3)
    if use.quantity == "position":
        span = f"{number(low, 3)} … {span}"
    return {
        "use": percent(use.ratio),
        "ratio": use.ratio,
        "time": f"{use.time:.2f} s",
        "limit": f"{span} {unit}",
        "full": use.ratio >= _LIMIT_REACHED,
    }


# How far bodies stay apart.


def _clearance(design: Design, collisions: Collisions | None) -> Section:
    """The nearest pairs, and curves for the page's script; `data` is None if nothing was checked.

    Where pairs have smaller margins of their own, curves are shifted by the difference, so that
    one line is the margin of all.
    """
    margin = design.workspace_margin
    wall = f"{number(1e3 * margin, 3)} mm" if np.isfinite(margin) else ""
    if collisions is None or not collisions.pairs:
        return {"wall": wall, "data": None}
    times = [_times(motion, len(design.trajectories)) for motion in design.trajectories]
    distances = [
        collisions.distances(motion(t)[0])
        for motion, t in zip(design.trajectories, times, strict=True)
    ]
    shift = collisions.margin - collisions.margins
    return {
        "margin": f"{number(1e3 * collisions.margin, 3)} mm",
        "checked": collisions.summary(),
        "shifted": bool(shift.any()),
        "rows": _nearest(collisions, times, distances),
        "ignored": [(" and ".join(pair), why) for pair, why in collisions.ignored.items()],
        "wall": wall,
        "data": {
            "margin": 1e3 * collisions.margin,
            "trajectories": [
                {"time": float_bytes(t), "distance": float_bytes(1e3 * (d + shift).min(axis=1))}
                for t, d in zip(times, distances, strict=True)
            ],
        },
    }


def _nearest(
    collisions: Collisions, times: Sequence[Array], distances: Sequence[Array]
) -> list[tuple[str, str, str]]:
    """The pairs that come closest to their margins, the closest one first."""
    least = np.min([d.min(axis=0) for d in distances], axis=0)
    rows = []
    for pair in np.argsort(least - collisions.margins)[:_PAIR_ROWS]:
        index = int(np.argmin([d[:, pair].min() for d in distances]))
        at = times[index][int(np.argmin(distances[index][:, pair]))]
        when = f"{at:.2f} s" + (f" of trajectory {index + 1}" if len(times) > 1 else "")
        own = float(collisions.margins[pair])
        name = " and ".join(collisions.pairs[pair])
        if own < collisions.margin:
            name += f" (margin {number(1e3 * own, 2)} mm)"
        rows.append((name, f"{number(1e3 * float(least[pair]), 3)}", when))
    return rows
