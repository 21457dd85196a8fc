"""The options of `bodysense identify`, from the command line or from a config.yaml."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bodysense.errors import BodysenseError, FileReadError, MismatchError, unknown_name

if TYPE_CHECKING:
    from bodysense.identification.identifier import Identifier
    from bodysense.identification.preprocessing import Preprocessing
    from bodysense.identification.run import IdentificationRun
    from bodysense.signals.raw_log import RawLog


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
    parser.add_argument("--method", metavar="NAME", help="pc-wls (default), ols, wls, irls, tls, …")
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
        "offset, stribeck, … with its shape as in coulomb:width=0.02",
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
    method.add_argument("--weighting", choices=("huber", "window"), help="of irls and pc-irls")
    method.add_argument("--spread", metavar="X", type=float, help="of the prior of ridge (0.3)")
    method.add_argument("--seed", metavar="N", type=int, help="of random numbers (0)")


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
    seed: int = 0
    sha256: Mapping[str, str] = field(default_factory=dict)

    def identifier(self) -> Identifier:
        """The method with its settings."""
        from bodysense.identification.methods import IDENTIFIERS

        if self.method not in IDENTIFIERS:
            raise unknown_name("method", self.method, IDENTIFIERS)
        cls = IDENTIFIERS[self.method]
        settings: dict[str, Any] = {}
        known = {f.name for f in fields(cls)}  # type: ignore[arg-type]
        for name in ("weighting", "spread"):
            value = getattr(self, name)
            if value is None:
                continue
            if name not in known:
                raise unknown_name(f"setting of {self.method}", name, sorted(known))
            settings[name] = value
        return cls(**settings)

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

    def friction_choice(self) -> Literal["auto", "own", "choose"]:
        """A law that is named is kept as it is."""
        if self.friction == "auto":
            return "auto"
        return "choose" if self.friction == "choose" else "own"

    def check_digests(self, logs: Sequence[RawLog], validate: Sequence[RawLog]) -> None:
        """Raise if recordings or files changed since the config.yaml was written."""
        paths = (*self.logs, *self.validate)
        now = {path: log.digest for path, log in zip(paths, (*logs, *validate), strict=True)}
        now |= self.file_digests()
        for path, digest in now.items():
            before = self.sha256.get(path)
            if before and digest and before != digest:
                raise MismatchError(
                    f"{path} is not the file that the configuration was written for (its SHA-256 "
                    "differs): bring the old one back, or run without --config."
                )

    def file_digests(self) -> dict[str, str]:
        """SHA-256 of the robot's, layout and actuator files."""
        return _digests(self.robot, self.layout, self.actuators)

    def configuration(self, found: IdentificationRun) -> dict[str, Any]:
        """What config.yaml holds: absolute paths, and digests of all files."""
        from bodysense.robot.builtin import builtin_names

        table = asdict(self)
        for key in ("layout", "actuators"):
            table[key] = _absolute(table[key])
        if self.robot not in builtin_names():  # of which a folder may have the name as well
            table["robot"] = _absolute(self.robot)
        for key in ("logs", "validate"):
            table[key] = [_absolute(path) for path in table[key]]
        table["friction_shape"] = dict(self.friction_shape)
        paths = (*table["logs"], *table["validate"])
        diagnoses = (*found.diagnoses, *found.validation)
        table["sha256"] = {p: d.digest for p, d in zip(paths, diagnoses, strict=True)}
        table["sha256"] |= _digests(table["robot"], table["layout"], table["actuators"])
        return {key: value for key, value in table.items() if value is not None}


def _digests(*paths: str | None) -> dict[str, str]:
    """SHA-256 of those that are files."""
    files = [path for path in paths if path is not None and Path(path).is_file()]
    return {path: sha256(Path(path).read_bytes()).hexdigest() for path in files}


def options_of(args: argparse.Namespace) -> Options:
    """Options from the command line, on top of those of --config."""
    table: dict[str, Any] = {} if args.config is None else _read(args.config)
    for f in fields(Options):
        value = getattr(args, f.name, None)
        if value is not None and value != []:
            table[f.name] = value
    if args.friction is not None:
        table["friction"], table["friction_shape"] = _friction(args.friction)
    if not table.get("robot") or not table.get("logs"):
        raise BodysenseError(
            "give a robot and at least one recording: bodysense identify ROBOT LOG -o DIR; see "
            "`bodysense identify --help`."
        )
    for key in ("logs", "validate"):
        table[key] = tuple(table.get(key) or ())
    return Options(**table)


def _friction(text: str) -> tuple[str, dict[str, float]]:
    """``coulomb:width=0.02,vs=0.1`` as a name and its shape."""
    law, _, rest = text.partition(":")
    if rest and law in ("auto", "own", "choose"):
        raise BodysenseError(
            f"--friction {text}: {law} takes no shape; name a law for it, e.g. coulomb:{rest}."
        )
    shape = {}
    for part in filter(None, rest.split(",")):
        name, _, value = part.partition("=")
        try:
            shape[name] = float(value)
        except ValueError:
            raise BodysenseError(
                f"--friction {text}: {part!r} is not a shape; write e.g. coulomb:width=0.02."
            ) from None
    return law, shape


def _read(path: str) -> dict[str, Any]:
    from bodysense.plain_yaml import parse_yaml

    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise FileReadError(f"cannot read {path}: {error}; check the path.") from error
    table = parse_yaml(data, path, FileReadError)
    known = {f.name for f in fields(Options)}
    for key in table:
        if key not in known:
            raise unknown_name(f"key in {path}", str(key), sorted(known))
    for key, value in table.items():
        if value is not None and not _KINDS.get(key, _is_number)(value):
            raise FileReadError(
                f"{path}, {key}: {value!r} cannot be meant; it stands as identify wrote it, or not "
                "at all."
            )
    return {key: value for key, value in table.items() if value is not None}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _are_named(kind: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: (
        isinstance(value, dict)
        and all(isinstance(name, str) and kind(x) for name, x in value.items())
    )


_KINDS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("robot", "layout", "method", "actuators", "friction", "weighting"), _is_text),
    **dict.fromkeys(("logs", "validate"), _are_texts),
    **dict.fromkeys(("fixed", "decimate", "allow_unusable"), _is_flag),
    **dict.fromkeys(("order", "seed"), _is_whole),
    "friction_shape": _are_named(_is_number),
    "sha256": _are_named(_is_text),
}
"""What a key of config.yaml holds; a number where nothing is said."""


def _absolute(path: str | None) -> str | None:
    """Absolute where it is a file or folder; names such as tx40 stay."""
    return str(Path(path).resolve()) if path is not None and Path(path).exists() else path
