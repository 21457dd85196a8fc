"""`bodysense identify ROBOT LOG… -o DIR`: from recordings to a better robot."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bodysense.cli.identify_options import IdentifyOptions, add_arguments
from bodysense.cli.options import print_run, read_table, reproduction, write_folder
from bodysense.cli.tables import Page

if TYPE_CHECKING:
    from bodysense.identification.friction_comparison import FrictionChoice
    from bodysense.identification.run import IdentificationRun
    from bodysense.identification.scores import DataScores


__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """Read, examine, identify, judge; write the results; print the verdict."""
    former = _former_command(args)
    if former is not None:
        return former(args)
    from rich.console import Console

    from bodysense.files import require_free
    from bodysense.identification.output import OUTPUT_FILES, scores
    from bodysense.identification.run import identify
    from bodysense.logs.read import read_log

    options = IdentifyOptions.from_arguments(args)
    # Invalid settings are refused before any file is read.
    method, preprocessing = options.identifier(), options.preprocessing()
    if args.output is not None:
        require_free(args.output, replace=bool(args.force))  # before any work is done
    with Console(stderr=True).status("reading …") as status:
        robot = options.load_robot()
        logs, validate = (
            [read_log(path, options.layout) for path in paths]
            for paths in (options.logs, options.validate)
        )
        options.check_digests(*(log.digest for log in (*logs, *validate)))
        result = identify(
            robot,
            logs,
            method=method,
            validate=validate,
            preprocessing=preprocessing,
            friction=options.friction_choice(),
            knowledge=options.known(robot),
            seed=options.seed,
            allow_unusable=options.allow_unusable,
            files=options.file_digests(),
            progress=lambda step: status.update(f"{step} …"),
        )
        status.update("writing …")
        names, notes = write_folder(
            args, OUTPUT_FILES, lambda draft: _write(draft, args.output, result, options)
        )
    print_run(args, rendered(result), scores(result), names)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return 0 if result.identification.status.ok else 1


def _former_command(args: argparse.Namespace) -> Callable[[argparse.Namespace], int] | None:
    """The command that --payload or --drive-gains, here or in a config.yaml, is now."""
    table = {} if args.config is None else read_table(args.config)
    gains = args.drive_gains or table.get("drive_gains")
    if not gains and args.payload is None and table.get("payload") is None:
        return None
    from bodysense.cli import gains as gains_command
    from bodysense.cli import payload as payload_command

    option, name, command = (
        ("drive-gains", "gains", gains_command.run)
        if gains
        else ("payload", "payload", payload_command.run)
    )
    print(
        f"note: `bodysense identify --{option}` is deprecated and goes in the next release: use "
        f"`bodysense {name}`.",
        file=sys.stderr,
    )
    return command


def _write(
    draft: Path, folder: str, result: IdentificationRun, options: IdentifyOptions
) -> tuple[str, ...]:
    """Write everything; returns notes on files that are missing."""
    from bodysense.identification.output import write_run
    from bodysense.report.identification_page import write_identification_page

    digests = [diagnosis.digest for diagnosis in (*result.diagnoses, *result.validation)]
    notes = write_run(draft, result, options.configuration(*digests))
    write_identification_page(
        draft / "report.html", result, command=reproduction(options.command, folder)
    )
    return notes


# What `bodysense identify` prints: choices, scores and the verdict.


def rendered(run: IdentificationRun) -> str:
    """The result as text."""
    page = Page()
    page.line(run.identification.summary(), style="bold")
    _method(page, run)
    for diagnosis in (*run.diagnoses, *run.validation):
        page.line(diagnosis.verdict(), wrap=False)
        for finding in (*diagnosis.of("error"), *diagnosis.of("warning")):
            page.line(f"  {finding}")
    page.line(
        f"cut-off {run.settings.cutoff:.3g} Hz "
        f"({'given' if run.cutoff is None else 'chosen'}), "
        f"friction law {_law(run)} ({_law_origin(run)}), "
        f"{sum(f.rows for f in run.problem.factors.values())} rows"
    )
    if run.friction is not None:
        _friction(page, run.friction)
    _scores(page, run)
    style = {"good": "bold green", "fair": "bold yellow"}.get(run.verdict.grade, "bold red")
    page.line("")
    page.line(f"{run.verdict.grade.upper()}: {run.verdict.summary}", style=style)
    for sentence in run.verdict.advice:
        page.line(f"- {sentence}")
    return page.text()


def _method(page: Page, run: IdentificationRun) -> None:
    """How the method was chosen, and what it took for certain."""
    if run.method_choice is not None:
        page.line(f"method {run.method_choice.identifier.name} (chosen):")
        for reason in run.method_choice.reasons:
            page.line(f"  {reason}")
    if run.problem.knowledge.any:
        page.line(f"known for certain: {run.problem.knowledge.summary()}")
        for note in run.problem.knowledge.notes:
            page.line(f"  {note}")


def _law(run: IdentificationRun) -> str:
    """The friction law with its shape, where that is the same for all joints."""
    friction = run.problem.robot.friction
    shape = [
        f"{name} {values[0]:g}"
        for name, values in zip(friction.model.shape, friction.shape.T, strict=True)
        if (values == values[0]).all()
    ]
    return f"{friction.model.name!r}" + (f" with {', '.join(shape)}" if shape else "")


def _law_origin(run: IdentificationRun) -> str:
    if run.friction is None:
        return "given"
    return "fitted" if run.friction.shape else "chosen"


def _friction(page: Page, choice: FrictionChoice) -> None:
    """Held-out errors of the friction laws, and what a dependence on load would change."""
    table = page.table(
        "Friction laws: squared error on held-out blocks, in units of the noise variance",
        "law",
        "error",
        "coefficients",
        "",
        text=(0, 3),
    )
    for trial in choice.trials:
        chosen = "chosen" if trial.name == choice.name else ""
        table.add_row(trial.name, f"{trial.error:.3f}", str(trial.coefficients), chosen)
    page.show(table)
    if choice.load is not None:
        change = "reduce" if choice.load.gain > 0.0 else "increase"
        Fl = ", ".join(f"{x:.2g}" for x in choice.load.coefficients)
        page.line(
            f"load-dependent friction would {change} the error of {choice.law} by "
            f"{100.0 * abs(choice.load.gain):.1f} % (Fl {Fl}); no friction law of a robot has it"
        )


def _scores(page: Page, run: IdentificationRun) -> None:
    validation = [data.source for data in run.scores if data.kind == "validation"]
    for k, source in enumerate(validation, start=1):
        page.line(f"valid. {k}: {source}", wrap=False)
    columns: list[str] = [data.kind for data in run.scores if data.kind != "validation"]
    columns += [f"valid. {k + 1}" for k in range(len(validation))]
    table = page.table(
        "Error of predicted torque [%]: moving joints, then d_tau over all samples",
        "joint",
        *columns,
        f"prior, {columns[-1]}",
        "noise",
        text=(),
    )
    table.columns[0].justify = "left"
    for row in _score_rows(run.problem.robot.joint_names, run.scores):
        table.add_row(*row)
    page.show(table)
    if validation:
        page.line(
            f"Filtered at {run.settings.cutoff:.3g} Hz: compare with runs at other cut-offs by "
            "the raw torque only.",
            style="dim",
        )


def _score_rows(joints: Sequence[str], scores: Sequence[DataScores]) -> list[list[str]]:
    """A row per joint, then d_tau; prior and noise are those of the last data."""
    unseen = [data for data in scores if data.kind != "training"]
    last = (unseen or list(scores))[-1]
    rows = [
        [
            joint,
            *(_percent(data.identified.moving.relative_error[j]) for data in scores),
            _percent(last.prior.moving.relative_error[j]),
            _percent(last.noise_floor[j]),
        ]
        for j, joint in enumerate(joints)
    ]
    totals: Sequence[tuple[str, str, float | None]] = (
        ("d_tau", "d_tau", None),
        ("d_tau, raw torque", "d_tau_raw", last.noise_floor_d_tau),
    )
    for title, name, floor in totals:
        rows.append(
            [
                title,
                *(_percent(getattr(data.identified.all, name)) for data in scores),
                _percent(getattr(last.prior.all, name)),
                "" if floor is None else _percent(floor),
            ]
        )
    return rows


def _percent(value: float) -> str:
    return f"{100.0 * value:.1f}" if math.isfinite(value) else "-"
