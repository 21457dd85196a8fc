"""`bodysense estimate ROBOT LOG --sensors FILE -o DIR`: wrenches and torques during a recording."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bodysense.cli.estimate_options import EstimateOptions, add_arguments, options_of
from bodysense.cli.tables import Page

if TYPE_CHECKING:
    from bodysense.estimation import EstimationRun, LogEstimate
    from bodysense.logs.log import Log


__all__ = ["add_arguments", "run"]

_OUTPUT_FILES = (
    "config.yaml",
    "estimates.parquet",
    "report.html",
    "sensors.parquet",
    "summary.json",
)
"""Everything that the command writes."""

_EXIT_INTERRUPTED = 130


def run(args: argparse.Namespace) -> int:
    """Read, estimate, write and print."""
    from rich.console import Console

    from bodysense.estimation import load_estimation, prepare_log
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
            estimate = prepare_log(
                setup,
                robot,
                log,
                cutoff=options.cutoff,
                parameter_directions=directions,
                state=options.state_setup(setup),
            )
        result, names = _solve(estimate, log, options, args)
    except KeyboardInterrupt:
        print(
            "bodysense: interrupted before anything could be kept: nothing written. Give the same "
            "command again; once samples are counted, an interruption keeps those that are done.",
            file=sys.stderr,
        )
        return _EXIT_INTERRUPTED
    summary = result.to_dict()
    for note in summary["notes"]:
        print(f"note: {note}", file=sys.stderr)
    if args.json:
        print(json.dumps(summary, indent=2, allow_nan=False))
    else:
        print(rendered(summary), end="")
        if args.output is not None:
            print(f"\nwritten to {args.output}: {', '.join(names)}")
    return _EXIT_INTERRUPTED if result.interrupted else 0


def _solve(
    estimate: LogEstimate, log: Log, options: EstimateOptions, args: argparse.Namespace
) -> tuple[EstimationRun, tuple[str, ...]]:
    """Solve the log, into the folder if there is one; returns the run and names of files."""
    from bodysense.estimation import solve_log
    from bodysense.files import filled_together

    if args.output is None:
        with _progress() as progress:
            return solve_log(estimate, source=log.source, progress=progress), ()
    with filled_together(args.output, replace=args.force, names=_OUTPUT_FILES) as draft:
        with _progress() as progress:
            result = solve_log(estimate, source=log.source, folder=draft, progress=progress)
        result.save(draft)
        _write_configuration(draft, options.configuration(log.digest))
        _write_page(draft, args.output, result, log, options)
        names = tuple(sorted(path.name for path in draft.iterdir()))
    return result, names


def _write_configuration(draft: Path, configuration: dict[str, Any]) -> None:
    import yaml

    from bodysense.files import write_atomically

    text = yaml.safe_dump(configuration, sort_keys=False, allow_unicode=True)
    write_atomically(
        draft / "config.yaml",
        f"# Reproduce with: bodysense estimate --config config.yaml -o ANOTHER_FOLDER\n{text}",
    )


def _write_page(
    draft: Path, output: str, result: EstimationRun, log: Log, options: EstimateOptions
) -> None:
    from bodysense.report.estimation_page import write_estimation_page

    digests = options.file_digests()
    write_estimation_page(
        draft / "report.html",
        result.estimate,
        result.totals,
        result.curves,
        result.observability,
        state=result.state,
        notes=result.notes,
        source=log.source,
        command=f"bodysense estimate --config {Path(output) / 'config.yaml'} -o ANOTHER_FOLDER",
        provenance={
            "logs": [{"source": log.source, "sha256": log.digest}],
            "sensors": [{"source": options.sensors, "sha256": digests.get(options.sensors, "")}],
            "files": digests,
            "cutoff_hz": options.cutoff,
            "state": None if result.state is None else result.state.estimate.state.method,
            "parameter_covariance": options.parameter_covariance,
        },
    )


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar over all samples, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

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
        task = bar.add_task("", total=1.0)
        yield lambda done, samples: bar.update(task, completed=done, total=samples)


# What `bodysense estimate` prints: contacts, positions, sensors that disagree, observability.

_BAND = 1.96  # standard deviations to either side of a 95 % band
_SENSORS = 30  # rows of the table of sensors
_CONTACTS = 20  # rows of the table of contacts


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
    if summary["inconsistent_exact_readings"]:
        page.line(f"{summary['inconsistent_exact_readings']}.", style="bold")
    page.line("")
    page.line(f"Observability: {summary['observability']}")
    return page.text()


def _contacts(page: Page, summary: Mapping[str, Any]) -> None:
    contacts, unobservable = summary["contacts"], summary["unobservable_links"]
    for link in unobservable:
        page.line(f"external wrench on {link} is unobservable")
    if not contacts:
        _no_contacts(page, summary)
        return
    title = (
        "Contacts: external wrench significantly different from its prior (99.9 %), with 95 % bands"
    )
    forces = ("median force [N]", "largest force [N]", "95 % band [N]")
    table = page.table(title, "link", "from [s]", "to [s]", *forces, "at [s]", text=(0,))
    for contact in contacts[:_CONTACTS]:
        numbers = (f"{contact[key]:.2f}" for key in ("start", "end"))
        band = f"\N{PLUS-MINUS SIGN} {_BAND * contact['sigma']:.1f}"
        sizes = (f"{contact[key]:.1f}" for key in ("usual", "force"))
        table.add_row(contact["link"], *numbers, *sizes, band, f"{contact['at']:.2f}")
    page.show(table)
    if len(contacts) > _CONTACTS:
        page.line(f"… and {len(contacts) - _CONTACTS} more, see summary.json")
    for sentence in summary["reversals"][:_CONTACTS]:
        page.line(sentence)


def _no_contacts(page: Page, summary: Mapping[str, Any]) -> None:
    if not summary["contact_share"]:
        page.line("no external wrench was allowed for (external_wrenches of the sensors file)")
    for link, (best, worst) in summary["force_std"].items():
        if link not in summary["unobservable_links"]:
            page.line(
                f"no external wrench on {link} differs significantly from its prior; forces "
                f"below {_BAND * best:.2g} N are not detectable, nor below "
                f"{_BAND * worst:.2g} N in the least observable direction"
            )


def _state(page: Page, state: Mapping[str, Any]) -> None:
    """Positions, of joints without encoders first, and biases."""
    title = "Positions: estimated, with 95 % bands"
    columns = ("joint", "encoder", "from", "to", "band", "widest", "unit")
    table = page.table(title, *columns, text=(0, 1, 6))
    ordered = sorted(state["joints"], key=lambda joint: joint["measured"])
    for joint in ordered[:_SENSORS]:
        table.add_row(
            joint["joint"],
            "yes" if joint["measured"] else "none",
            *(f"{joint[key]:.2f}" for key in ("lowest", "highest")),
            *(f"\N{PLUS-MINUS SIGN} {_BAND * joint[key]:.2g}" for key in ("std", "worst")),
            joint["unit"],
        )
    page.show(table)
    if len(ordered) > _SENSORS:
        page.line(f"… and {len(ordered) - _SENSORS} more, see summary.json")
    if not state["biases"]:
        return
    title = "Biases: after the last readings, with 95 % bands"
    table = page.table(title, "sensor", "bias", "band", "unit", text=(0, 3))
    for bias in state["biases"][:_SENSORS]:
        band = f"\N{PLUS-MINUS SIGN} {_BAND * bias['std']:.2g}"
        table.add_row(bias["name"], f"{bias['mean']:.3g}", band, bias["unit"])
    page.show(table)


def _sensors(page: Page, sensors: list[Mapping[str, Any]], *, stated: bool) -> None:
    title = "Sensors: residuals, readings minus their predictions by the estimate"
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
    over, right = ("the stated std", "at most ") if stated else ("its expected value", "")
    page.line(
        f"  ratio: rms of the residuals over {over}; {right}1 is right. beyond: share outside the "
        f"95 % band; {right}5 % is right. Many beyond: a std is too small. A large ratio with few "
        "beyond: a few outliers."
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
