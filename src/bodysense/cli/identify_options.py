"""The options of `bodysense identify`, from the command line or from a config.yaml."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from bodysense.cli.identify_config import absolute, digests, read_configuration
from bodysense.cli.simulate_options import numbers
from bodysense.errors import BodysenseError, MismatchError, RobotFileError, unknown_name

if TYPE_CHECKING:
    from bodysense.identification.identifier import Identifier, Method
    from bodysense.identification.knowledge import Knowledge
    from bodysense.identification.preprocessing import Preprocessing
    from bodysense.logs.log import RawLog
    from bodysense.robot import Robot

CHOICES = ("auto", "own", "choose")
"""Words for --friction that name no law."""


@dataclass(frozen=True)
class Options:
    """All settings of a run; what config.yaml holds."""

    robot: str
    logs: tuple[str, ...]
    layout: str | None = None
    validate: tuple[str, ...] = ()
    method: str = "pc-wls"
    actuators: str | None = None
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
    weighting: str | None = None
    spread: float | None = None
    forgetting: float | None = None
    seed: int = 0
    relax: str | None = None
    relax_weight: float | str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    knowledge: str | None = None
    total_mass: float | None = None
    com_inside: str | None = None
    payload: str | None = None
    unloaded: tuple[str, ...] = ()
    gain_uncertainty: float | None = None
    robot_uncertainty: float | None = None
    drive_gains: bool = False
    load: tuple[float, ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def of_a_load(self) -> bool:
        """Whether it is about a load or drive gains instead of the arm."""
        return self.payload is not None or self.drive_gains

    def identifier(self) -> Identifier | str:
        """The method with its settings."""
        from bodysense.identification.methods import IDENTIFIERS

        wanted = {
            name: getattr(self, option)
            for name, option in _SETTINGS.items()
            if getattr(self, option) is not None
        }
        if self.method == "auto":
            if wanted or self.settings:
                option = _SETTINGS[next(iter(wanted))].replace("_", "-") if wanted else "set"
                raise MismatchError(
                    f"--{option} does not go with --method auto, which chooses it: name a method, "
                    "or leave it out."
                )
            return self.method
        if self.method not in IDENTIFIERS:
            raise unknown_name("method", self.method, ("auto", *IDENTIFIERS))
        method = IDENTIFIERS[self.method]
        for name in wanted:
            having = [m for m, row in IDENTIFIERS.items() if name in row.settings]
            if self.method not in having:
                option = _SETTINGS[name].replace("_", "-")
                raise MismatchError(
                    f"--{option} is not for {self.method}, but for {', '.join(having)}: leave it "
                    "out, or take one of these as --method."
                )
        if wanted.get("relaxation_weight") == "auto":
            wanted["relaxation_weight"] = None
        return method.identifier(**wanted, **method_settings(method, self.settings))

    def preprocessing(self) -> Preprocessing:
        """How logs are filtered."""
        from bodysense.identification.preprocessing import Preprocessing

        return Preprocessing(
            cutoff=self.cutoff,
            band=self.band,
            order=self.order,
            border=self.border,
            still_speed=self.still_speed,
            decimate=self.decimate,
        )

    @property
    def law(self) -> str:
        """The friction law without what is to be done with its shape."""
        return self.friction.removesuffix(":fit")

    def friction_choice(self) -> str:
        """A law that is named is kept as it is, or fitted."""
        if self.law in CHOICES:
            return self.friction
        return "own:fit" if self.friction.endswith(":fit") else "own"

    def known(self, robot: Robot) -> Knowledge:
        """What is known of the links, from the file and the options."""
        from bodysense.identification.knowledge import Knowledge, read_knowledge, with_shortcuts

        told = Knowledge() if self.knowledge is None else read_knowledge(self.knowledge, robot)
        try:
            return with_shortcuts(
                told, robot, total_mass=self.total_mass, com_inside=self.com_inside
            )
        except RobotFileError as error:  # in the words of the command line
            told_here = str(error).partition(": name the folder")[0]
            raise RobotFileError(
                f"{told_here}: put it there, or take --com-inside boxes."
            ) from None

    def check_digests(self, logs: Iterable[RawLog]) -> None:
        """Raise if recordings or files changed since the config.yaml was written.

        Args:
            logs: all recordings, in the order of `recordings`.
        """
        now = {path: log.digest for path, log in zip(self.recordings, logs, strict=True)}
        now |= self.file_digests()
        for path, digest in now.items():
            before = self.sha256.get(path)
            if before and digest and before != digest:
                raise MismatchError(
                    f"{path} is not the file that the configuration was written for (its SHA-256 "
                    "differs): bring the old one back, or run without --config."
                )

    @property
    def recordings(self) -> tuple[str, ...]:
        """Paths of all recordings."""
        return (*self.logs, *self.validate, *self.unloaded)

    def file_digests(self) -> dict[str, str]:
        """SHA-256 of all files beside the recordings."""
        return digests(self.robot, self.layout, self.actuators, self.knowledge)

    def configuration(self, recordings: Sequence[str]) -> dict[str, Any]:
        """What config.yaml holds: absolute paths, and digests of all files.

        Args:
            recordings: SHA-256 of each, in the order of `recordings`.
        """
        from bodysense.robot.builtin import builtin_names

        table = asdict(self)
        files = ("layout", "actuators", "knowledge")
        for key in files:
            table[key] = absolute(table[key])
        if self.robot not in builtin_names():  # of which a folder may have the name as well
            table["robot"] = absolute(self.robot)
        lists = ("logs", "validate", "unloaded")
        for key in lists:
            table[key] = [absolute(path) for path in table[key]]
        table["friction_shape"], table["settings"] = dict(self.friction_shape), dict(self.settings)
        table["load"] = list(self.load)
        paths = [path for key in lists for path in table[key]]
        table["sha256"] = dict(zip(paths, recordings, strict=True))
        table["sha256"] |= digests(table["robot"], *(table[key] for key in files))
        other = _FOR_THE_ARM if self.of_a_load else _FOR_A_LOAD
        return {key: v for key, v in table.items() if v is not None and key not in other}


_SETTINGS = {
    "weighting": "weighting",
    "spread": "spread",
    "forgetting": "forgetting",
    "relaxation": "relax",
    "relaxation_weight": "relax_weight",
}
"""Settings of methods by the options that hold them."""

_FOR_THE_ARM = (
    "validate",
    "method",
    "weighting",
    "spread",
    "forgetting",
    "seed",
    "relax",
    "relax_weight",
    "settings",
    "knowledge",
    "total_mass",
    "com_inside",
)
_FOR_A_LOAD = (
    "payload",
    "unloaded",
    "gain_uncertainty",
    "robot_uncertainty",
    "drive_gains",
    "load",
)


def options_of(args: argparse.Namespace) -> Options:
    """Options from the command line, on top of those of --config."""
    known = {f.name for f in fields(Options)}
    table: dict[str, Any] = {} if args.config is None else read_configuration(args.config, known)
    for f in fields(Options):
        value = getattr(args, f.name, None)
        if value is not None and value != []:
            table[f.name] = value
    if args.friction is not None:
        table["friction"], table["friction_shape"] = _friction(args.friction)
    if args.set is not None:
        table["settings"] = _pairs(args.set)
    if not table.get("robot") or not table.get("logs"):
        raise BodysenseError(
            "give a robot and at least one recording: bodysense identify ROBOT LOG -o DIR; see "
            "`bodysense identify --help`."
        )
    if args.load is not None:
        table["load"] = numbers(args.load, "--load", "KG or KG,x,y,z", counts=(1, 4))
    for key in ("logs", "validate", "unloaded", "load"):
        table[key] = tuple(table.get(key) or ())
    options = Options(**table)
    _refuse_unused(options, {name for name in known if getattr(args, name, None) is not None})
    return options


def _refuse_unused(options: Options, given: set[str]) -> None:
    """Refuse options that would have no effect: whoever gave them expects one.

    Args:
        options: of the command line and the configuration.
        given: names of those of the command line.
    """
    plain = Options(options.robot, options.logs)
    used = {f.name for f in fields(Options) if getattr(options, f.name) != getattr(plain, f.name)}
    used |= given - {"logs", "validate", "unloaded"}

    def refuse(names: Iterable[str], use: str) -> None:
        for name in names:
            if name in used:
                option = f"--{name.replace('_', '-')}"
                raise MismatchError(f"{option} is for {use}, or leave it out.")

    if not options.of_a_load:
        refuse(_FOR_A_LOAD, "recordings of a load: add --payload or --drive-gains")
        return
    refuse(_FOR_THE_ARM, "the arm's own parameters: leave --payload and --drive-gains out")
    if options.law == "choose" or options.law != options.friction:
        raise MismatchError(
            f"--friction {options.friction} is for the arm's own parameters: identify those first, "
            "or name the law, e.g. stribeck."
        )
    if not options.drive_gains:
        refuse(("load",), "drive gains from a load that was weighed: add --drive-gains")
        if options.unloaded:
            refuse(("robot_uncertainty",), "an arm that is taken as known: leave --unloaded out")
        return
    refuse(("gain_uncertainty", "robot_uncertainty"), "a load: leave --drive-gains out")
    if not options.load:
        raise MismatchError("--drive-gains needs the mass of the load, as weighed: --load KG.")
    if not options.unloaded:
        raise MismatchError(
            "--drive-gains needs recordings without the load as well: --unloaded LOG."
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
        if name in (*_SETTINGS, "seed"):
            raise MismatchError(
                f"--set {name}={text}: there is an option for it, "
                f"--{_SETTINGS.get(name, name).replace('_', '-')}."
            )
        made[name] = _value(name, text, own[name].default)
    return made


def _value(name: str, text: str, default: object) -> bool | int | float | str:
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


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    """Settings by name, each given once: of two values one would be ignored."""
    made: dict[str, str] = {}
    for text in texts:
        name, value = _pair(text)
        if name in made:
            raise MismatchError(
                f"--set {name} is given twice, as {made[name]} and as {value}: give it once."
            )
        made[name] = value
    return made


def _pair(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not given or not name or not value:
        raise BodysenseError(f"--set {text}: write NAME=VALUE, e.g. integrator=rk4.")
    return name.strip().replace("-", "_"), value.strip()


def _friction(text: str) -> tuple[str, dict[str, float]]:
    """``coulomb:width=0.02`` as a name and its shape; ``stribeck:vs=0.2,fit`` is to be fitted."""
    law, _, rest = text.partition(":")
    parts = list(filter(None, rest.split(",")))
    fit = "fit" in parts
    parts = [part for part in parts if part != "fit"]
    if (parts and law in CHOICES) or (fit and law in ("auto", "choose")):
        example = "stribeck:fit" if fit else f"coulomb:{rest}"
        raise BodysenseError(
            f"--friction {text}: {law} takes no shape; name a law for it, e.g. {example}."
        )
    shape = {}
    for part in parts:
        name, _, value = part.partition("=")
        try:
            shape[name] = float(value)
        except ValueError:
            raise BodysenseError(
                f"--friction {text}: {part!r} is not a shape; write e.g. coulomb:width=0.02."
            ) from None
    return f"{law}:fit" if fit else law, shape
