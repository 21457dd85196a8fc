"""`bodysense estimate ROBOT LOG --sensors FILE -o DIR`: what a robot felt during a recording."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bodysense.cli.estimate_options import EstimateOptions, add_arguments, options_of

if TYPE_CHECKING:
    from bodysense.estimation import LogEstimate, LogTotals, Observability
    from bodysense.report.sections.estimated_curves import EstimatedCurves
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


def run(args: argparse.Namespace) -> int:
    """Read, estimate, write what came out, print what was felt."""
    from rich.console import Console

    from bodysense.estimation import estimate_log, load_estimation
    from bodysense.estimation.map_dynamics.log.recording import CUTOFF
    from bodysense.files import require_free
    from bodysense.signals.read import read_log

    options = options_of(args)
    if args.output is not None:
        require_free(args.output, replace=args.force)  # before any work is done
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
            cutoff=CUTOFF if options.cutoff is None else options.cutoff,
            parameter_directions=directions,
        )
    summary, names = _written(estimate, log, options, args)
    for note in estimate.notes:
        print(f"note: {note}", file=sys.stderr)
    if args.json:
        print(json.dumps(summary, indent=2, allow_nan=False))
    else:
        from bodysense.cli.estimate_tables import rendered

        print(rendered(summary), end="")
        if args.output is not None:
            print(f"\nwritten to {args.output}: {', '.join(names)}")
    return 0


def _written(
    estimate: LogEstimate, log: RawLog, options: EstimateOptions, args: argparse.Namespace
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Solve the log, into the folder if there is one; returns the summary and names of files."""
    from rich.console import Console

    from bodysense.estimation import LogFiles, LogTotals
    from bodysense.files import filled_together
    from bodysense.report.sections.estimated_curves import EstimatedCurves

    totals = LogTotals(estimate)
    curves = EstimatedCurves(estimate, totals.links)
    with Console(stderr=True).status("looking what can be seen …"):
        seen = _seen(estimate)
    if args.output is None:
        _solve(estimate, totals.add)
        return _summary(estimate, totals, seen, log), ()
    with filled_together(args.output, replace=args.force, names=OUTPUT_FILES) as draft:
        with LogFiles(draft, estimate.problem) as files:
            _solve(estimate, totals.add, curves.add, files.add)
        summary = _summary(estimate, totals, seen, log)
        _write_texts(draft, summary, options.configuration(log.digest))
        _write_page(draft, args.output, estimate, totals, curves, seen, log, options)
        names = tuple(sorted(path.name for path in draft.iterdir()))
    return summary, names


def _solve(estimate: LogEstimate, *takers: Callable[[Any], None]) -> None:
    with _progress(estimate.t.size) as advance:
        for chunk in estimate.chunks(detail="blocks", judge=True):
            for take in takers:
                take(chunk)
            advance(chunk.t.size)


def _seen(estimate: LogEstimate) -> Observability:
    """What the sensors can see at some moments of the log."""
    import numpy as np

    from bodysense.estimation import observability

    r = estimate.recording
    some = np.unique(np.linspace(0, r.t.size - 1, 3).astype(int))
    return observability(
        estimate.problem,
        r.q[some],
        r.dq[some],
        base_twist=None if r.base_twist is None else r.base_twist[some],
        gravity=estimate.setup.gravity,
    )


def _summary(
    estimate: LogEstimate, totals: LogTotals, seen: Observability, log: RawLog
) -> dict[str, Any]:
    r = estimate.recording
    return {
        "robot": estimate.problem.robot.name,
        "log": log.source,
        "moments": int(r.t.size),
        "duration": float(r.t[-1] - r.t[0]),
        "pieces": len(r.starts),
        "left_out": dict(r.counts),
        "unknowns": estimate.problem.variables.size,
        "readings": estimate.problem.layout.size,
        "parameters_considered": estimate.parameters is not None,
        **totals.to_dict(),
        "observability": seen.summary(),
        "notes": list(estimate.notes),
    }


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
    estimate: LogEstimate,
    totals: LogTotals,
    curves: EstimatedCurves,
    seen: Observability,
    log: RawLog,
    options: EstimateOptions,
) -> None:
    from bodysense.report.estimation_page import write_estimation_page

    digests = options.file_digests()
    write_estimation_page(
        draft / "report.html",
        estimate,
        totals,
        curves,
        seen,
        source=log.source,
        command=f"bodysense estimate --config {Path(output) / 'config.yaml'} -o ANOTHER_FOLDER",
        provenance={
            "logs": [{"source": log.source, "sha256": log.digest}],
            "sensors": [{"source": options.sensors, "sha256": digests.get(options.sensors, "")}],
            "files": digests,
            "cutoff_hz": options.cutoff,
            "parameter_covariance": options.parameter_covariance,
        },
    )


@contextmanager
def _progress(moments: int) -> Iterator[Callable[[int], None]]:
    """A bar over all moments, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    with Progress(
        TextColumn("estimating"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} moments"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=moments)
        yield lambda n: bar.advance(task, n)
