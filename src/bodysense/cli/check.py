"""`bodysense check ROBOT...`: what is wrong with robot descriptions, before any recording."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from bodysense.cli.tables import Page

if TYPE_CHECKING:
    from bodysense.robot.checks.check import RobotCheck

_EXIT_FINDINGS = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "robots",
        metavar="ROBOT",
        nargs="+",
        help="robots: built in (tx40, …), example:NAME, or URDF, MJCF or DH files",
    )
    base = parser.add_mutually_exclusive_group()
    base.add_argument("--floating", action="store_true", help="let the root link float")
    base.add_argument("--fixed", action="store_true", help="fix the root link to the ground")
    parser.add_argument(
        "--package-dirs",
        metavar="FOLDER",
        action="append",
        default=[],
        help="a folder with packages of meshes (package://…); may be given several times",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 on warnings, too")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Check every robot and print what was found; 1 if one of them has errors."""
    from rich.console import Console
    from rich.text import Text

    from bodysense.robot.checks.check import check_robot

    floating = True if args.floating else False if args.fixed else None
    checks = []
    for robot in args.robots:
        with Console(stderr=True).status(Text(f"checking {robot} …")):  # on a terminal only
            checks.append(
                check_robot(robot, floating_base=floating, package_dirs=args.package_dirs)
            )
        if not args.json:
            print(_rendered(checks[-1]), end="")
    if args.json:
        print(json.dumps([check.to_dict() for check in checks], indent=2, allow_nan=False))
    fails = ("error", "warning") if args.strict else ("error",)
    bad = any(finding.severity in fails for check in checks for finding in check.findings)
    return _EXIT_FINDINGS if bad else 0


def _rendered(check: RobotCheck) -> str:
    """The findings as text."""
    page = Page()
    style = "bold red" if not check.ok else "yellow" if check.of("warning") else "green"
    page.line(check.verdict(), style=style, wrap=False)
    if check.findings:
        rows = [(f.severity, f.kind, f.where, f.message, f.action) for f in check.findings]
        red = [k for k, finding in enumerate(check.findings) if finding.severity == "error"]
        page.table(
            "",
            ("severity", "kind", "where", "what", "what to do"),
            rows,
            text=range(5),
            whole=(0, 1),
            ratios=(2, 4, 3),
            red=red,
        )
    return page.text()
