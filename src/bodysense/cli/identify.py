"""`bodysense identify ROBOT LOG… -o DIR`: from recordings to a better robot."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bodysense.cli.identify_arguments import add_options
from bodysense.cli.identify_options import CHOICES, Options, options_of

if TYPE_CHECKING:
    from bodysense.identification.run import IdentificationRun
    from bodysense.robot import Robot


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Read, examine, identify, judge; write what came out; print the verdict."""
    from rich.console import Console

    from bodysense.files import require_free

    options = options_of(args)
    # What cannot be meant is refused before any file is read.
    method = None if options.of_a_load else options.identifier()
    preprocessing = options.preprocessing()
    if args.output is not None:
        require_free(args.output, replace=args.force)  # before any work is done
    if method is None:
        from bodysense.cli.identify_load import run_load

        return run_load(args, options)
    from bodysense.identification.run import identify
    from bodysense.signals.read import read_log

    with Console(stderr=True).status("reading …") as status:
        robot = robot_of(options)
        logs, validate = (
            [read_log(path, options.layout) for path in paths]
            for paths in (options.logs, options.validate)
        )
        options.check_digests((*logs, *validate))
        found = identify(
            robot,
            logs,
            method=method,
            validate=validate,
            preprocessing=preprocessing,
            friction=options.friction_choice(),
            knowledge=options.known(robot),
            seed=options.seed,
            allow_unusable=options.allow_unusable,
            progress=lambda step: status.update(f"{step} …"),
        )
        names: tuple[str, ...] = ()
        found = _with_files(found, options)
        notes: tuple[str, ...] = ()
        if args.output is not None:
            status.update("writing …")
            names, notes = _write(args.output, found, options, force=args.force)
    if args.json:
        from bodysense.identification.output import scores

        print(json.dumps(scores(found), indent=2, allow_nan=False))
    else:
        _print(found, args.output, names)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return 0 if found.identification.status.ok else 1


def robot_of(options: Options) -> Robot:
    """The robot, with the friction law that is named."""
    from bodysense.identification.run import with_law
    from bodysense.robot import load_robot

    robot = load_robot(
        options.robot,
        floating_base=False if options.fixed else None,
        actuators=options.actuators,
        allow_inconsistent=True,
    )
    if options.law not in CHOICES:
        shape = dict(options.friction_shape)
        robot = with_law(robot, options.law)
        robot = robot.with_friction(robot.friction.model, coefficients=None, **shape)
    return robot


def _with_files(found: IdentificationRun, options: Options) -> IdentificationRun:
    """The same with digests of the robot's, layout and actuator files in its provenance."""
    identification = found.identification
    files = options.file_digests()
    provenance = {**identification.provenance, "files": files}
    return replace(found, identification=replace(identification, provenance=provenance))


def _write(
    folder: str, found: IdentificationRun, options: Options, *, force: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write everything; returns the names of the files, and notes on those that are missing."""
    from bodysense.files import filled_together
    from bodysense.identification.output import OUTPUT_FILES, write_run
    from bodysense.report.identification_page import write_identification_page

    recordings = [diagnosis.digest for diagnosis in (*found.diagnoses, *found.validation)]
    with filled_together(folder, replace=force, names=OUTPUT_FILES) as draft:
        notes = write_run(draft, found, options.configuration(recordings))
        write_identification_page(
            draft / "report.html",
            found,
            command=f"bodysense identify --config {Path(folder) / 'config.yaml'} -o ANOTHER_FOLDER",
        )
        names = tuple(sorted(path.name for path in draft.iterdir()))
    return names, notes


def _print(found: IdentificationRun, output: str | None, names: tuple[str, ...]) -> None:
    from bodysense.cli.identify_tables import rendered

    print(rendered(found), end="")
    if output is not None:
        print(f"\nwritten to {output}: {', '.join(names)}")
