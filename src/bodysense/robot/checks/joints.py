"""Joints of a robot file: limits, and friction that nobody measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import listing
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.status import Finding, Severity

_MOST_TURNS = 8.0 * math.pi  # rad that a joint with stops turns; four turns to either side
_DEGREES = 1000.0  # rad: a limit below may be one in degrees, beyond it a made-up number
_MOST_SPEED = 1000.0  # rad/s or m/s that only a placeholder allows
_DISTINCT_SHARE = 0.5
"""Of the coefficients that are given, up to which values are placeholders. In the robots of
example-robot-data that have friction at most 3 of 7 are distinct; identified ones all are."""


def joint_findings(robot: Robot) -> tuple[Finding, ...]:
    """Limits missing or made up, placeholder friction."""
    return (
        *_position_limits(robot),
        *_drive_limits(robot),
        *_placeholder_friction(robot),
    )


def _of(
    kind: str, severity: Severity, names: Iterable[str], text: str, action: str
) -> list[Finding]:
    """One finding about these joints, none if there are none."""
    quoted = [repr(str(name)) for name in names]
    if not quoted:
        return []
    where = f"{'joint' if len(quoted) == 1 else 'joints'} {listing(quoted, 4)}"
    return [Finding(kind, severity, where, text, action)]


def _position_limits(robot: Robot) -> list[Finding]:
    lower, upper = robot.position_limits
    names, turns = np.array(robot.joint_names), ~robot.tree.prismatic.astype(bool)
    closed = np.isfinite(lower) & np.isfinite(upper)
    wide = turns & closed & (np.maximum(-lower, upper) > _MOST_TURNS)
    degrees = wide & (np.maximum(-lower, upper) < _DEGREES)
    open_slides = ~turns & ~(np.isfinite(lower) | np.isfinite(upper))
    return [
        *_of(
            "empty-range",
            "error",
            names[closed & (lower >= upper)],
            "the lower limit is not below the upper one, so that the joint cannot move (URDF takes "
            "0 for a limit that is left out)",
            "give both limits, or make it continuous or fixed",
        ),
        *_of(
            "unit-of-limits",
            "warning",
            names[degrees],
            f"position limits up to {_largest(lower, upper, degrees):.4g} rad: degrees?",
            "give limits in rad, or make the joint continuous",
        ),
        *_of(
            "no-limits",
            "note",
            names[wide & ~degrees],
            f"position limits of {_largest(lower, upper, wide & ~degrees):.4g} rad limit nothing",
            "make the joint continuous, or give its stops",
        ),
        *_of(
            "no-limits",
            "warning",
            names[open_slides],
            "a sliding joint without position limits",
            "give its position limits",
        ),
    ]


def _largest(lower: Array, upper: Array, which: NDArray[np.bool_]) -> float:
    return float(np.maximum(-lower, upper)[which].max(initial=0.0))


def _drive_limits(robot: Robot) -> list[Finding]:
    names, effort, speed = np.array(robot.joint_names), robot.effort_limit, robot.velocity_limit
    made_up = np.isfinite(speed) & (speed >= _MOST_SPEED)
    both = made_up & np.isfinite(effort)
    return [
        *_of(
            "no-limits",
            "warning",
            names[~np.isfinite(effort)],
            "no effort limit, or zero, which many readers take as a joint without force",
            "give the largest torque or force of the drive",
        ),
        *_of(
            "no-limits",
            "warning",
            names[~np.isfinite(speed)],
            "no speed limit, or zero",
            "give the largest speed of the drive",
        ),
        *_of(
            "placeholder-limits",
            "warning",
            names[both],
            f"a speed limit of {speed[both].max(initial=0.0):.4g} rad/s or m/s limits nothing",
            "give the largest speed of the drive",
        ),
    ]


def _placeholder_friction(robot: Robot) -> list[Finding]:
    given = given_friction(robot)
    why = unmeasured_friction(robot)
    if not why or not given or _has_negative(given):  # which another finding says
        return []
    values = "; ".join(
        f"{term} {listing((f'{x:g}' for x in np.unique(some)), 3)}" for term, some in given.items()
    )
    action = "measure it, or leave it out and let `bodysense identify` find it"
    found = f"{why}, as made for simulators ({values})"
    return [Finding("placeholder-friction", "warning", "all joints", found, action)]


def unmeasured_friction(robot: Robot) -> str:
    """Why friction coefficients of a robot's files are no measurement; empty if they may be one.

    Files seldom give measured friction: many give one damping to all joints, for a simulation to be
    stable. Laws of users, and those with a state, are left alone. Damping alone may be measured
    where the law has no Coulomb term, which only an actuator file or a user says, no URDF or MJCF.
    """
    model, given = robot.friction.model, given_friction(robot)
    if model.custom is not None:
        return ""
    if not given:
        return "there are no friction coefficients"
    if model.has_state:
        return ""
    if _has_negative(given):
        return "some coefficients are negative"
    if all(np.unique(values).size <= _DISTINCT_SHARE * values.size for values in given.values()):
        return "the same few values for all joints are placeholders"
    if "Fc" in model.terms and "Fc" not in given and "Fs" not in given:
        return "damping without Coulomb friction is a placeholder"
    return ""


def given_friction(robot: Robot) -> dict[str, Array]:
    """Coefficients by term that are not zero; no term without any."""
    terms = {term: robot.theta[robot.layout.friction(term)] for term in robot.layout.friction_terms}
    return {term: values[values != 0.0] for term, values in terms.items() if values.any()}


def _has_negative(given: Mapping[str, Array]) -> bool:
    return any((values < 0.0).any() for term, values in given.items() if term != "Fo")
