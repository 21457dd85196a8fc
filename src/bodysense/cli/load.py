"""What `bodysense payload` and `bodysense gains` share: options, the run, and tables."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from bodysense.cli.fit_options import FILTERING, FitOptions, add_fit_options
from bodysense.cli.options import add_run_options, print_run, write_folder
from bodysense.cli.tables import Page
from bodysense.errors import MismatchError, unknown_name

if TYPE_CHECKING:
    from bodysense.identification.payload.drive_gains import DriveGains
    from bodysense.identification.payload.experiment import LoadExperiment
    from bodysense.identification.payload.payload import Payload
    from bodysense.logs.log import Log
    from bodysense.robot import Robot
    from bodysense.status import Status


def add_load_arguments(parser: argparse.ArgumentParser, output: str) -> None:
    """Declare the arguments that both commands have."""
    add = parser.add_argument
    add(
        "robot",
        metavar="ROBOT",
        nargs="?",
        help="the arm: a URDF, MJCF or DH file, a built-in robot (tx40, …) or example:NAME",
    )
    add("logs", metavar="LOG", nargs="*", help="recordings with the load")
    add("--unloaded", metavar="LOG", nargs="+", action="extend", help="recordings without the load")
    add("--link", metavar="LINK", dest="payload", help="that holds the load (the last link)")
    add_run_options(parser, output, "the result")
    add_fit_options(
        parser,
        friction="auto (default), own, or a law: coulomb, offset, stribeck, … with its shape as in "
        "coulomb:width=0.02",
        settings="a setting of the filters: order, band, border, still_speed, decimate",
    )


@dataclass(frozen=True, kw_only=True)
class LoadOptions(FitOptions):
    """Settings of a run on recordings with and without a load."""

    recordings: ClassVar[tuple[str, ...]] = ("logs", "unloaded")

    unloaded: tuple[str, ...] = ()
    payload: str | None = None

    @classmethod
    def _set(cls, table: dict[str, object], pairs: dict[str, str]) -> None:
        super()._set(table, pairs)
        for name in pairs:
            raise unknown_name("setting of the filters", name, FILTERING)

    def __post_init__(self) -> None:
        """Refuse laws that cannot be chosen from these recordings, and a recording as link."""
        if self.law == "choose" or self.law != self.friction:
            raise MismatchError(
                f"--friction {self.friction} is for `bodysense identify`: identify the arm first, "
                "or name the law, e.g. stribeck."
            )
        if self.payload and Path(self.payload).is_file():
            raise MismatchError(
                f"{self.payload} is a recording where the name of the link is expected: put "
                f"recordings first, as in bodysense {self.command} ROBOT LOG --link LINK."
            )


@dataclass(frozen=True)
class LoadRun:
    """A result, and how it is written and printed."""

    result: Payload | DriveGains
    experiment: LoadExperiment
    files: tuple[str, ...]
    write: Callable[[Path, LoadExperiment], Sequence[str]]
    text: str


def run_load(
    args: argparse.Namespace,
    options: LoadOptions,
    solve: Callable[[LoadExperiment, Robot, Sequence[Log]], LoadRun],
    robot_uncertainty: float | None = None,
) -> int:
    """Read, examine, identify; write the result; print it."""
    from rich.console import Console

    from bodysense.files import require_free
    from bodysense.identification.payload.experiment import ROBOT_UNCERTAINTY, prepare
    from bodysense.logs.read import read_log

    preprocessing = options.preprocessing()
    if args.output is not None:
        require_free(args.output, replace=bool(args.force))  # before any work is done
    with Console(stderr=True).status("reading …") as status:
        robot = options.load_robot()
        loaded, unloaded = (
            [read_log(path, options.layout) for path in paths]
            for paths in (options.logs, options.unloaded)
        )
        logs = (*loaded, *unloaded)
        options.check_digests(*(log.digest for log in logs))
        arm = robot_uncertainty
        experiment = prepare(
            robot,
            loaded,
            unloaded,
            link=options.payload or None,
            preprocessing=preprocessing,
            friction=options.friction_choice(),
            robot_uncertainty=ROBOT_UNCERTAINTY if arm is None else arm,
            allow_unusable=options.allow_unusable,
            files=options.file_digests(),
            progress=lambda step: status.update(f"{step} …"),
        )
        run = solve(experiment, robot, logs)
        status.update("writing …")
        names, notes = write_folder(args, run.files, lambda draft: run.write(draft, experiment))
    print_run(args, run.text, run.result.to_dict(), names)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return 0 if run.result.status.ok else 1


def configuration(options: LoadOptions, experiment: LoadExperiment) -> dict[str, object]:
    """What config.yaml holds."""
    digests = [d.digest for d in (*experiment.loaded, *experiment.unloaded)]
    return options.configuration(*digests)


def add_recordings(page: Page, experiment: LoadExperiment) -> None:
    """Add what the doctor says of the recordings, and the choices made."""
    for role, diagnoses in (("loaded", experiment.loaded), ("unloaded", experiment.unloaded)):
        for diagnosis in diagnoses:
            page.line(f"{role}: {diagnosis.verdict()}", wrap=False)
            for finding in (*diagnosis.of("error"), *diagnosis.of("warning")):
                page.line(f"  {finding}")
    settings, law = experiment.problem.settings, experiment.robot.friction.model.name
    page.line(
        f"cut-off {settings.cutoff or math.nan:.3g} Hz, friction law {law!r}, "
        f"{sum(f.rows for f in experiment.problem.factors.values())} rows"
    )


def add_status(page: Page, status: Status) -> None:
    """Add how it ended, and what to do about it."""
    page.line("")
    if not status.ok:
        page.line(f"FAILED: {status.message}", style="bold red")
    else:
        page.line("SOLVED", style="bold green")
    for note in status.notes:
        page.line(f"- {note}")
