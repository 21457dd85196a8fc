"""What is wrong with a robot's parameters: findings with severity and remedy."""

from __future__ import annotations

from collections.abc import Sequence

from bodysense.errors import listing
from bodysense.robot.mounting import is_of_a_planet
from bodysense.robot.robot import Robot
from bodysense.status import Finding


def parameter_findings(robot: Robot) -> tuple[Finding, ...]:
    """Inertias that no body has, friction that drives, and gravity of no planet.

    Such a robot can be loaded and identified; it cannot be trusted before that.
    """
    return (*_infeasible_links(robot), *_negative_friction(robot), *_odd_gravity(robot))


def loading_notes(robot: Robot) -> tuple[str, ...]:
    """`parameter_findings` in a line per kind, each with its severity."""
    findings = parameter_findings(robot)
    kinds = dict.fromkeys(finding.kind for finding in findings)
    return tuple(_in_a_line([f for f in findings if f.kind == kind]) for kind in kinds)


def _in_a_line(alike: Sequence[Finding]) -> str:
    if len(alike) == 1:
        return str(alike[0])
    return f"{alike[0]} (and {len(alike) - 1} more: `bodysense check` lists them)"


def infeasible_links(robot: Robot) -> dict[str, str]:
    """Links whose pseudo-inertia has a negative eigenvalue, massless ones that carry none; why."""
    checks = zip(robot.link_names, robot.consistency(), robot.structural(), strict=True)
    return {
        name: check.reason
        for name, check, structural in checks
        if not (check.feasible or structural)
    }


def _infeasible_links(robot: Robot) -> list[Finding]:
    action = (
        "correct mass, centre of mass and inertia together, or identify them with a consistent "
        "method (pc-wls)"
    )
    by_reason: dict[str, list[str]] = {}
    for name, reason in infeasible_links(robot).items():
        by_reason.setdefault(reason, []).append(repr(name))
    return [
        Finding(
            "infeasible-inertia",
            "error",
            f"{'link' if len(names) == 1 else 'links'} {listing(names, 4)}",
            reason,
            action,
        )
        for reason, names in by_reason.items()
    ]


def _negative_friction(robot: Robot) -> list[Finding]:
    """Joints whose viscous, Coulomb, static or load-dependent friction drives them."""
    return [
        Finding(
            "negative-friction",
            "error",
            f"joint {joint!r}",
            f"{term} is {value:g}: this friction drives the joint",
            "give it the opposite sign, or leave it out if it is unknown",
        )
        for term in robot.friction.model.dissipative_terms
        for joint, value in zip(
            robot.joint_names, robot.theta[robot.layout.friction(term)], strict=True
        )
        if value < 0.0
    ]


def _odd_gravity(robot: Robot) -> list[Finding]:
    g = robot.model.gravity.linear
    if is_of_a_planet(g):
        return []
    text = f"gravity is ({', '.join(f'{x:.4g}' for x in g)}) m/s², which no planet has"
    action = "give it in m/s², e.g. 0 0 -9.81, or --gravity"
    return [Finding("unit-of-gravity", "warning", "robot", text, action)]
