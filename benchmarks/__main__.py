"""The command: ``python -m benchmarks [NAME …]``, from the repository's root."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchmarks import (
    consistency,
    contact_stream,
    contacts,
    covariances,
    coverage,
    dynamics,
    excitation,
    first_try,
    identification,
    least_squares,
    live,
    long_log,
    map_dynamics,
    methods,
    momentum,
    payload,
    poor_data,
    regressor,
    rollout,
    sabotage,
    sensitivity,
    sensor_check,
    square_root,
    start,
    state,
    stream,
    threads,
)
from benchmarks.record import (
    PAGE,
    RESULTS,
    Record,
    machine_facts,
    page_with_table,
    terminal_table,
)
from benchmarks.result import NotMeasuredError, Result
from bodysense.files import write_atomically

BENCHMARKS: dict[str, Callable[..., tuple[Result, ...]]] = {
    "rollout": rollout.run,
    "regressor": regressor.run,
    "sensitivity": sensitivity.run,
    "threads": threads.run,
    "start": start.run,
    "dynamics": dynamics.run,
    "identification": identification.run,
    "least-squares": least_squares.run,
    "consistency": consistency.run,
    "square-root": square_root.run,
    "methods": methods.run,
    "coverage": coverage.run,
    "long-log": long_log.run,
    "payload": payload.run,
    "poor-data": poor_data.run,
    "first-try": first_try.run,
    "sabotage": sabotage.run,
    "excitation": excitation.run,
    "map-dynamics": map_dynamics.run,
    "state": state.run,
    "stream": stream.run,
    "contacts": contacts.run,
    "contact-stream": contact_stream.run,
    "momentum": momentum.run,
    "live": live.run,
    "sensor-check": sensor_check.run,
    "covariances": covariances.run,
}

STUDIES = frozenset({"contacts", "contact-stream"})
"""Long studies, run by name alone; their results are not among those that are kept."""


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; return 0 whether or not targets are reached."""
    parser = _parser()
    args = parser.parse_args(arguments)
    unknown = [name for name in args.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}: choose from {', '.join(BENCHMARKS)}")
    if args.repeat < 1:
        parser.error(f"--repeat is {args.repeat}: give at least 1")
    console = Console()
    if not console.is_terminal:  # a file has room for whole lines
        console = Console(width=160)
    if args.table:
        _publish(args.json or RESULTS)
        return 0
    if args.only and args.names != ["sabotage"]:
        parser.error("--only names damages: give it with sabotage alone")
    parts = {"only": args.only} if args.only else {}
    results: list[Result] = []
    for name in args.names or [name for name in BENCHMARKS if name not in STUDIES]:
        try:
            with console.status(f"measuring {name} …"):
                results += BENCHMARKS[name](args.repeat, **parts)
        except NotMeasuredError as reason:
            console.print(f"[yellow]not measured[/yellow] {name}: {reason}", highlight=False)
    console.print(terminal_table(results))
    missed = [f"{r.name}: {r.what}" for r in results if r.reached is False]
    for line in missed:
        console.print(f"[red]target missed[/red] {line}", highlight=False)
    # A part of the benchmarks must not replace the record of all.
    path = args.json or (None if args.names else RESULTS)
    if path is not None:
        Record(machine_facts(), tuple(results)).save(path)
        if path == RESULTS:
            _publish(path)
    return 0


def _publish(path: Path) -> None:
    """Put the table of a record into the documentation."""
    page = PAGE.read_text(encoding="utf-8")
    write_atomically(PAGE, page_with_table(page, Record.load(path)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"what to run: {', '.join(BENCHMARKS)}; all but long studies "
        f"({', '.join(sorted(STUDIES))}) if none is given",
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="where to write the results (default: benchmarks/results.json when all are run)",
    )
    parser.add_argument(
        "--repeat", type=int, default=7, metavar="N", help="rounds of each comparison (default: 7)"
    )
    parser.add_argument(
        "--only",
        metavar="TEXT",
        help="of sabotage: the damages whose name holds this, e.g. zero; none: clean recordings",
    )
    parser.add_argument(
        "--table",
        action="store_true",
        help="run nothing; write the table of the results into docs/benchmarks.md",
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
