"""The options of all commands that fit a regression: identify, payload and gains."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from bodysense.cli.options import RunOptions
from bodysense.errors import BodysenseError, MismatchError

if TYPE_CHECKING:
    from bodysense.identification.preprocessing import Preprocessing
    from bodysense.robot import Robot

FRICTION_CHOICES = ("auto", "own", "choose")
"""Words for --friction that name no law."""

FILTERING: Mapping[str, object] = {
    "band": 0.0,
    "order": 4,
    "border": 0.0,
    "still_speed": 0.0,
    "decimate": True,
}
"""Settings of the filters that --set reaches, each with a value of its kind."""


@dataclass(frozen=True, kw_only=True)
class FitOptions(RunOptions):
    """Settings of the robot and of the filters."""

    needed: ClassVar[Mapping[str, str]] = {"robot": "a robot", "logs": "at least one recording"}

    logs: tuple[str, ...]
    fixed: bool = False
    friction: str = "auto"
    friction_shape: Mapping[str, float] = field(default_factory=dict)
    cutoff: float | None = None
    band: float | None = None
    order: int = 4
    border: float | None = None
    still_speed: float | None = None
    decimate: bool = True
    allow_unusable: bool = False

    @classmethod
    def _given(cls, args: argparse.Namespace) -> dict[str, Any]:
        table = super()._given(args)
        if args.friction is not None:
            table["friction"], table["friction_shape"] = _friction(args.friction)
        if args.set is not None:
            cls._set(table, setting_pairs(args.set))
        return table

    @classmethod
    def _set(cls, table: dict[str, Any], pairs: dict[str, str]) -> None:
        """Put the settings of --set into the table; those of the filters here, others below."""
        for name in [name for name in pairs if name in FILTERING]:
            text = pairs.pop(name)
            if name in table:
                raise MismatchError(f"{name} is given twice, by --set {name} too: give it once.")
            table[name] = setting_value(name, text, FILTERING[name])

    def preprocessing(self) -> Preprocessing:
        """How logs are filtered."""
        from bodysense.identification.preprocessing import Preprocessing

        names = ("cutoff", *FILTERING)
        return Preprocessing(**{name: getattr(self, name) for name in names})

    @property
    def law(self) -> str:
        """The friction law, or how it is chosen, whether its shape is fitted or not."""
        return self.friction.removesuffix(":fit")

    def friction_choice(self) -> str:
        """The friction argument for a robot that has the named law already."""
        if self.law in FRICTION_CHOICES:
            return self.friction
        return "own:fit" if self.friction.endswith(":fit") else "own"

    def load_robot(self) -> Robot:
        """The robot, with the friction law that is named."""
        from bodysense.identification.friction_comparison import with_law
        from bodysense.robot import load_robot

        robot = load_robot(
            self.robot,
            floating_base=False if self.fixed else None,
            actuators=self.actuators,
            allow_inconsistent=True,
        )
        if self.law not in FRICTION_CHOICES:
            robot = with_law(robot, self.law)
            model, shape = robot.friction.model, dict(self.friction_shape)
            robot = robot.with_friction(model, coefficients=None, **shape)
        return robot


def add_fit_options(parser: argparse.ArgumentParser, friction: str, settings: str) -> None:
    """Declare the options of robot and data.

    Args:
        parser: of the command.
        friction: help for --friction.
        settings: help for --set.
    """
    add = parser.add_argument_group("robot").add_argument
    add("--actuators", metavar="FILE", help="an actuator file (YAML)")
    add("--fixed", action="store_true", default=None, help="fix the root link to the ground")
    add("--friction", metavar="LAW", help=friction)
    add = parser.add_argument_group("data and method").add_argument
    add("--cutoff", metavar="HZ", type=float, help="of the low-pass on positions (from the data)")
    add(
        "--allow-unusable",
        action="store_true",
        default=None,
        help="continue in spite of errors that the doctor reports",
    )
    add("--set", metavar="NAME=VALUE", action="append", help=settings)


def setting_pairs(texts: Sequence[str]) -> dict[str, str]:
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
    if (parts and law in FRICTION_CHOICES) or (fit and law in ("auto", "choose")):
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
