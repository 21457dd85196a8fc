"""`bodysense identify ROBOT LOG… -o DIR`: from recordings to a better robot."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bodysense.cli.fit import METHOD, FitOptions, add_diagnoses, add_locked, setting_value
from bodysense.cli.options import (
    link_mass,
    number_or,
    print_notes,
    print_result,
    reproduction,
    working,
    write_folder,
)
from bodysense.cli.run_options import option, read_table, repeated, required
from bodysense.cli.tables import Page, percent
from bodysense.errors import BodysenseError, MismatchError, RobotFileError, unknown_name

if TYPE_CHECKING:
    from bodysense.identification.friction_comparison import FrictionChoice
    from bodysense.identification.identifier import Identifier, Method
    from bodysense.identification.knowledge import Knowledge
    from bodysense.identification.run import IdentificationRun
    from bodysense.identification.scores import DataScores
    from bodysense.robot import Robot

SETTINGS = {
    "weighting": "weighting",
    "spread": "spread",
    "forgetting": "forgetting",
    "relaxation": "relax",
    "relaxation_weight": "relax_weight",
}
"""Settings of methods that have a field of their own in config.yaml."""

_KNOWN = "known properties of the links"
_NUMBERS = ("spread", "forgetting", "relaxation_weight")


@dataclass(frozen=True, kw_only=True)
class IdentifyOptions(FitOptions):
    """All settings of a run."""

    command: ClassVar[str] = "identify"
    usage: ClassVar[str] = "ROBOT LOG -o DIR"
    written: ClassVar[str] = "robot, scores and report"
    printed: ClassVar[str] = "scores and verdict"
    recordings: ClassVar[tuple[str, ...]] = ("logs", "validate")
    files: ClassVar[tuple[str, ...]] = (*FitOptions.files, "knowledge")
    settings_help: ClassVar[str] = (
        "a setting of the method (see `bodysense methods NAME`) or of the filters: order, band, "
        "border, still_speed, decimate; may be repeated"
    )

    robot: str = required(
        "the prior: a URDF, MJCF or DH file, a built-in robot (tx40, …) or example:NAME",
        "robot",
        metavar="ROBOT",
    )
    logs: tuple[str, ...] = required(
        "recordings: CSV, Parquet, MCAP or a ROS 2 bag", "logs", metavar="LOG"
    )
    friction: str = option(
        "auto (default: choose unless the robot has measured friction), choose, own, or a law:"
        " coulomb, offset, stribeck, … with its shape as in coulomb:width=0.02, or fitted: "
        "stribeck:fit",
        default="auto",
        group="robot",
        metavar="LAW",
    )
    validate: tuple[str, ...] = option("recordings for validation", default=(), metavar="LOG")
    method: str = option(
        "auto (default: chosen by the recordings; pc-wls where settings are given), or one of "
        "`bodysense methods`",
        default="auto",
        metavar="NAME",
    )
    weighting: str | None = None
    spread: float | None = None
    forgetting: float | None = None
    seed: int = option("of random numbers (0)", default=0, group=METHOD, metavar="N")
    relax: str | None = option(
        "pull pc-* to the prior: euclidean, pullback, entropic or auto (default)",
        group=METHOD,
        metavar="KIND",
    )
    relax_weight: float | Literal["auto"] | None = option(
        "of --relax, or auto (default): from the data",
        group=METHOD,
        type=number_or("auto"),
        metavar="X",
    )
    settings: Mapping[str, str] = field(default_factory=dict)
    knowledge: str | None = option("masses, symmetries, … (YAML)", group=_KNOWN, metavar="FILE")
    total_mass: float | None = option("of all moving links", group=_KNOWN, metavar="KG")
    mass: tuple[str, ...] = repeated(
        "of a link, or its range", group=_KNOWN, metavar="LINK=KG[,KG]"
    )
    com_inside: str | None = option(
        "centres of mass inside the links' shapes: collision, visual, boxes or auto",
        group=_KNOWN,
        metavar="SHAPES",
    )

    @classmethod
    def _set(cls, table: dict[str, Any], pairs: dict[str, str]) -> None:
        super()._set(table, pairs)
        for name in [name for name in pairs if name in SETTINGS]:
            text, option = pairs.pop(name), SETTINGS[name]
            if option in table:
                raise MismatchError(f"{name} is given twice, by --set {name} too: give it once.")
            number = name in _NUMBERS and text != "auto"
            table[option] = setting_value(name, text, 0.0) if number else text
        if pairs:
            table["settings"] = pairs

    def identifier(self) -> Identifier | str:
        """The method with its settings."""
        from bodysense.identification.methods import AUTO, DEFAULT, IDENTIFIERS

        options = {name: getattr(self, option) for name, option in SETTINGS.items()}
        wanted = {name: value for name, value in options.items() if value is not None}
        name = self.method
        if name == AUTO:
            if not (wanted or self.settings):
                return AUTO
            name = DEFAULT  # a choice would not know what to do with settings of a method
        if name not in IDENTIFIERS:
            raise unknown_name("method", name, (AUTO, *IDENTIFIERS))
        for setting in wanted:
            having = [m for m, row in IDENTIFIERS.items() if setting in row.settings]
            if name not in having:
                raise MismatchError(
                    f"{setting} is not a setting of {name}, but of {', '.join(having)}: leave it "
                    "out, or take one of these as --method."
                )
        if wanted.get("relaxation_weight") == "auto":
            wanted["relaxation_weight"] = None
        method = IDENTIFIERS[name]
        return method.identifier(**wanted, **_method_settings(method, self.settings))

    def known(self, robot: Robot) -> Knowledge:
        """What is known of the links, from the file and the options."""
        from bodysense.identification.knowledge import Knowledge, read_knowledge, with_shortcuts

        given = Knowledge() if self.knowledge is None else read_knowledge(self.knowledge, robot)
        try:
            return with_shortcuts(
                given,
                robot,
                total_mass=self.total_mass,
                masses=dict(map(link_mass, self.mass)),
                com_inside=self.com_inside,
            )
        except RobotFileError as error:  # in the words of the command line
            problem = str(error).partition(": name the folder")[0]
            raise RobotFileError(f"{problem}: put it there, or take --com-inside boxes.") from None


def _method_settings(method: Method, given: Mapping[str, str]) -> dict[str, Any]:
    """Settings of --set as the method takes them: of the kind that its defaults have."""
    own = method.settings
    made: dict[str, Any] = {}
    for name, text in given.items():
        if name not in own:
            raise unknown_name(
                f"setting of {method.name}",
                name,
                sorted(own),
                f"See `bodysense methods {method.name}`.",
            )
        if name == "seed":
            raise BodysenseError(f"--set {name}={text}: there is an option for it, --seed.")
        made[name] = setting_value(name, text, own[name].default)
    return made


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    IdentifyOptions.add_arguments(parser)
    _add_former_options(parser)


def _add_former_options(parser: argparse.ArgumentParser) -> None:
    """Options of version 0.1, not shown: now reached by --set, `payload` or `gains`."""
    hidden: dict[str, Any] = {"default": None, "help": argparse.SUPPRESS}
    add = partial(parser.add_argument, **hidden)
    for flag in ("--band", "--border", "--still-speed", "--spread", "--forgetting"):
        add(flag, type=float)
    add("--gain-uncertainty", type=float)
    add("--robot-uncertainty", type=float)
    add("--order", type=int)
    add("--weighting")
    add("--load")
    add("--no-decimation", dest="decimate", action="store_false")
    add("--drive-gains", action="store_true")
    add("--payload", nargs="?", const="")
    add("--unloaded", nargs="+", action="extend")


def run(args: argparse.Namespace) -> int:
    """Read, examine, identify, judge; write the results; print the verdict."""
    former = _former_command(args)
    if former is not None:
        return former(args)
    from bodysense.identification.output import OUTPUT_FILES, scores
    from bodysense.identification.run import identify

    options = IdentifyOptions.from_arguments(args)
    # Invalid settings are refused before any file is read.
    method, preprocessing = options.identifier(), options.preprocessing()
    with working(args) as shown:
        robot, (logs, validate) = options.read()
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
            progress=lambda step: shown.update(f"{step} …"),
        )
        shown.update("writing …")
        names, notes = write_folder(
            args, OUTPUT_FILES, lambda draft: _write(draft, args.output, result, options)
        )
    print_result(args, _text(result), scores(result), names)
    print_notes(notes)
    return 0 if result.identification.status.ok else 1


def _former_command(args: argparse.Namespace) -> Callable[[argparse.Namespace], int] | None:
    """The command that --payload or --drive-gains, here or in a config.yaml, is now."""
    table = {} if args.config is None else read_table(args.config)
    gains = args.drive_gains or table.get("drive_gains")
    if not gains and args.payload is None and table.get("payload") is None:
        return None
    option = "drive-gains" if gains else "payload"
    name = option.removeprefix("drive-")
    print_notes(
        [
            f"`bodysense identify --{option}` is deprecated and goes in the next release: use "
            f"`bodysense {name}`."
        ]
    )
    command: Callable[[argparse.Namespace], int] = import_module(f"bodysense.cli.{name}").run
    return command


def _write(
    draft: Path, folder: str, result: IdentificationRun, options: IdentifyOptions
) -> tuple[str, ...]:
    """Write everything; returns notes on files that are missing."""
    from bodysense.identification.output import write_run
    from bodysense.report.identification_page import write_identification_page

    configuration = options.configuration(*result.diagnoses, *result.validation)
    command = reproduction(options.command, folder)
    write_identification_page(draft / "report.html", result, command=command)
    return write_run(draft, result, configuration)


# What `bodysense identify` prints: choices, scores and the verdict.


def _text(run: IdentificationRun) -> str:
    """The result as text."""
    page = Page()
    page.line(run.identification.summary(), style="bold")
    add_locked(page, run.robot)
    _method(page, run)
    add_diagnoses(page, (*run.diagnoses, *run.validation))
    page.line(
        f"cut-off {run.settings.cutoff_words} "
        f"({'given' if run.cutoff is None else 'chosen'}), "
        f"friction law {_law(run)} ({_law_origin(run)}), "
        f"{sum(f.rows for f in run.problem.factors.values())} rows"
    )
    if run.cutoff is not None and run.cutoff.warning:
        page.line(run.cutoff.warning)
    if run.friction is not None:
        _friction(page, run.friction)
    _scores(page, run)
    style = {"good": "bold green", "fair": "bold yellow"}.get(run.verdict.grade, "bold red")
    page.line("")
    page.line(f"{run.verdict.grade.upper()}: {run.verdict.summary}", style=style)
    for sentence in run.verdict.advice:
        page.line(f"- {sentence}")
    if run.verdict.caution:
        page.line(run.verdict.caution, style="bold")
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
    """Held-out errors of the friction laws."""
    if choice.reason:
        page.line(f"friction law {choice.name} (chosen): {choice.reason}")
    if choice.trials:
        page.table(
            "Friction laws: squared error of moving joints on held-out blocks, in units of the "
            "noise variance, and by which share of it that of the chosen law is smaller",
            ("law", "error", "chosen smaller by [%]", "coefficients", ""),
            (
                (
                    trial.name,
                    f"{trial.error:.3f}",
                    f"{-100.0 * trial.gain + 0.0:.1f} ± {100.0 * trial.standard_error:.1f}",
                    str(trial.coefficients),
                    "chosen" if trial.name == choice.name else "",
                )
                for trial in choice.trials
            ),
            text=(0, 4),
        )


def _scores(page: Page, run: IdentificationRun) -> None:
    validation = [data.source for data in run.scores if data.kind == "validation"]
    for k, source in enumerate(validation, start=1):
        page.line(f"valid. {k}: {source}", wrap=False)
    columns: list[str] = [data.kind for data in run.scores if data.kind != "validation"]
    columns += [f"valid. {k + 1}" for k in range(len(validation))]
    page.table(
        f"Error of predicted torque below {run.scores[0].bandwidth:.3g} Hz [%]: moving joints, "
        "then d_tau over all samples",
        ("joint", *columns, f"prior, {columns[-1]}", "noise (raw)"),
        _score_rows(run.problem.robot.joint_names, run.scores),
        whole=(0,),
    )
    if validation:
        page.line(
            "Runs on other recordings have another reference bandwidth: compare with them by the "
            "raw torque only.",
            style="dim",
        )


def _score_rows(joints: Sequence[str], scores: Sequence[DataScores]) -> list[list[str]]:
    """A row per joint, then d_tau; prior and noise are those of the last data."""
    unseen = [data for data in scores if data.kind != "training"]
    last = (unseen or list(scores))[-1]
    rows = [
        [
            joint,
            *(percent(data.identified.moving.relative_error[j]) for data in scores),
            percent(last.prior.moving.relative_error[j]),
            percent(last.noise_floor[j]),
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
                *(percent(getattr(data.identified.all, name)) for data in scores),
                percent(getattr(last.prior.all, name)),
                "" if floor is None else percent(floor),
            ]
        )
    return rows
