"""`bodysense inspect ROBOT`: links, joints, drives and base parameters of a robot."""

from __future__ import annotations

import argparse
import json
import math
from typing import TYPE_CHECKING

from bodysense.cli.tables import Page

if TYPE_CHECKING:
    from bodysense.robot.inspection import Inspection


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "robot",
        metavar="ROBOT",
        help="a built-in robot (tx40, …), example:NAME, or a URDF, MJCF or DH file",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    base = parser.add_mutually_exclusive_group()
    base.add_argument("--floating", action="store_true", help="let the root link float")
    base.add_argument("--fixed", action="store_true", help="fix the root link to the ground")
    parser.add_argument("--friction", metavar="NAME", help="friction law, e.g. coulomb, stribeck")
    parser.add_argument("--actuators", metavar="FILE", help="an actuator file (YAML)")


def run(args: argparse.Namespace) -> int:
    """Load the robot, consistent or not, and print its tables."""
    from rich.console import Console

    from bodysense.robot.inspection import inspect_robot
    from bodysense.robot.io.load import load_robot

    robot = load_robot(
        args.robot,
        floating_base=True if args.floating else False if args.fixed else None,
        friction=args.friction,
        actuators=args.actuators,
        allow_inconsistent=True,
    )
    # Visible on a terminal only; the first run compiles, and a humanoid takes seconds.
    with Console(stderr=True).status("computing the base parameters …"):
        inspection = inspect_robot(robot)
    if args.json:
        print(json.dumps(inspection.to_dict(), indent=2, allow_nan=False))
    else:
        print(_rendered(inspection), end="")
    return 0


def _rendered(inspection: Inspection) -> str:
    """The tables as text."""
    page = Page()
    _overview(page, inspection)
    _links(page, inspection)
    _joints(page, inspection)
    _drives(page, inspection)
    _base_parameters(page, inspection)
    return page.text()


def _overview(page: Page, inspection: Inspection) -> None:
    robot = inspection.robot
    base = "floating" if robot.floating_base else "fixed"
    page.line(robot.name, style="bold")
    page.line(
        f"{_count(len(inspection.joints), 'joint')}, {base} base, "
        f"{_count(len(inspection.links), 'moving link')}, {inspection.total_mass:.6g} kg"
    )
    if robot.source is not None:
        page.line(f"from {robot.source.path}", wrap=False)
    for note in robot.notes:
        page.line(f"note: {note}")
    if inspection.flat:
        names = ", ".join(link.name for link in inspection.flat)
        page.line(f"note: {_count(len(inspection.flat), 'link')} without volume: {names}")
    bad = inspection.infeasible
    if bad:
        page.line("")
        page.line(f"{_count(len(bad), 'link')} with infeasible inertia:", style="bold red")
        for link in bad:
            page.line(f"  {link.name}: {link.reason}", style="red")


def _links(page: Page, inspection: Inspection) -> None:
    table = page.table(
        "Links",
        "#",
        "link",
        "mass [kg]",
        "centre of mass [m]",
        "consistency margin",
        text=(1, 4),
    )
    for link in inspection.links:
        table.add_row(
            str(link.index),
            link.name,
            _number(link.mass),
            "  ".join(f"{_number(value, 4):>10}" for value in link.com),
            _number(link.margin, 3) if link.feasible else "INFEASIBLE",
            style=None if link.feasible else "red",
        )
    page.show(table)


def _joints(page: Page, inspection: Inspection) -> None:
    table = page.table(
        "Joints [rad, m, s, N·m, N]",
        *("#", "joint", "type", "parent", "moves", "lower", "upper", "speed", "effort"),
        text=(1, 2, 3, 4),
    )
    for joint in inspection.joints:
        numbers = (joint.lower, joint.upper, joint.velocity, joint.effort)
        table.add_row(
            str(joint.index),
            joint.name,
            joint.type,
            joint.parent,
            joint.link,
            *(_number(value, 4) for value in numbers),
        )
    if inspection.joints:
        page.show(table)


def _drives(page: Page, inspection: Inspection) -> None:
    terms = tuple(inspection.joints[0].friction) if inspection.joints else ()
    table = page.table(
        f"Drives, friction law {inspection.robot.friction.model.name!r}",
        *("#", "joint", "gear ratio", "drive gain", "Ia", *terms),
        text=(1,),
    )
    for joint in inspection.joints:
        numbers = (joint.gear_ratio, joint.drive_gain, joint.rotor_inertia)
        table.add_row(
            str(joint.index),
            joint.name,
            *(_number(value) for value in (*numbers, *joint.friction.values())),
        )
    if inspection.joints:
        page.show(table)
    for motor, joint_name, ratio in inspection.couplings:
        page.line(f"the motor of {motor} also moves {joint_name}, ratio {_number(ratio)}")
    for name, value in inspection.coupling_coefficients.items():
        page.line(f"{name} = {_number(value)}")
    controller = inspection.robot.controller
    if controller is not None:
        page.line(f"comes with a joint controller at {_number(controller.rate)} Hz")


def _base_parameters(page: Page, inspection: Inspection) -> None:
    base = inspection.base
    table = page.table(
        f"Base parameters: {base.size} of {base.layout.size} parameters "
        f"({base.n_inertial} inertial, {base.n_rotor} rotor, {base.n_friction} friction)",
        *("#", "combination", "value"),
        text=(1,),
    )
    for k, (expression, value) in enumerate(inspection.base_values.items(), start=1):
        table.add_row(str(k), expression, _number(value))
    page.show(table)
    if base.weak:
        page.line(
            f"Weakly identifiable ({len(base.weak)}): {' '.join(base.weak)}, by less than a "
            "thousandth of their effect; are joints meant to be aligned?"
        )
    for title, names in (
        ("Only in combination", base.regrouped),
        ("Without any effect", base.unidentifiable),
    ):
        page.line(f"{title} ({len(names)}): {' '.join(names) or 'none'}")


def _number(value: float, digits: int = 6) -> str:
    return f"{value:.{digits}g}" if math.isfinite(value) else "-"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
