"""The options of `bodysense identify`, from the command line or from a config.yaml."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bodysense.cli.fit_options import FitOptions, add_fit_options, setting_value
from bodysense.cli.options import add_run_options
from bodysense.errors import BodysenseError, MismatchError, RobotFileError, unknown_name

if TYPE_CHECKING:
    from bodysense.identification.identifier import Identifier, Method
    from bodysense.identification.knowledge import Knowledge
    from bodysense.robot import Robot


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add(
        "robot",
        metavar="ROBOT",
        nargs="?",
        help="the prior: a URDF, MJCF or DH file, a built-in robot (tx40, …) or example:NAME",
    )
    add("logs", metavar="LOG", nargs="*", help="recordings: CSV, Parquet, MCAP or a ROS 2 bag")
    add("--validate", metavar="LOG", nargs="+", action="extend", help="recordings for validation")
    add("--method", metavar="NAME", help="pc-wls (default), auto, or one of `bodysense methods`")
    add_run_options(parser, "robot, scores and report", "scores and verdict")
    add_fit_options(
        parser,
        friction="auto (default: choose if the robot has no friction coefficients), choose, own, "
        "or a law: coulomb, offset, stribeck, … with its shape as in coulomb:width=0.02, or "
        "fitted: stribeck:fit",
        settings="a setting of the method (see `bodysense methods NAME`) or of the filters: order, "
        "band, border, still_speed, decimate; may be repeated",
    )
    add("--seed", metavar="N", type=int, help="of random numbers (0)")
    add("--relax", metavar="KIND", help="pull pc-* to the prior: euclidean, pullback or entropic")
    add("--relax-weight", metavar="X", type=_weight, help="of --relax (1), or auto: from the data")
    add = parser.add_argument_group("known properties of the links").add_argument
    add("--knowledge", metavar="FILE", help="masses, symmetries, … (YAML)")
    add("--total-mass", metavar="KG", type=float, help="of all moving links")
    add(
        "--com-inside",
        metavar="SHAPES",
        help="centres of mass inside the links' shapes: collision, visual, boxes or auto",
    )
    _add_former_options(parser)


def _add_former_options(parser: argparse.ArgumentParser) -> None:
    """Options of version 0.1, not shown: now reached by --set, `payload` or `gains`."""
    for option, kind in (
        ("--band", float),
        ("--order", int),
        ("--border", float),
        ("--still-speed", float),
        ("--weighting", str),
        ("--spread", float),
        ("--forgetting", float),
        ("--gain-uncertainty", float),
        ("--robot-uncertainty", float),
        ("--load", str),
    ):
        parser.add_argument(option, type=kind, help=argparse.SUPPRESS)
    hidden: dict[str, Any] = {"default": None, "help": argparse.SUPPRESS}
    parser.add_argument("--no-decimation", dest="decimate", action="store_false", **hidden)
    parser.add_argument("--drive-gains", action="store_true", **hidden)
    parser.add_argument("--payload", nargs="?", const="", **hidden)
    parser.add_argument("--unloaded", nargs="+", action="extend", **hidden)


def _weight(text: str) -> float | str:
    return text if text == "auto" else float(text)


@dataclass(frozen=True, kw_only=True)
class IdentifyOptions(FitOptions):
    """All settings of a run."""

    command: ClassVar[str] = "identify"
    usage: ClassVar[str] = "ROBOT LOG -o DIR"
    recordings: ClassVar[tuple[str, ...]] = ("logs", "validate")
    files: ClassVar[tuple[str, ...]] = (*FitOptions.files, "knowledge")

    validate: tuple[str, ...] = ()
    method: str = "pc-wls"
    weighting: str | None = None
    spread: float | None = None
    forgetting: float | None = None
    seed: int = 0
    relax: str | None = None
    relax_weight: float | Literal["auto"] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    knowledge: str | None = None
    total_mass: float | None = None
    com_inside: str | None = None

    @classmethod
    def _set(cls, table: dict[str, Any], pairs: dict[str, str]) -> None:
        super()._set(table, pairs)
        for name in [name for name in pairs if name in _SETTINGS]:
            text, option = pairs.pop(name), _SETTINGS[name]
            if option in table:
                raise MismatchError(f"{name} is given twice, by --set {name} too: give it once.")
            number = name in _NUMBERS and text != "auto"
            table[option] = setting_value(name, text, 0.0) if number else text
        if pairs:
            table["settings"] = pairs

    def identifier(self) -> Identifier | str:
        """The method with its settings."""
        from bodysense.identification.methods import IDENTIFIERS

        options = {name: getattr(self, option) for name, option in _SETTINGS.items()}
        wanted = {name: value for name, value in options.items() if value is not None}
        if self.method == "auto":
            for name in (*wanted, *self.settings):
                raise MismatchError(
                    f"{name} is a setting of a method, and --method auto chooses the method: name "
                    "one, or leave the setting out."
                )
            return self.method
        if self.method not in IDENTIFIERS:
            raise unknown_name("method", self.method, ("auto", *IDENTIFIERS))
        for name in wanted:
            _require_setting(name, self.method)
        if wanted.get("relaxation_weight") == "auto":
            wanted["relaxation_weight"] = None
        method = IDENTIFIERS[self.method]
        return method.identifier(**wanted, **method_settings(method, self.settings))

    def known(self, robot: Robot) -> Knowledge:
        """What is known of the links, from the file and the options."""
        from bodysense.identification.knowledge import Knowledge, read_knowledge, with_shortcuts

        given = Knowledge() if self.knowledge is None else read_knowledge(self.knowledge, robot)
        try:
            return with_shortcuts(
                given, robot, total_mass=self.total_mass, com_inside=self.com_inside
            )
        except RobotFileError as error:  # in the words of the command line
            problem = str(error).partition(": name the folder")[0]
            raise RobotFileError(f"{problem}: put it there, or take --com-inside boxes.") from None


_SETTINGS = {
    "weighting": "weighting",
    "spread": "spread",
    "forgetting": "forgetting",
    "relaxation": "relax",
    "relaxation_weight": "relax_weight",
}
"""Settings of methods that have a field of their own in config.yaml."""

_NUMBERS = ("spread", "forgetting", "relaxation_weight")


def _require_setting(name: str, method: str) -> None:
    from bodysense.identification.methods import IDENTIFIERS

    having = [m for m, row in IDENTIFIERS.items() if name in row.settings]
    if method not in having:
        raise MismatchError(
            f"{name} is not a setting of {method}, but of {', '.join(having)}: leave it out, or "
            "take one of these as --method."
        )


def method_settings(method: Method, given: Mapping[str, str]) -> dict[str, Any]:
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
