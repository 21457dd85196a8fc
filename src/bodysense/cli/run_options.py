"""Settings of a run on recordings: declared once, for the command line and for config.yaml."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from hashlib import sha256
from os.path import exists
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    Protocol,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from bodysense.cli.options import GRAVITY_HELP, LAYOUT_HELP, LOCK_HELP, MOUNT_HELP
from bodysense.errors import BodysenseError, FileReadError, MismatchError, unknown_name

Groups = Mapping[str, "argparse._ArgumentGroup"]


class Digested(Protocol):
    """A recording, or what was found in it: with the SHA-256 of its file."""

    @property
    def digest(self) -> str: ...


def option(about: str, *flags: str, default: Any = None, group: str = "", **keywords: Any) -> Any:
    """Declare a setting: a field of `RunOptions`, and the option that sets it.

    Args:
        about: help.
        flags: by default one with the name of the field.
        default: of the field.
        group: of options that it belongs to.
        keywords: for argparse, beside those that the type of the field says.
    """
    return field(
        default=default, metadata={"flags": flags, "group": group, "help": about, **keywords}
    )


def required(about: str, *flags: str, **keywords: Any) -> Any:
    """Declare a setting that a run cannot do without, as `option` does."""
    return option(about, *flags, default=MISSING, **keywords)


def repeated(about: str, *flags: str, **keywords: Any) -> Any:
    """Declare a setting that may be given several times, one value each, as `option` does."""
    about = f"{about}; may be repeated"
    return option(about, *flags, default=(), action="append", nargs=None, **keywords)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Settings of a run on recordings of a robot: what its config.yaml holds.

    A command declares its settings as fields. Those with `option` can be set on the command line;
    from the types of the fields values in a config.yaml are checked.

    Class attributes:
        command: its name.
        usage: what is typed at least.
        needed: fields that must be given, in words.
        written: what -o writes, in words.
        printed: what --json prints, in words.
        recordings: fields that hold paths of recordings.
        files: fields that hold paths of other files, beside the robot's.
        retired: keys of a config.yaml of earlier versions that have no effect.
    """

    command: ClassVar[str]
    usage: ClassVar[str]
    needed: ClassVar[Mapping[str, str]]
    written: ClassVar[str]
    printed: ClassVar[str]
    recordings: ClassVar[tuple[str, ...]]
    files: ClassVar[tuple[str, ...]] = ("layout", "actuators")
    retired: ClassVar[tuple[str, ...]] = ()

    robot: str
    layout: str | None = option(LAYOUT_HELP, metavar="FILE")
    actuators: str | None = option("an actuator file (YAML)", metavar="FILE", group="robot")
    gravity: str | None = option(GRAVITY_HELP, group="robot", metavar="X,Y,Z")
    mount: str | None = option(MOUNT_HELP, group="robot", metavar="HOW")
    lock: tuple[str, ...] = repeated(LOCK_HELP, group="robot", metavar="NAME[=Q]")
    sha256: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> Groups:
        """Declare the options of all fields, and those for output and configuration.

        In usage the options without a group come first, then those for output. Returns the groups
        by title.
        """
        declared = [f for f in fields(cls) if f.metadata]
        for f in declared:
            if not f.metadata["group"]:
                cls._add_option(parser, f)
        add = parser.add_argument
        add("-o", "--output", metavar="DIR", help=f"write {cls.written} here")
        add("--force", action="store_true", default=None, help="replace files in an existing DIR")
        add("--config", metavar="FILE", help="run again with the settings of a config.yaml")
        add("--json", action="store_true", default=None, help=f"print {cls.printed} as JSON")
        titles = dict.fromkeys(f.metadata["group"] for f in declared if f.metadata["group"])
        groups = {title: parser.add_argument_group(title) for title in titles}
        for f in declared:
            if f.metadata["group"]:
                cls._add_option(groups[f.metadata["group"]], f)
        return groups

    @classmethod
    def _add_option(cls, group: argparse._ActionsContainer, f: Field[Any]) -> None:
        about = {key: value for key, value in f.metadata.items() if key != "group"}
        flags = about.pop("flags") or (f"--{f.name.replace('_', '-')}",)
        keywords = _keywords(flags, get_type_hints(cls)[f.name])
        if flags[0].startswith("-"):
            keywords |= {"dest": f.name}
        group.add_argument(*flags, **keywords | about)

    @classmethod
    def from_arguments(cls, args: argparse.Namespace) -> Self:
        """From the command line, on top of --config."""
        cls._refuse_foreign(args)
        table = {} if args.config is None else _read_configuration(args.config, cls)
        table |= cls._given(args)
        missing = [words for name, words in cls.needed.items() if not table.get(name)]
        if missing:
            raise BodysenseError(
                f"give {' and '.join(missing)}: bodysense {cls.command} {cls.usage}; see "
                f"`bodysense {cls.command} --help`."
            )
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in table.items()
        }
        return cls(**values)

    @classmethod
    def _refuse_foreign(cls, args: argparse.Namespace) -> None:
        """Refuse options of other commands."""
        own = _COMMON | {f.name for f in fields(cls)}
        foreign = [name for name, value in vars(args).items() if value not in (None, [])]
        for name in foreign:
            if name not in own:
                raise MismatchError(
                    f"--{name.replace('_', '-')} is not an option of `bodysense {cls.command}`: "
                    f"use `bodysense {_OWNERS.get(name, 'identify')}`, or leave it out."
                )

    @classmethod
    def _given(cls, args: argparse.Namespace) -> dict[str, Any]:
        """Settings of the command line by field."""
        values = {f.name: getattr(args, f.name, None) for f in fields(cls)}
        return {name: value for name, value in values.items() if value is not None and value != []}

    def _recording_paths(self) -> list[str]:
        values = [getattr(self, name) for name in self.recordings]
        return [path for v in values for path in ([v] if isinstance(v, str) else v)]

    def _robot_files(self) -> tuple[str, ...]:
        return (self.robot,)

    def file_digests(self) -> dict[str, str]:
        """SHA-256 of all files beside the recordings."""
        paths = (*self._robot_files(), *(getattr(self, name) for name in self.files))
        return {
            path: sha256(Path(path).read_bytes()).hexdigest()
            for path in paths
            if path is not None and Path(path).is_file()
        }

    def _digests(self, recordings: Sequence[Digested]) -> dict[str, str]:
        paths = zip(self._recording_paths(), recordings, strict=True)
        return {path: recording.digest for path, recording in paths} | self.file_digests()

    def check_digests(self, *recordings: Digested) -> None:
        """Raise if recordings, or files, changed since the config.yaml."""
        for path, digest in self._digests(recordings).items():
            before = self.sha256.get(path)
            if before and digest and before != digest:
                raise MismatchError(
                    f"{path} is not the file that the configuration was written for (its SHA-256 "
                    "differs): restore that file, or run without --config."
                )

    def configuration(self, *recordings: Digested) -> dict[str, Any]:
        """What config.yaml holds: absolute paths, and digests of all files."""
        from bodysense.files import plain
        from bodysense.robot.io.load import builtin_names

        paths = [*self.recordings, *self.files]
        if self.robot not in builtin_names():  # a folder may have the name of one as well
            paths.append("robot")
        absolute = {name: _absolute(getattr(self, name)) for name in paths}
        same = replace(self, **absolute)
        table = {key: plain(value) for key, value in asdict(same).items() if value is not None}
        return {**table, "sha256": same._digests(recordings)}


