"""What the commands share: values of options, files to write, and config.yaml with its digests."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from bodysense.errors import (
    BodysenseError,
    FileReadError,
    FileWriteError,
    MismatchError,
    ShapeError,
    unknown_name,
)

_N = TypeVar("_N", int, float)

# Values of options: what argparse calls, and numbers between commas.


def positive(text: str) -> float:
    """A finite number above zero."""
    return _checked(float(text), text, lambda x: 0.0 < x < math.inf, "a finite number above zero")


def distance(text: str) -> float:
    """A finite number of at least zero, in metres."""
    return _checked(float(text), text, lambda x: 0.0 <= x < math.inf, "a distance of at least 0 m")


def share(text: str) -> float:
    """A number above zero and up to one."""
    return _checked(float(text), text, lambda x: 0.0 < x <= 1.0, "a number above 0 and up to 1")


def count(text: str) -> int:
    """A whole number of at least one."""
    return _checked(int(text), text, lambda x: x >= 1, "a whole number of at least 1")


def seed(text: str) -> int:
    """A whole number of at least zero."""
    return _checked(int(text), text, lambda x: x >= 0, "a whole number of at least 0")


def _checked(value: _N, text: str, valid: Callable[[_N], bool], kind: str) -> _N:
    if not valid(value):
        raise argparse.ArgumentTypeError(f"invalid value {text}; expected {kind}")
    return value


def numbers(
    text: str, option: str, form: str = "SIGMA or s1,s2,…", counts: Sequence[int] = ()
) -> list[float]:
    """Numbers between commas, as many as one of `counts`."""
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(map(math.isfinite, values)) or (counts and len(values) not in counts):
        raise ShapeError(f"{option}: invalid value {text!r}; expected {form} in numbers.")
    return values


def refuse_unused(options: Iterable[tuple[str, bool, str]]) -> None:
    """Refuse options that would have no effect: whoever gave them expects one.

    Args:
        options: name of each, whether it is given and has no effect, and what it is for.
    """
    for option, unused, use in options:
        if unused:
            raise MismatchError(f"{option} is for {use}: change that, or leave {option} out.")


def require_writable(files: Sequence[tuple[Path, Sequence[str]]], *, force: bool) -> None:
    """Raise if one of the files could not be written, before the work takes its time.

    Args:
        files: each with the suffixes that it may have.
        force: whether existing files may be replaced.
    """
    for path, suffixes in files:
        if path.suffix.lower() not in suffixes:
            raise FileWriteError(
                f"cannot write {path}: give it a name that ends in {' or '.join(suffixes)}."
            )
        if not path.parent.is_dir():
            raise FileWriteError(
                f"cannot write {path}: the folder {path.parent} does not exist; create it first or "
                "write elsewhere."
            )
        if path.exists() and not force:
            raise FileWriteError(f"{path} exists: choose another name, or replace it with --force.")
    if len({path.resolve() for path, _ in files}) < len(files):
        raise FileWriteError("two outputs have the same name: give each its own.")


def write_folder(
    args: argparse.Namespace, files: Sequence[str], write: Callable[[Path], Sequence[str]]
) -> tuple[list[str], Sequence[str]]:
    """Write all files of a run into the folder of --output, if there is one.

    Args:
        args: of the command line.
        files: names of all files that the command can write.
        write: writes them into a folder; returns notes on those that are missing.

    Returns:
        Names of the files, and the notes.
    """
    from bodysense.files import filled_together

    if args.output is None:
        return [], ()
    with filled_together(args.output, replace=bool(args.force), names=files) as draft:
        notes = write(draft)
        return sorted(path.name for path in draft.iterdir()), notes


def print_run(
    args: argparse.Namespace, text: str, table: Mapping[str, Any], written: Sequence[str]
) -> None:
    """Print a run as text or as JSON, and where it was written."""
    if args.json:
        print(json.dumps(table, indent=2, allow_nan=False))
        return
    print(text, end="")
    if args.output is not None:
        print(f"\nwritten to {args.output}: {', '.join(written)}")


def reproduction(command: str, folder: str) -> str:
    """The command that reproduces the run whose config.yaml is in a folder."""
    return f"bodysense {command} --config {Path(folder) / 'config.yaml'} -o ANOTHER_FOLDER"


# config.yaml: the options of a run, with digests of all files that went in.


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Settings of a run on recordings of a robot: what its config.yaml holds.

    A command declares its settings as fields, from whose types values in a config.yaml are checked.

    Class attributes:
        command: its name.
        usage: what is typed at least.
        needed: fields that must be given, in words.
        recordings: fields that hold paths of recordings.
        files: fields that hold paths of other files, beside the robot's.
        retired: keys of a config.yaml of earlier versions that have no effect.
    """

    command: ClassVar[str]
    usage: ClassVar[str]
    needed: ClassVar[Mapping[str, str]]
    recordings: ClassVar[tuple[str, ...]]
    files: ClassVar[tuple[str, ...]] = ("layout", "actuators")
    retired: ClassVar[tuple[str, ...]] = ()

    robot: str
    layout: str | None = None
    actuators: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)

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
                    "leave it out."
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

    def check_digests(self, *recordings: str) -> None:
        """Raise if recordings, given their SHA-256, or files changed since the config.yaml."""
        now = dict(zip(self._recording_paths(), recordings, strict=True)) | self.file_digests()
        for path, digest in now.items():
            before = self.sha256.get(path)
            if before and digest and before != digest:
                raise MismatchError(
                    f"{path} is not the file that the configuration was written for (its SHA-256 "
                    "differs): restore that file, or run without --config."
                )

    def configuration(self, *recordings: str) -> dict[str, Any]:
        """What config.yaml holds: absolute paths, and digests of all files.

        Args:
            recordings: SHA-256 of each.
        """
        from bodysense.robot.io.load import builtin_names

        paths = [*self.recordings, *self.files]
        if self.robot not in builtin_names():  # a folder may have the name of one as well
            paths.append("robot")
        absolute = {name: _absolute(getattr(self, name)) for name in paths}
        same = replace(self, **absolute)
        table = {key: _plain(value) for key, value in asdict(same).items() if value is not None}
        digests = dict(zip(same._recording_paths(), recordings, strict=True))
        return {**table, "sha256": digests | same.file_digests()}


