"""`bodysense doctor ROBOT LOG...`: check recordings before they are used."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from bodysense.cli.tables import Page

if TYPE_CHECKING:
    from bodysense.doctor import Diagnosis, Severity

EXIT_NOT_USABLE = 1
_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "note": "none"}
_TITLES: dict[Severity, str] = {
    "error": "Errors: cannot be used as it is",
    "warning": "Warnings: deserve a look",
    "note": "Notes: dealt with",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "robot",
        metavar="ROBOT",
        help="a built-in robot (tx40, …), example:NAME, or a URDF, MJCF or DH file",
    )
    parser.add_argument(
        "logs", metavar="LOG", nargs="+", help="recordings of it: CSV, Parquet, MCAP or ROS 2 bags"
    )
    parser.add_argument(
        "--layout", metavar="FILE", help="meaning of the columns of the logs (YAML)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--actuators", metavar="FILE", help="an actuator file (YAML)")
    parser.add_argument("--fixed", action="store_true", help="fix the root link to the ground")
    parser.add_argument("--friction", metavar="NAME", help="friction law, e.g. coulomb, stribeck")


def run(args: argparse.Namespace) -> int:
    """Examine every log and print what was found; 1 if one of them cannot be used."""
    from rich.console import Console
    from rich.text import Text

    from bodysense.doctor import examine
    from bodysense.logs.layout_file import read_layout
    from bodysense.logs.read import read_log
    from bodysense.robot.io.load import load_robot

    robot = load_robot(
        args.robot,
        floating_base=False if args.fixed else None,
        friction=args.friction,
        actuators=args.actuators,
        allow_inconsistent=True,
    )
    layout = read_layout(args.layout) if args.layout else None
    diagnoses = []
    for log in args.logs:
        # Visible on a terminal only.
        with Console(stderr=True).status(Text(f"examining {log} …")):
            diagnosis = examine(robot, read_log(log, layout))
        diagnoses.append(diagnosis)
        if not args.json:
            gap = "\n" if len(diagnoses) > 1 else ""
            print(f"{gap}{_rendered(diagnosis)}", end="")
    if args.json:
        listed = [diagnosis.to_dict() for diagnosis in diagnoses]
        print(json.dumps(listed, indent=2, allow_nan=False))
    return 0 if all(diagnosis.usable for diagnosis in diagnoses) else EXIT_NOT_USABLE


def _rendered(diagnosis: Diagnosis) -> str:
    """The findings as text."""
    page = Page()
    page.line(diagnosis.source, style="bold")
    _segments(page, diagnosis)
    for severity in _TITLES:
        _findings(page, diagnosis, severity)
    style = "bold green" if diagnosis.usable else "bold red"
    page.line(diagnosis.verdict(), style=style, wrap=False)
    return page.text()


def _segments(page: Page, diagnosis: Diagnosis) -> None:
    from rich import box
    from rich.table import Table

    if not diagnosis.segments:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("segment", "from [s]", "to [s]", "samples"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("moving", overflow="fold")
    for k, (segment, moving) in enumerate(zip(diagnosis.segments, diagnosis.moving, strict=True)):
        shares = ", ".join(
            f"{name} {100.0 * share:.0f} %"
            for name, share in zip(diagnosis.joint_names, moving.mean(axis=0), strict=True)
        )
        start, end = segment.t[0], segment.t[-1]
        table.add_row(str(k + 1), f"{start:.10g}", f"{end:.10g}", str(segment.t.size), shares)
    page.show(table)


def _findings(page: Page, diagnosis: Diagnosis, severity: Severity) -> None:
    from rich import box
    from rich.table import Table

    result = diagnosis.of(severity)
    if not result:
        return
    page.line(_TITLES[severity], style=_STYLES[severity])
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_lines=False)
    table.add_column("kind", no_wrap=True)
    table.add_column("where", overflow="fold", ratio=2)
    table.add_column("what", overflow="fold", ratio=4)
    table.add_column("what is done", overflow="fold", ratio=3)
    for finding in result:
        table.add_row(finding.kind, finding.where, finding.message, finding.action)
    page.show(table)