_OWNERS = {
    "unloaded": "payload",
    "gain_uncertainty": "payload",
    "robot_uncertainty": "payload",
    "load": "gains",
}
"""Commands with options that others parse only to refuse them; all else is of identify."""

_COMMON = {"config", "force", "json", "output", "run_command", "set", "version", "words"}
"""What argparse holds beside the settings of a run."""


def _keywords(flags: Sequence[str], hint: Any) -> dict[str, Any]:
    """For argparse, as the type of a field says; what is not given is None."""
    kind = _parts(hint)[0]
    if not flags[0].startswith("-"):
        return {"nargs": "*" if get_origin(kind) is tuple else "?"}
    if kind == tuple[str, ...]:
        return {"nargs": "+", "action": "extend"}
    if kind is bool:
        return {"action": "store_true", "default": None}
    return {"type": kind if kind in (int, float) else str}


def read_table(path: str) -> dict[str, object]:
    """The content of a config.yaml, unchecked."""
    from bodysense.schema import Schema

    return Schema().read(path)


def _read_configuration(path: str, options: type[RunOptions]) -> dict[str, Any]:
    """Read a config.yaml with the fields of the options; empty values are left out."""
    hints, known = get_type_hints(options), sorted(f.name for f in fields(options))
    table = {}
    for key, value in read_table(path).items():
        if key in options.retired:
            continue
        if key not in known:
            raise unknown_name(f"key in {path}", str(key), known)
        if value is None:
            continue
        fits, words = _kind(hints[key])
        if not fits(value):
            raise FileReadError(
                f"{path}, {key}: invalid value {value!r}; expected {words}, as "
                f"`bodysense {options.command}` writes it, or omit the key."
            )
        table[key] = value
    return table


_KINDS: Mapping[object, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}
"""Types of values in a YAML file by the type of a field, and what they are in words."""


def _kind(hint: Any) -> tuple[Callable[[object], bool], str]:
    """Whether a value of a YAML file is of the type of a field, and that type in words."""
    if get_origin(hint) is Literal:
        values = [(type(part), part) for part in get_args(hint)]
        words = " or ".join(str(part).lower() for _, part in values)
        return lambda value: (type(value), value) in values, words
    if get_origin(hint) is tuple:
        fits, words = _kind(get_args(hint)[0])
        return (
            lambda value: isinstance(value, list) and all(map(fits, value)),
            f"a list, each {words}",
        )
    if get_origin(hint) is Mapping:
        fits, words = _kind(get_args(hint)[1])
        return (
            lambda value: (
                isinstance(value, dict)
                and all(isinstance(name, str) and fits(entry) for name, entry in value.items())
            ),
            f"a mapping from name to {words}",
        )
    if get_origin(hint) in (Union, UnionType):
        kinds = [_kind(part) for part in _parts(hint)]
        return (
            lambda value: any(fits(value) for fits, _ in kinds),
            " or ".join(words for _, words in kinds),
        )
    types, words = _KINDS[hint]
    return lambda value: type(value) in types, words


def _parts(hint: Any) -> list[Any]:
    """The types of a union, without None."""
    if get_origin(hint) not in (Union, UnionType):
        return [hint]
    return [part for part in get_args(hint) if part is not NoneType]


def _absolute(value: Any) -> Any:
    """Absolute paths where they are files or folders; names such as tx40 stay."""
    if isinstance(value, tuple):
        return tuple(_absolute(entry) for entry in value)
    if value is None or exists(value):
        return None if value is None else str(Path(value).resolve())
    name, at, span = value.rpartition("@")  # a range of a recording
    return f"{Path(name).resolve()}{at}{span}" if at and exists(name) else value
