"""`bodysense estimate ROBOT LOG --sensors FILE -o DIR`: what a robot felt during a recording."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from bodysense.cli.estimate_options import EstimateOptions, add_arguments, options_of
from bodysense.cli.tables import Page
from bodysense.estimation import (
    LogEstimate,
    LogSeen,
    LogTotals,
    Observability,
    StateLogEstimate,
    StateTotals,
)
from bodysense.logs.log import RawLog
from bodysense.report.rendering import BAND
from bodysense.report.sections.estimated_curves import EstimatedCurves

if TYPE_CHECKING:
    from bodysense.estimation import LogEstimate
    from bodysense.logs.log import RawLog


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
    from bodysense.logs.read import read_log

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
            "command again; once samples are counted, an interruption keeps those that are done.",
            file=sys.stderr,
        )
        return _EXIT_INTERRUPTED
    for note in summary["notes"]:
        print(f"note: {note}", file=sys.stderr)
    if args.json:
        print(json.dumps(summary, indent=2, allow_nan=False))
    else:
        print(rendered(summary), end="")
        if args.output is not None:
            print(f"\nwritten to {args.output}: {', '.join(names)}")
    return _EXIT_INTERRUPTED if summary["samples"] < estimate.t.size else 0


def _written(
    estimate: LogEstimate, log: RawLog, options: EstimateOptions, args: argparse.Namespace
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Solve the log, into the folder if there is one; returns the summary and names of files."""
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


# `Solved`: a log that `bodysense estimate` solves, and everything gathered on the way.


class Solved:
    """A log and everything that is gathered while it is solved."""

    def __init__(self, estimate: LogEstimate) -> None:
        """Start empty."""
        self.estimate = estimate
        self.totals = LogTotals(estimate)
        self.curves = EstimatedCurves(estimate, self.totals.links)
        self.state: StateTotals | None = None
        if isinstance(estimate, StateLogEstimate):
            self.state = StateTotals(estimate)
        self._seen = LogSeen(estimate)
        self.seen: Observability
        self.samples = 0

    def run(self, *more: Callable[[Any], None]) -> None:
        """Solve the log; an interruption leaves the chunks that are done."""
        takers = [self.totals.add, self.curves.add, self._seen.add, *more]
        if self.state is not None:
            takers.append(self.state.add)
        chunks = self.estimate.chunks(detail="blocks", judge=True)
        with _progress(self.estimate.t.size) as advance:
            while True:
                try:
                    chunk = next(chunks, None)
                except KeyboardInterrupt:
                    if not self.samples:
                        raise
                    break
                if chunk is None:
                    break
                for take in takers:
                    take(chunk)
                self.samples += chunk.t.size
                advance(chunk.t.size)
        with Console(stderr=True).status("looking what can be seen …"):
            self.seen = self._seen.observability()

    @property
    def notes(self) -> list[str]:
        """What the user should know."""
        notes = list(self.estimate.notes)
        if self.state is not None:
            notes += self.state.notes
        if self.samples < self.estimate.t.size:
            notes.append(
                f"interrupted: these are the first {self.samples} of {self.estimate.t.size} samples"
            )
        return notes

    def summary(self, log: RawLog) -> dict[str, Any]:
        """What is printed and written as JSON."""
        r = self.estimate.recording
        summary = {
            "robot": self.estimate.problem.robot.name,
            "log": log.source,
            "samples": self.samples,
            "duration": float(r.t[self.samples - 1] - r.t[0]),
            "pieces": sum(start < self.samples for start in r.starts),
            "left_out": dict(r.counts),
            "unknowns": self.estimate.variables.size,
            "readings": self.estimate.problem.layout.size,
            "parameters_considered": self.estimate.considers_parameters,
            **self.totals.to_dict(),
            "observability": self.seen.summary(),
            "notes": self.notes,
        }
        return summary if self.state is None else {**summary, "state": self.state.to_dict()}


