"""What identify, payload and gains share: settings of robot and filters, and runs with a load."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bodysense.cli.options import locked_joints, mounted, number_or, print_robot_findings
from bodysense.cli.run_options import Groups, RunOptions, option, required
from bodysense.cli.tables import Page
from bodysense.errors import BodysenseError, MismatchError, unknown_name

if TYPE_CHECKING:
    from rich.status import Status as Shown

    from bodysense.doctor import Diagnosis
    from bodysense.identification.payload.experiment import LoadExperiment
    from bodysense.identification.preprocessing import Preprocessing
    from bodysense.logs.log import Log
    from bodysense.robot import Robot
    from bodysense.status import Status

METHOD = "data and method"
"""Title of a group of options."""

_FRICTION_CHOICES = ("auto", "own", "choose")
"""Words for --friction that name no law."""

_FILTERING: Mapping[str, object] = {
    "band": 0.0,
    "order": 4,
    "border": 0.0,
    "still_speed": 0.0,
    "decimate": True,
}
"""Settings of the filters that --set reaches, each with a value of its kind."""


@dataclass(frozen=True, kw_only=True)
class FitOptions(RunOptions):
    """Settings of the robot and of the filters.

    Class attributes:
        settings_help: of --set.
    """

    needed: ClassVar[Mapping[str, str]] = {"robot": "a robot", "logs": "at least one recording"}
    settings_help: ClassVar[str] = (
        "a setting of the filters: order, band, border, still_speed, decimate; may be repeated"
    )

    logs: tuple[str, ...]
    fixed: bool = option("fix the root link to the ground", default=False, group="robot")
    friction: str = option(
        "auto (default), own, or a law: coulomb, offset, stribeck, … with its shape as in "
        "coulomb:width=0.02",
        default="auto",
        group="robot",
        metavar="LAW",
    )
    friction_shape: Mapping[str, float] = field(default_factory=dict)
    start: float | None = option(
        "use recordings from this time after their first sample on; LOG@FROM:TO does it for one",
        "--from",
        group=METHOD,
        metavar="S",
    )
    end: float | None = option("use recordings up to this time", "--to", group=METHOD, metavar="S")
    cutoff: float | Literal["none"] | None = option(
        "of the low-pass on positions and torques (from the data); none: they are filtered or "
        "clean, and every sample counts as it is",
        group=METHOD,
        type=number_or("none"),
        metavar="HZ",
    )
    band: float | None = None
    order: int = 4
    border: float | None = None
    still_speed: float | None = None
    decimate: bool = True
    allow_unusable: bool = option(
        "continue in spite of errors that the doctor reports",
        default=False,
        group=METHOD,
    )

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> Groups:
        """Declare all options."""
        groups = super().add_arguments(parser)
        add = groups[METHOD].add_argument
        add("--set", metavar="NAME=VALUE", action="append", help=cls.settings_help)
        return groups

    @classmethod
    def _given(cls, args: argparse.Namespace) -> dict[str, Any]:
        table = super()._given(args)
        if args.friction is not None:
            table["friction"], table["friction_shape"] = _friction(args.friction)
        if args.set is not None:
            cls._set(table, _setting_pairs(args.set))
        return table

    @classmethod
    def _set(cls, table: dict[str, Any], pairs: dict[str, str]) -> None:
        """Put the settings of --set into the table; those of the filters here, others below."""
        for name in [name for name in pairs if name in _FILTERING]:
            text = pairs.pop(name)
            if name in table:
                raise MismatchError(f"{name} is given twice, by --set {name} too: give it once.")
            table[name] = setting_value(name, text, _FILTERING[name])

    def preprocessing(self) -> Preprocessing:
        """How logs are filtered."""
        from bodysense.identification.preprocessing import Preprocessing

        cutoff = math.inf if self.cutoff == "none" else self.cutoff
        return Preprocessing(cutoff=cutoff, **{name: getattr(self, name) for name in _FILTERING})

    @property
    def law(self) -> str:
        """The friction law, or how it is chosen, whether its shape is fitted or not."""
        return self.friction.removesuffix(":fit")

    def friction_choice(self) -> str:
        """The friction argument for a robot that has the named law already."""
        if self.law in _FRICTION_CHOICES:
            return self.friction
        return "own:fit" if self.friction.endswith(":fit") else "own"

    def load_robot(self) -> Robot:
        """The robot, with the friction law that is named."""
        from bodysense.identification.given_friction import with_law
        from bodysense.robot import load_robot

        robot = load_robot(
            self.robot,
            floating_base=False if self.fixed else None,
            actuators=self.actuators,
        )
        robot = mounted(robot, self.gravity, self.mount)
        print_robot_findings(robot)
        if self.law not in _FRICTION_CHOICES:
            robot = with_law(robot, self.law)
            model, shape = robot.friction.model, dict(self.friction_shape)
            robot = robot.with_friction(model, coefficients=None, **shape)
        return robot

    def read(self) -> tuple[Robot, list[list[Log]]]:
        """The robot, without joints that stand still, and the logs of `read_logs`."""
        from bodysense.doctor import lock_unrecorded

        robot, logs = self.load_robot(), self.read_logs()
        together = [log for group in logs for log in group]
        return lock_unrecorded(robot, together, locked_joints(self.lock)), logs

    def read_logs(self) -> list[list[Log]]:
        """The logs of each field of `recordings`; none changed since the config.yaml."""
        from bodysense.logs.read import read_log

        logs = [
            [read_log(self._in_range(path, name), self.layout) for path in getattr(self, name)]
            for name in self.recordings
        ]
        self.check_digests(*(log for group in logs for log in group))
        return logs

    def _in_range(self, path: str, name: str) -> str:
        """The path with the range of --from and --to, if it has none and is not for validation."""
        from bodysense.logs.read import split_range

        if (self.start is None and self.end is None) or name == "validate":
            return path
        if split_range(path)[1] is not None:
            return path
        start, end = ("" if x is None else repr(x) for x in (self.start, self.end))
        return f"{path}@{start}:{end}"


def _setting_pairs(texts: Sequence[str]) -> dict[str, str]:
    """Settings by name, each given once: of two values one would be ignored."""
    made: dict[str, str] = {}
    for text in texts:
        key, given, value = (part.strip() for part in text.partition("="))
        name = key.replace("-", "_")
        if not given or not name or not value:
            raise BodysenseError(f"--set {text}: write NAME=VALUE, e.g. order=2.")
        if name in made:
            raise MismatchError(
                f"--set {name} is given twice, as {made[name]} and as {value}: give it once."
            )
        made[name] = value
    return made


def setting_value(name: str, text: str, default: object) -> bool | int | float | str:
    """The value of a setting, of the kind that its default has."""
    try:
        if isinstance(default, bool):
            return {"true": True, "yes": True, "false": False, "no": False}[text.lower()]
        if isinstance(default, int):
            return int(text)
        if default is None:  # chosen by the method unless it is given, as a number
            return int(text) if text.lstrip("-").isdigit() else float(text)
        return float(text) if isinstance(default, float) else text
    except (KeyError, ValueError):
        kind = {bool: "true or false", int: "a whole number"}.get(type(default), "a number")
        raise BodysenseError(f"--set {name}={text}: give {kind}.") from None


def _friction(text: str) -> tuple[str, dict[str, float]]:
    """``coulomb:width=0.02`` as a name and its shape; ``stribeck:vs=0.2,fit`` is to be fitted."""
    law, _, rest = text.partition(":")
    parts = list(filter(None, rest.split(",")))
    fit = "fit" in parts
    parts = [part for part in parts if part != "fit"]
    if (parts and law in _FRICTION_CHOICES) or (fit and law in ("auto", "choose")):
        example = "stribeck:fit" if fit else f"coulomb:{rest}"
        raise BodysenseError(
            f"--friction {text}: {law} takes no shape; name a law for it, e.g. {example}."
        )
    return f"{law}:fit" if fit else law, dict(_shape_value(text, part) for part in parts)


def _shape_value(text: str, part: str) -> tuple[str, float]:
    name, _, value = part.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise BodysenseError(
            f"--friction {text}: {part!r} is not a shape; write e.g. coulomb:width=0.02."
        ) from None


# Runs on recordings with and without a load: payload and gains.


def link_option(default: str | None = None) -> Any:
    """The link that holds the load."""
    about = "that holds the load (the last link)"
    return option(about, "--link", default=default, metavar="LINK")


@dataclass(frozen=True, kw_only=True)
class LoadOptions(FitOptions):
    """Settings of a run on recordings with and without a load."""

    recordings: ClassVar[tuple[str, ...]] = ("logs", "unloaded")
    printed: ClassVar[str] = "the result"

    robot: str = required(
        "the arm: a URDF, MJCF or DH file, a built-in robot (tx40, …) or example:NAME",
        "robot",
        metavar="ROBOT",
    )
    logs: tuple[str, ...] = required("recordings with the load", "logs", metavar="LOG")
    unloaded: tuple[str, ...] = option("recordings without the load", default=(), metavar="LOG")
    payload: str | None = link_option()

    @classmethod
    def _set(cls, table: dict[str, object], pairs: dict[str, str]) -> None:
        super()._set(table, pairs)
        for name in pairs:
            raise unknown_name("setting of the filters", name, _FILTERING)

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

    def experiment(
        self, shown: Shown, robot: Robot, logs: Sequence[Sequence[Log]], **more: Any
    ) -> LoadExperiment:
        """Recordings with and without the load, examined and fitted; each step is shown."""
        from bodysense.identification.payload.experiment import prepare

        return prepare(
            robot,
            *logs,
            link=self.payload or None,
            friction=self.friction_choice(),
            allow_unusable=self.allow_unusable,
            files=self.file_digests(),
            progress=lambda step: shown.update(f"{step} …"),
            **more,
        )


def add_locked(page: Page, robot: Robot) -> None:
    """Add which joints are locked, where some are."""
    if robot.locked is not None:
        page.line(f"locked joints (--lock): {robot.locked.summary()}")


def add_recordings(page: Page, experiment: LoadExperiment) -> None:
    """Add what the doctor says of the recordings, and the choices made."""
    add_locked(page, experiment.robot)
    add_diagnoses(page, experiment.loaded, "loaded: ")
    add_diagnoses(page, experiment.unloaded, "unloaded: ")
    settings, law = experiment.problem.settings, experiment.robot.friction.model.name
    page.line(
        f"cut-off {settings.cutoff_words}, friction law {law!r}, "
        f"{sum(f.rows for f in experiment.problem.factors.values())} rows"
    )


def add_diagnoses(page: Page, diagnoses: Iterable[Diagnosis], role: str = "") -> None:
    """Add verdict, errors and warnings of each recording."""
    for diagnosis in diagnoses:
        page.line(f"{role}{diagnosis.verdict()}", wrap=False)
        for finding in (*diagnosis.of("error"), *diagnosis.of("warning")):
            page.line(f"  {finding}")


def add_status(page: Page, status: Status) -> None:
    """Add how it ended, and what to do about it."""
    page.line("")
    if not status.ok:
        page.line(f"FAILED: {status.message}", style="bold red")
    else:
        page.line("SOLVED", style="bold green")
    for note in status.notes:
        page.line(f"- {note}")
