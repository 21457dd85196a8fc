"""`bodysense doctor ROBOT LOG...`: check recordings before they are used."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from bodysense.cli.fit import add_locked
from bodysense.cli.options import LAYOUT_HELP, add_robot_options, load_robot, locked_joints
from bodysense.cli.tables import Page

if TYPE_CHECKING:
    from bodysense.doctor import Diagnosis, Severity
    from bodysense.robot import Robot

_EXIT_NOT_USABLE = 1
_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "note": "none"}
_TITLES: dict[Severity, str] = {
    "error": "Errors: cannot be used as it is",
    "warning": "Warnings: deserve a look",
    "note": "Notes: dealt with",
}
_ACTIONS: dict[Severity, str] = {
    "error": "what to do",
    "warning": "what is done, or to do",
    "note": "what is done",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_robot_options(parser)
    parser.add_argument(
        "logs", metavar="LOG", nargs="+", help="recordings of it: CSV, Parquet, MCAP or ROS 2 bags"
    )
    parser.add_argument("--layout", metavar="FILE", help=LAYOUT_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Examine every log and print what was found; 1 if one of them cannot be used."""
    from rich.console import Console
    from rich.text import Text

    from bodysense.doctor import examine, lock_unrecorded
    from bodysense.logs.layout import read_layout
    from bodysense.logs.read import read_log

    robot = load_robot(args, lock=False)
    layout = read_layout(args.layout) if args.layout else None
    logs = [read_log(log, layout) for log in args.logs]
    robot = lock_unrecorded(robot, logs, locked_joints(args.lock))
    diagnoses = []
    for log in logs:
        # Visible on a terminal only.
        with Console(stderr=True).status(Text(f"examining {log.source} …")):
            diagnosis = examine(robot, log)
        diagnoses.append(diagnosis)
        if not args.json:
            gap = "\n" if len(diagnoses) > 1 else ""
            print(f"{gap}{_rendered(diagnosis, robot, layout is not None)}", end="")
    if args.json:
        locked = {} if robot.locked is None else dict(robot.locked.positions)
        listed = [{**diagnosis.to_dict(), "locked": locked} for diagnosis in diagnoses]
        print(json.dumps(listed, indent=2, allow_nan=False))
    return 0 if all(diagnosis.usable for diagnosis in diagnoses) else _EXIT_NOT_USABLE


def _rendered(diagnosis: Diagnosis, robot: Robot, has_layout: bool) -> str:
    """The findings as text."""
    page = Page()
    page.line(diagnosis.source, style="bold")
    add_locked(page, robot)
    _segments(page, diagnosis)
    for severity in _TITLES:
        _findings(page, diagnosis, severity)
    if not has_layout and any("layout file" in finding.action for finding in diagnosis.findings):
        page.line("A layout file is a YAML file with such lines: give it with --layout FILE.")
    style = "bold green" if diagnosis.usable else "bold red"
    page.line(diagnosis.verdict(), style=style, wrap=False)
    return page.text()


def _segments(page: Page, diagnosis: Diagnosis) -> None:
    if not diagnosis.segments:
        return
    segments = zip(diagnosis.segments, diagnosis.moving, strict=True)
    page.table(
        "",
        ("segment", "from [s]", "to [s]", "samples", "moving"),
        (
            (
                str(k),
                f"{segment.t[0]:.10g}",
                f"{segment.t[-1]:.10g}",
                str(segment.t.size),
                ", ".join(
                    f"{name} {100.0 * share:.0f} %"
                    for name, share in zip(diagnosis.joint_names, moving.mean(axis=0), strict=True)
                ),
            )
            for k, (segment, moving) in enumerate(segments, start=1)
        ),
        text=(4,),
    )


def _findings(page: Page, diagnosis: Diagnosis, severity: Severity) -> None:
    findings = diagnosis.of(severity)
    if not findings:
        return
    page.line(_TITLES[severity], style=_STYLES[severity])
    page.table(
        "",
        ("kind", "where", "what", _ACTIONS[severity]),
        ((f.kind, f.where, f.message, f.action) for f in findings),
        text=range(4),
        whole=(0,),
        ratios=(2, 4, 3),
    )
