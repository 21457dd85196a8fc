"""What `bodysense excite` prints: joints, limits, precision, next commands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bodysense.cli.tables import Page
from bodysense.excitation.design import Design
from bodysense.excitation.limits import MotionLimits
from bodysense.excitation.poses import PoseDesign
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_LISTED = 10
"""Base parameters in the table, the least precise ones."""

_QUANTITIES = ("position", "speed", "acceleration", "torque")
_SMALLER = (
    "A small condition number makes all parameters equally identifiable, not precise: the criteria "
    "d-optimal and precision usually give smaller standard deviations."
)


def rendered(
    robot: Robot, design: Design, name: str, files: Sequence[str], notes: Sequence[str]
) -> str:
    """The design as text."""
    page = Page()
    page.line(design.summary().splitlines()[0], style="bold", wrap=False)
    held = [joint for joint in robot.joint_names if joint not in design.joints]
    page.line(f"moves: {', '.join(design.joints)}")
    if held:
        page.line(f"holds: {', '.join(held)}")
    for note in (*notes, *design.notes):
        page.line(f"- {note}")
    page.line(
        f"{design.criterion}: {design.value:.4g}, the median of random motions within the same "
        f"limits has {design.start_value:.4g}; {len(design.history)} improvements in "
        f"{design.seconds:.0f} s"
    )
    _limits(page, robot, design)
    _clearance(page, design)
    _precision(page, design.base, design.sigma, design.sizes, design.theta_base)
    _noise(page, robot, design.joints, design.noise)
    if design.criterion == "condition":
        page.line(_SMALLER)
    page.line("")
    page.line(design.advice, style="bold yellow" if design.status == "interrupted" else "bold")
    page.line(f"wrote {', '.join(files)}", wrap=False)
    _next(page, name, files)
    return page.text()


def rendered_poses(
    robot: Robot, poses: PoseDesign, files: Sequence[str], notes: Sequence[str]
) -> str:
    """A set of poses as text."""
    page = Page()
    page.line(f"{poses.summary()}.", style="bold", wrap=False)
    page.line(f"moves between poses: {', '.join(poses.joints)}")
    for note in (*notes, *poses.notes):
        page.line(f"- {note}")
    _precision(page, poses.base, poses.sigma, poses.sizes, None)
    _noise(page, robot, poses.joints, poses.noise)
    page.line("")
    page.line("Motions between the poses are not planned: move with care.", style="bold")
    page.line(f"wrote {', '.join(files)}", wrap=False)
    return page.text()


def summary(
    design: Design, files: Sequence[str], notes: Sequence[str], *, seed: int
) -> dict[str, Any]:
    """The design for programs; what is infinite is None."""
    closest = design.closest
    return {
        "robot": design.robot_name,
        "joints": list(design.joints),
        "trajectories": len(design.trajectories),
        "duration": design.trajectories[0].duration,
        "criterion": design.criterion,
        "value": finite(design.value),
        "random_value": finite(design.start_value),
        "condition_number": finite(design.condition),
        "limits": [
            {"joint": use.joint, "quantity": use.quantity, "use": use.ratio, "time": use.time}
            for use in design.uses
        ],
        "clearance": None
        if closest is None
        else {
            "pair": list(closest.pair),
            "distance": closest.distance,
            "time": design.closest_time[0],
            "trajectory": design.closest_time[1],
        },
        "workspace_margin": finite(design.workspace_margin),
        "parameters": [
            {"parameter": name, "value": value, "sigma": finite(sigma), "plausible_size": size}
            for name, value, sigma, size in zip(
                design.base.names,
                design.theta_base.tolist(),
                design.sigma.tolist(),
                design.sizes.tolist(),
                strict=True,
            )
        ],
        "torque_noise": design.noise.tolist(),
        "unidentifiable": list(design.unidentifiable),
        "status": design.status,
        "advice": design.advice,
        "seconds": design.seconds,
        "seed": seed,
        "notes": list(notes),
        "files": list(files),
    }


def finite(value: float) -> float | None:
    """The number, or None if it is not finite."""
    return value if math.isfinite(value) else None


def _limits(page: Page, robot: Robot, design: Design) -> None:
    uses = {(use.joint, use.quantity): use.ratio for use in design.uses}
    for joint, effort in zip(robot.joint_names, MotionLimits.of(robot).effort, strict=True):
        if math.isinf(effort):
            uses[joint, "torque"] = math.nan  # there is no limit to use
    count = len(design.trajectories)
    of = f", the most of {count} motions" if count > 1 else ""
    table = page.table(
        f"Use of the limits in %, checked at {design.rate:g} Hz{of}",
        "joint",
        *_QUANTITIES,
        text=(0,),
    )
    for joint in design.joints:
        table.add_row(joint, *(_percent(uses[joint, what]) for what in _QUANTITIES))
    page.show(table)
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


def _precision(
    page: Page, base: BaseParameters, sigma: Array, sizes: Array, values: Array | None
) -> None:
    ratio = sigma / sizes
    worst = np.argsort(-ratio, kind="stable")[:_LISTED]
    table = page.table(
        f"Predicted standard deviations: the {worst.size} worst of {base.size} base parameters",
        "base parameter",
        *(() if values is None else ("value",)),
        "sigma",
        "% of plausible size",
        text=(0,),
    )
    for k in worst:
        shown = () if values is None else (f"{values[k]:.4g}",)
        table.add_row(_short(base.names[k]), *shown, _number(sigma[k]), _percent(ratio[k]))
    page.show(table)
    poor = [_short(base.names[k], 24) for k in np.flatnonzero(~(ratio < 1.0))]
    if poor:
        page.line(f"Not better known than a priori ({len(poor)}): {'; '.join(poor)}")
    if base.unidentifiable:
        silent = " ".join(base.unidentifiable)
        page.line(f"Without any effect ({len(base.unidentifiable)}): {silent}")
    if base.regrouped:
        page.line(f"Only in combination ({len(base.regrouped)}): {' '.join(base.regrouped)}")


def _noise(page: Page, robot: Robot, joints: Sequence[str], noise: Array) -> None:
    """On which all standard deviations depend."""
    moving = [robot.joint_names.index(joint) for joint in joints]
    units = dict.fromkeys("N" if robot.joint_types[j] == "prismatic" else "N·m" for j in moving)
    page.line(
        f"They assume white noise of the torques of {', '.join(f'{noise[j]:.3g}' for j in moving)} "
        f"{' or '.join(units)}, sample by sample; twice the noise doubles them (--noise-torque)."
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


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f}" if math.isfinite(share) else "-"


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "-"
