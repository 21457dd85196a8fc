"""`bodysense estimate ROBOT LOG --sensors FILE -o DIR`: what a robot felt during a recording."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bodysense.cli.estimate_options import EstimateOptions, add_arguments, options_of

if TYPE_CHECKING:
    from bodysense.cli.estimate_solved import Solved
    from bodysense.estimation import LogEstimate
    from bodysense.signals.raw_log import RawLog

__all__ = ["add_arguments", "run"]

OUTPUT_FILES = (
    "config.yaml",
    "estimates.parquet",
    "report.html",
    "sensors.parquet",
    "summary.json",
)
"""Everything that the command writes."""

_EXIT_INTERRUPTED = 130


def run(args: argparse.Namespace) -> int:
    """Read, estimate, write what came out, print what was felt."""
    from rich.console import Console

    from bodysense.estimation import estimate_log, load_estimation
    from bodysense.files import require_free
    from bodysense.signals.read import read_log

    options = options_of(args)
    if args.output is not None:
        require_free(args.output, replace=args.force)  # before any work is done
    try:
        with Console(stderr=True).status("reading …"):
            robot = options.load()
            setup = load_estimation(options.sensors, robot)
            directions = options.parameter_directions(robot)
            log = read_log(options.log, options.layout)
            options.check_digests(log.digest)
            estimate = estimate_log(
                setup,
                robot,
                log,
                cutoff=options.cutoff,
                parameter_directions=directions,
                state=options.state_setup(setup),
            )
        summary, names = _written(estimate, log, options, args)
    except KeyboardInterrupt:
        print(
            "bodysense: interrupted before anything could be kept: nothing written. Give the same "
            "command again; once moments are counted, an interruption keeps those that are done.",
            file=sys.stderr,
        )
        return _EXIT_INTERRUPTED
    for note in summary["notes"]:
        print(f"note: {note}", file=sys.stderr)
    if args.json:
        print(json.dumps(summary, indent=2, allow_nan=False))
    else:
        from bodysense.cli.estimate_tables import rendered

        print(rendered(summary), end="")
        if args.output is not None:
            print(f"\nwritten to {args.output}: {', '.join(names)}")
    return _EXIT_INTERRUPTED if summary["moments"] < estimate.t.size else 0


def _written(
    estimate: LogEstimate, log: RawLog, options: EstimateOptions, args: argparse.Namespace
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Solve the log, into the folder if there is one; returns the summary and names of files."""
    from bodysense.cli.estimate_solved import Solved
    from bodysense.estimation import LogFiles
    from bodysense.files import filled_together

    solved = Solved(estimate)
    if args.output is None:
        solved.run()
        return solved.summary(log), ()
    with filled_together(args.output, replace=args.force, names=OUTPUT_FILES) as draft:
        with LogFiles(draft, estimate.problem, estimate.variables) as files:
            solved.run(files.add)
        summary = solved.summary(log)
        _write_texts(draft, summary, options.configuration(log.digest))
        _write_page(draft, args.output, solved, summary["notes"], log, options)
        names = tuple(sorted(path.name for path in draft.iterdir()))
    return summary, names


def _write_texts(draft: Path, summary: dict[str, Any], configuration: dict[str, Any]) -> None:
    import yaml

    from bodysense.files import write_atomically

    write_atomically(draft / "summary.json", json.dumps(summary, indent=2, allow_nan=False))
    text = yaml.safe_dump(configuration, sort_keys=False, allow_unicode=True)
    write_atomically(
        draft / "config.yaml",
        f"# Do it again: bodysense estimate --config config.yaml -o ANOTHER_FOLDER\n{text}",
    )


def _write_page(
    draft: Path,
    output: str,
    solved: Solved,
    notes: list[str],
    log: RawLog,
    options: EstimateOptions,
) -> None:
    from bodysense.report.estimation_page import write_estimation_page

    digests = options.file_digests()
    write_estimation_page(
        draft / "report.html",
        solved.estimate,
        solved.totals,
        solved.curves,
        solved.seen,
        state=solved.state,
        notes=notes,
        source=log.source,
        command=f"bodysense estimate --config {Path(output) / 'config.yaml'} -o ANOTHER_FOLDER",
        provenance={
            "logs": [{"source": log.source, "sha256": log.digest}],
            "sensors": [{"source": options.sensors, "sha256": digests.get(options.sensors, "")}],
            "files": digests,
            "cutoff_hz": options.cutoff,
            "state": None if solved.state is None else solved.state.estimate.state.method,
            "parameter_covariance": options.parameter_covariance,
        },
    )
