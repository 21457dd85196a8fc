"""What `bodysense excite` prints: joints, limits, precision, next commands."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from bodysense.cli.options import progress_bar
from bodysense.cli.tables import Page, number, percent
from bodysense.excitation.design import Design
from bodysense.excitation.limits import MotionLimits
from bodysense.excitation.poses import PoseDesign
from bodysense.excitation.search import Progress
from bodysense.files import plain
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.collisions import Collisions

_LISTED = 10
"""Base parameters in the table, the least precise ones."""

_MISSING = "is not found"
_PAIRS = 8
"""Named of those whose collisions are not checked."""

_QUANTITIES = ("position", "speed", "acceleration", "torque")
_SMALLER = (
    "A small condition number makes all parameters equally identifiable, not precise: the criteria "
    "d-optimal and precision usually give smaller standard deviations."
)


def text(
    args: argparse.Namespace,
    robot: Robot,
    design: Design | PoseDesign,
    files: Sequence[str],
    collisions: Collisions | None,
) -> str:
    """Motions or poses as text."""
    page, notes = Page(), _shape_notes(collisions)
    if isinstance(design, PoseDesign):
        page.line(f"{design.summary()}.", style="bold", wrap=False)
        page.line(f"moves between poses: {', '.join(design.joints)}")
        _notes(page, design, notes)
        _precision(page, robot, design)
        page.line("")
        page.line("Motions between the poses are not planned: move with care.", style="bold")
        page.line(f"wrote {', '.join(files)}", wrap=False)
        return page.text()
    page.line(design.summary().splitlines()[0], style="bold", wrap=False)
    page.line(f"moves: {', '.join(design.joints)}")
    _motion(page, robot, design, notes)
    page.line("")
    page.line(design.advice, style="bold yellow" if design.status == "interrupted" else "bold")
    page.line(f"wrote {', '.join(files)}", wrap=False)
    _next(page, args.robot, files)
    return page.text()


def summary(
    args: argparse.Namespace,
    design: Design | PoseDesign,
    files: Sequence[str],
    collisions: Collisions | None,
) -> dict[str, Any]:
    """Motions or poses for programs; what is infinite is None."""
    table: dict[str, Any] = {
        "robot": design.robot_name,
        "joints": design.joints,
        "criterion": design.criterion,
        "value": design.value,
        "random_value": design.start_value,
        "condition_number": design.condition,
        "parameters": [
            {"parameter": name, "sigma": sigma, "plausible_size": size}
            for name, sigma, size in zip(
                design.base.names, design.sigma.tolist(), design.sizes.tolist(), strict=True
            )
        ],
        "torque_noise": design.noise.tolist(),
        "notes": [*_shape_notes(collisions), *design.notes],
        "files": files,
    }
    if isinstance(design, PoseDesign):
        table |= {"poses": design.poses.tolist(), "travel": design.travel}
    else:
        table |= _motion_summary(design) | {"seed": args.seed}
        for entry, value in zip(table["parameters"], design.theta_base.tolist(), strict=True):
            entry["value"] = value
    return dict(plain(table))


def _motion_summary(design: Design) -> dict[str, Any]:
    closest = design.closest
    return {
        "trajectories": len(design.trajectories),
        "duration": design.trajectories[0].duration,
        "limits": [
            {"joint": use.joint, "quantity": use.quantity, "use": use.ratio, "time": use.time}
            for use in design.uses
        ],
        "clearance": None
        if closest is None
        else {
            "pair": closest.pair,
            "distance": closest.distance,
            "time": design.closest_time[0],
            "trajectory": design.closest_time[1],
        },
        "workspace_margin": design.workspace_margin,
        "unidentifiable": design.unidentifiable,
        "status": design.status,
        "advice": design.advice,
        "seconds": design.seconds,
    }


def _motion(page: Page, robot: Robot, design: Design, notes: Sequence[str]) -> None:
    held = [joint for joint in robot.joint_names if joint not in design.joints]
    if held:
        page.line(f"holds: {', '.join(held)}")
    _notes(page, design, notes)
    page.line(
        f"{design.criterion}: {design.value:.4g}, the median of random motions within the same "
        f"limits has {design.start_value:.4g}; {len(design.history)} improvements in "
        f"{design.seconds:.0f} s"
    )
    _limits(page, robot, design)
    _clearance(page, design)
    _precision(page, robot, design)
    if design.criterion == "condition":
        page.line(_SMALLER)


def _limits(page: Page, robot: Robot, design: Design) -> None:
    uses = {(use.joint, use.quantity): use.ratio for use in design.uses}
    for joint, effort in zip(robot.joint_names, MotionLimits.from_robot(robot).effort, strict=True):
        if math.isinf(effort):
            uses[joint, "torque"] = math.nan  # there is no limit to use
    count = len(design.trajectories)
    of = f", the most of {count} motions" if count > 1 else ""
    page.table(
        f"Use of the limits in %, checked at {design.rate:g} Hz{of}",
        ("joint", *_QUANTITIES),
        ((joint, *(percent(uses[joint, what]) for what in _QUANTITIES)) for joint in design.joints),
    )
    if any(math.isnan(use) for use in uses.values()):
        page.line("Torques without a limit (-) are not limited: give limits in the robot's file.")


def _clearance(page: Page, design: Design) -> None:
    if design.closest is not None:
        first, second = design.closest.pair
        at, index = design.closest_time
        which = f" of trajectory {index + 1}" if len(design.trajectories) > 1 else ""
        page.line(
            f"Smallest clearance: {1e3 * design.closest.distance:.1f} mm between {first} and "
            f"{second} at {at:.3f} s{which}."
        )
    else:
        page.line("Self-collisions were not checked.")
    if math.isfinite(design.workspace_margin):
        page.line(f"Smallest distance to a wall: {1e3 * design.workspace_margin:.1f} mm.")


def _precision(page: Page, robot: Robot, design: Design | PoseDesign) -> None:
    """The least precise parameters, and the noise on which all standard deviations depend."""
    base, sigma = design.base, design.sigma
    ratio = sigma / design.sizes
    worst = np.argsort(-ratio, kind="stable")[:_LISTED]
    values = design.theta_base if isinstance(design, Design) else None
    page.table(
        f"Predicted standard deviations: the {worst.size} worst of {base.size} base parameters",
        (
            "base parameter",
            *(() if values is None else ("value",)),
            "sigma",
            "% of plausible size",
        ),
        (
            (
                _short(base.names[k]),
                *(() if values is None else (f"{values[k]:.4g}",)),
                number(sigma[k]),
                percent(ratio[k]),
            )
            for k in worst
        ),
    )
    poor = [_short(base.names[k], 24) for k in np.flatnonzero(~(ratio < 1.0))]
    if poor:
        page.line(f"Not better known than a priori ({len(poor)}): {'; '.join(poor)}")
    for title, names in (
        ("Without any effect", base.unidentifiable),
        ("Only in combination", base.regrouped),
    ):
        if names:
            page.line(f"{title} ({len(names)}): {' '.join(names)}")
    moving = [robot.joint_names.index(joint) for joint in design.joints]
    units = dict.fromkeys("N" if robot.joint_types[j] == "prismatic" else "N·m" for j in moving)
    noise = ", ".join(f"{design.noise[j]:.3g}" for j in moving)
    page.line(
        f"They assume white noise of the torques of {noise} {' or '.join(units)}, sample by "
        "sample; twice the noise doubles them (--noise-torque)."
    )


def _next(page: Page, robot: str, files: Sequence[str]) -> None:
    motions = [name for name in files if not name.lower().endswith(".html")]
    it = "it" if len(motions) == 1 else "them"
    if motions[0].lower().endswith((".yaml", ".yml")):
        page.line(f"Next: record {it} on the robot, and identify from the recording LOG:")
        page.line(f"  bodysense identify {robot} LOG -o out", wrap=False)
        return
    page.line(f"Next: record {it} on the robot, or try {it} on a simulated one, and identify:")
    logs = ["log.parquet"]
    if len(motions) > 1:
        logs = [f"log-{k + 1}.parquet" for k in range(len(motions))]
    for motion, log in zip(motions, logs, strict=True):
        page.line(f"  bodysense simulate {robot} {motion} -o {log}", wrap=False)
    page.line(f"  bodysense identify {robot} {' '.join(logs)} -o out", wrap=False)


def _short(name: str, most: int = 44) -> str:
    return name if len(name) <= most else f"{name[: most - 2].rstrip()} …"


def _notes(page: Page, design: Design | PoseDesign, notes: Sequence[str]) -> None:
    for note in (*notes, *design.notes):
        page.line(f"- {note}")


def _shape_notes(collisions: Collisions | None) -> list[str]:
    """Notes on shapes and pairs; repeated ones are counted."""
    if collisions is None:
        return []
    missing = [note for note in collisions.notes if _MISSING in note]
    rest = [note for note in collisions.notes if _MISSING not in note]
    if missing:
        first = missing[0].replace("in package_dirs", "with --package-dirs")
        first = first.replace(', or take shapes="boxes"', ", or take --collisions boxes")
        rest.insert(0, first)
    if len(missing) > 1:
        rest.insert(1, f"{len(missing) - 1} more of its meshes are not found either")
    by_reason: dict[str, list[str]] = {}
    for pair, reason in collisions.ignored.items():
        by_reason.setdefault(reason, []).append("/".join(pair))
    for reason, pairs in by_reason.items():
        more = f" and {len(pairs) - _PAIRS} more" if len(pairs) > _PAIRS else ""
        rest.append(f"collisions not checked: {', '.join(pairs[:_PAIRS])}{more} ({reason})")
    return rest


@contextmanager
def searching(args: argparse.Namespace, criterion: str) -> Iterator[Callable[[Progress], None]]:
    """A bar with the time and the best so far, on a terminal only."""
    seconds = args.seconds
    with progress_bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn(f"of {seconds:g} s  {{task.fields[best]}}"),
    ) as bar:
        task = bar.add_task("preparing", total=seconds, best="")

        def update(now: Progress) -> None:
            best = f"{criterion} {now.value:.5g}, cond(W) {now.condition:.4g} (Ctrl-C keeps it)"
            bar.update(
                task,
                completed=min(now.seconds, seconds),
                description="searching" if now.seconds < seconds else "checking",
                best=best if math.isfinite(now.value) else "no motion yet",
            )

        yield update