_COMMON = {"config", "force", "json", "output", "run_command", "set", "version", "words"}
"""What argparse holds beside the settings of a run."""


def add_run_options(parser: argparse.ArgumentParser, output: str, printed: str) -> None:
    """Declare what every command on recordings has: layout, output and configuration.

    Args:
        parser: of the command.
        output: what is written.
        printed: what is printed as JSON.
    """
    add = parser.add_argument
    add("--layout", metavar="FILE", help="meaning of the columns of the logs (YAML)")
    add("-o", "--output", metavar="DIR", help=f"write {output} here")
    add("--force", action="store_true", default=None, help="replace files in an existing DIR")
    add("--config", metavar="FILE", help="reproduce the run of a config.yaml")
    add("--json", action="store_true", default=None, help=f"print {printed} as JSON")


def read_table(path: str) -> dict[str, object]:
    """The content of a config.yaml, unchecked."""
    from bodysense.schema import Schema

    return Schema().read(path)


def _read_configuration(path: str, options: type[RunOptions]) -> dict[str, Any]:
    """Read a config.yaml with the fields of the options; empty values are left out."""
    kinds, known = get_type_hints(options), sorted(f.name for f in fields(options))
    table = {}
    for key, value in read_table(path).items():
        if key in options.retired:
            continue
        if key not in known:
            raise unknown_name(f"key in {path}", str(key), known)
        if value is None:
            continue
        if not _fits(value, kinds[key]):
            raise FileReadError(
                f"{path}, {key}: invalid value {value!r}; expected {_words(kinds[key])}, as "
                f"`bodysense {options.command}` writes it, or omit the key."
            )
        table[key] = value
    return table


_TYPES: Mapping[object, tuple[type, ...]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (int, float),
    NoneType: (),
}
"""Of values in a YAML file by the type of a field."""

_WORDS: Mapping[object, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}


def _fits(value: object, kind: Any) -> bool:
    """Whether a value of a YAML file is of the kind of a field."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return (type(value), value) in [(type(part), part) for part in parts]
    if origin is tuple:
        return isinstance(value, list) and all(_fits(entry, parts[0]) for entry in value)
    if origin is Mapping:
        return isinstance(value, dict) and all(
            _fits(name, str) and _fits(entry, parts[1]) for name, entry in value.items()
        )
    return type(value) in _TYPES[kind]


def _words(kind: Any) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(_words(part) for part in parts if part is not NoneType)
    if origin is Literal:
        return " or ".join(str(part).lower() for part in parts)
    if origin is tuple:
        return f"a list, each {_words(parts[0])}"
    if origin is Mapping:
        return f"a mapping from name to {_words(parts[1])}"
    return _WORDS[kind]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _absolute(value: Any) -> Any:
    """Absolute paths where they are files or folders; names such as tx40 stay."""
    if isinstance(value, tuple):
        return tuple(_absolute(entry) for entry in value)
    return str(Path(value).resolve()) if value is not None and Path(value).exists() else value
