"""`bodysense identify ROBOT LOG… -o DIR`: from recordings to a better robot."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bodysense.cli.identify_options import CHOICES, Options, options_of
from bodysense.cli.tables import Page
from bodysense.identification.friction_comparison import FrictionChoice
from bodysense.identification.run import IdentificationRun

if TYPE_CHECKING:
    from bodysense.identification.run import IdentificationRun
    from bodysense.robot import Robot


# The arguments of `bodysense identify`, as argparse knows them.


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    parser.add_argument(
        "robot",
        metavar="ROBOT",
        nargs="?",
        help="the robot as far as it is known: a URDF, MJCF or DH file, tx40, example:NAME",
    )
    parser.add_argument(
        "logs", metavar="LOG", nargs="*", help="recordings: CSV, Parquet, MCAP or a ROS 2 bag"
    )
    parser.add_argument("--layout", metavar="FILE", help="what the columns of the logs mean (YAML)")
    parser.add_argument(
        "--validate", metavar="LOG", nargs="+", action="extend", help="recordings for scores alone"
    )
    parser.add_argument(
        "--method", metavar="NAME", help="pc-wls (default), auto, or one of `bodysense methods`"
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="write robot, scores and report here")
    parser.add_argument(
        "--force", action="store_true", help="replace files of the same names in an existing DIR"
    )
    parser.add_argument("--config", metavar="FILE", help="do again what a config.yaml says")
    parser.add_argument("--json", action="store_true", help="print scores and verdict as JSON")
    robot = parser.add_argument_group("robot")
    robot.add_argument("--actuators", metavar="FILE", help="an actuator file (YAML)")
    robot.add_argument("--fixed", action="store_true", default=None, help="hold the root link")
    robot.add_argument(
        "--friction",
        metavar="LAW",
        help="auto (default: choose if the robot knows none), choose, own, or a law: coulomb, "
        "offset, stribeck, … with its shape as in coulomb:width=0.02, or fitted: stribeck:fit",
    )
    data = parser.add_argument_group("data")
    data.add_argument("--cutoff", metavar="HZ", type=float, help="of the low-pass on positions")
    data.add_argument("--band", metavar="HZ", type=float, help="of the parallel filter")
    data.add_argument("--order", metavar="N", type=int, help="of the Butterworth filter (4)")
    data.add_argument("--border", metavar="S", type=float, help="seconds cut off at each end")
    data.add_argument(
        "--still-speed", metavar="V", type=float, help="leave rows of slower joints out [rad/s]"
    )
    data.add_argument(
        "--no-decimation",
        dest="decimate",
        action="store_false",
        default=None,
        help="no parallel filter: every sample counts",
    )
    data.add_argument(
        "--allow-unusable",
        action="store_true",
        default=None,
        help="go on in spite of errors that the doctor has found",
    )
    method = parser.add_argument_group("method")
    method.add_argument(
        "--weighting", choices=("huber", "window"), help="of irls, pc-irls and pc-sqp-irls"
    )
    method.add_argument(
        "--spread",
        metavar="X",
        type=float,
        help="of the prior of ridge (0.3), rls and energy (1), filters (0.3), or of a search",
    )
    method.add_argument(
        "--forgetting", metavar="X", type=float, help="of rls from row to row (1: none), e.g. 0.999"
    )
    method.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        help="any other setting, as `bodysense methods NAME` lists them",
    )
    method.add_argument("--seed", metavar="N", type=int, help="of random numbers (0)")
    method.add_argument(
        "--relax", metavar="KIND", help="towards the prior, pc-*: euclidean, pullback or entropic"
    )
    method.add_argument(
        "--relax-weight", metavar="X", type=_weight, help="of --relax (1), or auto: from the data"
    )
    known = parser.add_argument_group("what is known of the links")
    known.add_argument("--knowledge", metavar="FILE", help="masses, symmetries, … (YAML)")
    known.add_argument("--total-mass", metavar="KG", type=float, help="of all links that move")
    known.add_argument(
        "--com-inside",
        metavar="SHAPES",
        help="centres of mass inside the links' shapes: collision, visual, boxes or auto",
    )
    load = parser.add_argument_group("a load (LOG: recordings with it)")
    load.add_argument(
        "--payload", metavar="LINK", nargs="?", const="", help="what LINK holds (the last link)"
    )
    load.add_argument(
        "--unloaded", metavar="LOG", nargs="+", action="extend", help="recordings without the load"
    )
    load.add_argument(
        "--gain-uncertainty", metavar="X", type=float, help="of drive gains, relative (0.02)"
    )
    load.add_argument("--robot-uncertainty", metavar="X", type=float, help="of a known arm (0.2)")
    load.add_argument(
        "--drive-gains", action="store_true", default=None, help="what do the currents mean?"
    )
    load.add_argument(
        "--load", metavar="KG[,x,y,z]", help="a load that was weighed, its centre [m]"
    )


def _weight(text: str) -> float | str:
    return text if text == "auto" else float(text)


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
    from bodysense.logs.read import read_log

    with Console(stderr=True).status("reading …") as status:
        robot = robot_of(options)
        logs, validate = (
            [read_log(path, options.layout) for path in paths]
            for paths in (options.logs, options.validate)
        )
        options.check_digests((*logs, *validate))
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
            progress=lambda step: status.update(f"{step} …"),
        )
        names: tuple[str, ...] = ()
        result = _with_files(result, options)
        notes: tuple[str, ...] = ()
        if args.output is not None:
            status.update("writing …")
            names, notes = _write(args.output, result, options, force=args.force)
    if args.json:
        from bodysense.identification.output import scores

        print(json.dumps(scores(result), indent=2, allow_nan=False))
    else:
        _print(result, args.output, names)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return 0 if result.identification.status.ok else 1


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

    print(rendered(found), end="")
    if output is not None:
        print(f"\nwritten to {output}: {', '.join(names)}")


# What `bodysense identify` prints: choices, scores and the verdict.


def rendered(found: IdentificationRun) -> str:
    """The result as text."""
    page = Page()
    page.line(found.identification.summary(), style="bold")
    if found.method_choice is not None:
        page.line(f"method {found.method_choice.identifier.name} (chosen):")
        for reason in found.method_choice.reasons:
            page.line(f"  {reason}")
    if found.problem.knowledge.any:
        page.line(f"known for certain: {found.problem.knowledge.summary()}")
        for note in found.problem.knowledge.notes:
            page.line(f"  {note}")
    for diagnosis in (*found.diagnoses, *found.validation):
        page.line(diagnosis.verdict(), wrap=False)
        for finding in (*diagnosis.of("error"), *diagnosis.of("warning")):
            page.line(f"  {finding}")
    law = _law(found)
    page.line(
        f"cut-off {found.settings.cutoff:.3g} Hz "
        f"({'given' if found.cutoff is None else 'chosen'}), "
        f"friction law {law} ({_origin(found)}), "
        f"{sum(f.rows for f in found.problem.factors.values())} rows"
    )
    if found.friction is not None:
        _friction(page, found.friction)
    _scores(page, found)
    style = {"good": "bold green", "fair": "bold yellow"}.get(found.verdict.grade, "bold red")
    page.line("")
    page.line(f"{found.verdict.grade.upper()}: {found.verdict.summary}", style=style)
    for sentence in found.verdict.advice:
        page.line(f"- {sentence}")
    return page.text()


def _law(found: IdentificationRun) -> str:
    """The friction law with its shape, where that is the same for all joints."""
    friction = found.problem.robot.friction
    shape = [
        f"{name} {values[0]:g}"
        for name, values in zip(friction.model.shape, friction.shape.T, strict=True)
        if (values == values[0]).all()
    ]
    return f"{friction.model.name!r}" + (f" with {', '.join(shape)}" if shape else "")


def _origin(found: IdentificationRun) -> str:
    if found.friction is None:
        return "given"
    return "fitted" if found.friction.shape else "chosen"


def _friction(page: Page, choice: FrictionChoice) -> None:
    """What was compared on blocks left out, and what a dependence on load would bring."""
    table = page.table(
        "Friction laws: squared error on blocks left out, in units of the noise",
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
        size = f"{100.0 * abs(choice.load.gain):.1f} %"
        change = f"take {size} off" if choice.load.gain > 0.0 else f"add {size} to"
        Fl = ", ".join(f"{x:.2g}" for x in choice.load.coefficients)
        page.line(
            f"friction that grows with the load would {change} the error of {choice.law} "
            f"(Fl {Fl}); no friction law of a robot holds it"
        )


def _scores(page: Page, found: IdentificationRun) -> None:
    unseen = [data for data in found.scores if data.kind != "training"] or list(found.scores)
    validation = [data.source for data in found.scores if data.kind == "validation"]
    for k, source in enumerate(validation, start=1):
        page.line(f"valid. {k}: {source}", wrap=False)
    columns: list[str] = [data.kind for data in found.scores if data.kind != "validation"]
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
    last = unseen[-1]
    for j, joint in enumerate(found.problem.robot.joint_names):
        table.add_row(
            joint,
            *(_percent(data.identified.moving.relative_error[j]) for data in found.scores),
            _percent(last.prior.moving.relative_error[j]),
            _percent(last.noise_floor[j]),
        )
    rows: Sequence[tuple[str, str, float | None]] = (
        ("d_tau", "d_tau", None),
        ("d_tau, raw torque", "d_tau_raw", last.noise_floor_d_tau),
    )
    for title, name, floor in rows:
        table.add_row(
            title,
            *(_percent(getattr(data.identified.all, name)) for data in found.scores),
            _percent(getattr(last.prior.all, name)),
            "" if floor is None else _percent(floor),
        )
    page.show(table)
    if validation:
        page.line(
            f"Filtered at {found.settings.cutoff:.3g} Hz: compare with runs of other cut-offs by "
            "raw torque alone.",
            style="dim",
        )


def _percent(value: float) -> str:
    return f"{100.0 * value:.1f}" if math.isfinite(value) else "-"
