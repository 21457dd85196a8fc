"""`bodysense inspect ROBOT`: links, joints, drives and base parameters of a robot."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bodysense.cli.options import add_robot_options, load_robot, print_result
from bodysense.cli.tables import Page, number
from bodysense.errors import count

if TYPE_CHECKING:
    from bodysense.robot.inspection import Inspection


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_robot_options(parser, floating=True)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Load the robot and print its tables."""
    from rich.console import Console

    from bodysense.robot.inspection import inspect_robot

    robot = load_robot(args, silent=True)
    # Visible on a terminal only; the first run compiles, and a humanoid takes seconds.
    with Console(stderr=True).status("computing the base parameters …"):
        inspection = inspect_robot(robot)
    print_result(args, _text(inspection), inspection.to_dict())
    return 0


def _text(inspection: Inspection) -> str:
    """The tables as text."""
    page = Page()
    _overview(page, inspection)
    _links(page, inspection)
    _joints(page, inspection)
    _couplings(page, inspection)
    _base_parameters(page, inspection)
    return page.text()


def _overview(page: Page, inspection: Inspection) -> None:
    robot = inspection.robot
    from bodysense.robot.mounting import GRAVITY

    base = "floating" if robot.floating_base else "fixed"
    page.line(robot.name, style="bold")
    page.line(
        f"{count(len(inspection.joints), 'joint')}, {base} base, "
        f"{count(len(inspection.links), 'moving link')}, {inspection.total_mass:.6g} kg"
    )
    if robot.source is not None:
        page.line(f"from {robot.source.path}", wrap=False)
    if (robot.model.gravity.linear != [0.0, 0.0, -GRAVITY]).any():
        g = ", ".join(f"{x:.6g}" for x in robot.model.gravity.linear)
        page.line(f"gravity ({g}) m/s² in the axes of the root link")
    for note in robot.notes:
        page.line(f"note: {note}", style="red" if note.startswith("error") else None)
    if inspection.flat:
        names = ", ".join(link.name for link in inspection.flat)
        page.line(f"note: {count(len(inspection.flat), 'link')} without volume: {names}")


def _links(page: Page, inspection: Inspection) -> None:
    page.table(
        "Links",
        ("#", "link", "mass [kg]", "centre of mass [m]", "consistency margin"),
        (
            (
                str(link.index),
                link.name,
                number(link.mass, 6),
                "  ".join(f"{number(value, 4):>10}" for value in link.com),
                number(link.margin) if link.feasible else "INFEASIBLE",
            )
            for link in inspection.links
        ),
        text=(1, 4),
        red=[k for k, link in enumerate(inspection.links) if not link.feasible],
    )


def _joints(page: Page, inspection: Inspection) -> None:
    if not inspection.joints:
        return
    page.table(
        "Joints [rad, m, s, N·m, N]",
        ("#", "joint", "type", "parent", "moves", "lower", "upper", "speed", "effort"),
        (
            (
                *(str(joint.index), joint.name, joint.type, joint.parent, joint.link),
                *_numbers((joint.lower, joint.upper, joint.velocity, joint.effort), 4),
            )
            for joint in inspection.joints
        ),
        text=(1, 2, 3, 4),
    )
    page.table(
        f"Drives, friction law {inspection.robot.friction.model.name!r}",
        ("#", "joint", "gear ratio", "drive gain", "Ia", *inspection.joints[0].friction),
        (
            (
                *(str(joint.index), joint.name),
                *_numbers((joint.gear_ratio, joint.drive_gain, joint.rotor_inertia)),
                *_numbers(joint.friction.values()),
            )
            for joint in inspection.joints
        ),
        text=(1,),
    )


def _couplings(page: Page, inspection: Inspection) -> None:
    for motor, joint, ratio in inspection.couplings:
        page.line(f"the motor of {motor} also moves {joint}, ratio {number(ratio, 6)}")
    for name, value in inspection.coupling_coefficients.items():
        page.line(f"{name} = {number(value, 6)}")
    controller = inspection.robot.controller
    if controller is not None:
        page.line(f"comes with a joint controller at {number(controller.rate, 6)} Hz")


def _base_parameters(page: Page, inspection: Inspection) -> None:
    base = inspection.base
    page.table(
        f"Base parameters: {base.size} of {base.layout.size} parameters "
        f"({base.n_inertial} inertial, {base.n_rotor} rotor, {base.n_friction} friction)",
        ("#", "combination", "value"),
        (
            (str(k), expression, number(value, 6))
            for k, (expression, value) in enumerate(inspection.base_values.items(), start=1)
        ),
        text=(1,),
    )
    if base.weak:
        page.line(
            f"Weakly identifiable ({len(base.weak)}): {' '.join(base.weak)}, by less "
            "than a thousandth of their effect; are joints meant to be aligned?"
        )
    for title, names in (
        ("Only in combination", base.regrouped),
        ("Without any effect", base.unidentifiable),
    ):
        page.line(f"{title} ({len(names)}): {' '.join(names) or 'none'}")


def _numbers(values: Iterable[float], digits: int = 6) -> list[str]:
    return [number(value, digits) for value in values]
