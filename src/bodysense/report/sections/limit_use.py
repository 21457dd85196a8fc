"""How much of every limit a designed motion uses, joint by joint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bodysense.excitation.design import Design
from bodysense.excitation.limits import LimitUse, MotionLimits
from bodysense.report.rendering import NOTHING, number, percent
from bodysense.robot.robot import Robot

QUANTITIES = ("position", "speed", "acceleration", "torque")
_FULL = 0.995
"""Use from which on a limit counts as reached."""


@dataclass(frozen=True)
class UseCell:
    """The use of one limit: in words, as a bar from 0 to 100, when, and the limit itself."""

    use: str
    bar: float
    time: str
    limit: str
    full: bool


@dataclass(frozen=True)
class UseRow:
    """The uses of a joint's limits, as in `QUANTITIES`."""

    joint: str
    cells: tuple[UseCell, ...]


def limit_rows(design: Design, robot: Robot, limits: MotionLimits) -> tuple[UseRow, ...]:
    """A row for every joint that moves."""
    uses = {(use.joint, use.quantity): use for use in design.uses}
    rows = []
    for name in design.joints:
        j = robot.joint_names.index(name)
        unit = "m" if robot.joint_types[j] == "prismatic" else "rad"
        effort = "N" if unit == "m" else "N·m"
        words = (
            f"{number(float(limits.lower[j]), 3)} … {number(float(limits.upper[j]), 3)} {unit}",
            _limit(float(limits.velocity[j]), f"{unit}/s"),
            _limit(float(limits.acceleration[j]), f"{unit}/s²"),
            _limit(float(limits.effort[j]), effort),
        )
        cells = (
            _cell(uses[name, what], limit) for what, limit in zip(QUANTITIES, words, strict=True)
        )
        rows.append(UseRow(name, tuple(cells)))
    return tuple(rows)


def _limit(value: float, unit: str) -> str:
    return f"{number(value, 3)} {unit}" if np.isfinite(value) else ""


def _cell(use: LimitUse, limit: str) -> UseCell:
    if not limit:
        return UseCell(NOTHING, 0.0, "", "no limit", False)
    return UseCell(
        percent(use.ratio),
        round(100.0 * min(1.0, use.ratio), 1),
        f"{use.time:.2f} s",
        limit,
        use.ratio >= _FULL,
    )