@contextmanager
def _progress(samples: int) -> Iterator[Callable[[int], None]]:
    """A bar over all samples, on a terminal only."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("estimating"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} samples"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=samples)
        yield lambda n: bar.advance(task, n)


# What `bodysense estimate` prints: contacts, positions, sensors that disagree, what is not seen.

_SENSORS = 30
_TOUCHES = 20


def rendered(summary: Mapping[str, Any]) -> str:
    """The summary as text."""
    page = Page()
    page.line(
        f"{summary['robot']}, {summary['log']}: {summary['samples']} samples over "
        f"{summary['duration']:.4g} s, {summary['readings']} readings for {summary['unknowns']} "
        "unknowns",
        style="bold",
    )
    for reason, n in summary["left_out"].items():
        page.line(f"  {n} rows {reason} are left out")
    _contacts(page, summary)
    if "state" in summary:
        _state(page, summary["state"])
    _sensors(page, summary["sensors"], stated="state" in summary)
    if summary["untrue"]:
        page.line(f"{summary['untrue']}.", style="bold")
    page.line("")
    page.line(f"Seen: {summary['observability']}")
    return page.text()


def _contacts(page: Page, summary: Mapping[str, Any]) -> None:
    contacts = summary["contacts"]
    for link in summary["blind"]:
        page.line(f"it cannot be told whether anything touched {link}: no reading shows it")
    if not contacts:
        if not summary["touched"]:
            page.line("no external wrench was allowed for (external_wrenches of the sensors file)")
        for link, (best, worst) in summary["force_sigma"].items():
            if link not in summary["blind"]:
                page.line(
                    f"no external wrench on {link} differs from what was believed; less than "
                    f"{BAND * best:.2g} N would not show, nor {BAND * worst:.2g} N in the "
                    "direction that is told worst"
                )
        return
    title = "Contacts: when the external wrench differs from what was believed, with 95 % bands"
    forces = ("median force [N]", "largest force [N]", "95 % band [N]")
    table = page.table(title, "link", "from [s]", "to [s]", *forces, "at [s]", text=(0,))
    for contact in contacts[:_TOUCHES]:
        numbers = (f"{contact[key]:.2f}" for key in ("start", "end"))
        band = f"\N{PLUS-MINUS SIGN} {BAND * contact['sigma']:.1f}"
        sizes = (f"{contact[key]:.1f}" for key in ("usual", "force"))
        table.add_row(contact["link"], *numbers, *sizes, band, f"{contact['at']:.2f}")
    page.show(table)
    if len(contacts) > _TOUCHES:
        page.line(f"… and {len(contacts) - _TOUCHES} more, see summary.json")
    for sentence in summary["reversals"][:_TOUCHES]:
        page.line(sentence)


def _state(page: Page, state: Mapping[str, Any]) -> None:
    """Joints whose positions were not measured first, and biases."""
    title = "Positions: estimated, with 95 % bands"
    columns = ("joint", "encoder", "from", "to", "band", "widest", "unit")
    table = page.table(title, *columns, text=(0, 1, 6))
    ordered = sorted(state["joints"], key=lambda joint: joint["measured"])
    for joint in ordered[:_SENSORS]:
        table.add_row(
            joint["joint"],
            "yes" if joint["measured"] else "none",
            *(f"{joint[key]:.2f}" for key in ("lowest", "highest")),
            *(f"\N{PLUS-MINUS SIGN} {BAND * joint[key]:.2g}" for key in ("std", "worst")),
            joint["unit"],
        )
    page.show(table)
    if len(ordered) > _SENSORS:
        page.line(f"… and {len(ordered) - _SENSORS} more, see summary.json")
    if not state["biases"]:
        return
    title = "Biases, after the last readings, with 95 % bands"
    table = page.table(title, "sensor", "bias", "band", "unit", text=(0, 3))
    for bias in state["biases"][:_SENSORS]:
        band = f"\N{PLUS-MINUS SIGN} {BAND * bias['std']:.2g}"
        table.add_row(bias["name"], f"{bias['mean']:.3g}", band, bias["unit"])
    page.show(table)


def _sensors(page: Page, sensors: list[Mapping[str, Any]], *, stated: bool) -> None:
    title = "Sensors: residuals, readings minus what the estimate says that they should be"
    columns = ("sensor", "rms", "stated std", "ratio", "beyond 95 %", "absent")
    table = page.table(title, *columns, text=(0,))
    # Those that disagree most first; what cannot be judged last.
    ordered = sorted(
        sensors, key=lambda s: (s["contradicted"], -1.0 if s["ratio"] is None else s["ratio"])
    )[::-1]
    for s in ordered[:_SENSORS]:
        table.add_row(
            s["name"],
            _number(s["rms"]),
            _number(s["stated"]),
            _number(s["ratio"]),
            "-" if s["beyond"] is None else f"{100.0 * s['beyond']:.1f} %",
            str(s["absent"]),
        )
    page.show(table)
    if len(sensors) > _SENSORS:
        page.line(f"… and {len(sensors) - _SENSORS} more, see summary.json")
    # Where the state is estimated it follows the readings too.
    over, right = ("the stated std", "at most ") if stated else ("what it should be", "")
    page.line(
        f"  ratio: how large residuals are, rms over {over}; {right}1 is right. beyond: how many "
        f"are outside their 95 % band; {right}5 % is right. Many beyond: a std is too small. A "
        "large ratio with few beyond: a few readings are far off."
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
