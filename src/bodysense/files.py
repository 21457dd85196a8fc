"""Writing files so that a reader never meets half of one, and reading results back."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import platform
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import yaml
from numpy.typing import NDArray

from bodysense.errors import BodysenseError, FileReadError, FileWriteError, RobotFileError


def write_atomically(path: str | os.PathLike[str], data: bytes | str) -> Path:
    """Write `data` to `path` in one step: afterwards the file is all new, or untouched.

    The bytes go to a temporary file in the same folder, which then takes the place of `path`.
    A symbolic link stays a link, its target is replaced; an existing file keeps its mode. Text is
    written as UTF-8, its line ends as they are. Returns the path with links resolved.

    Raises:
        FileWriteError: the folder is missing, `path` is a folder, or the system refuses.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise FileWriteError(f"cannot write {target}: it is a folder; add a file name to it.")
    if target.exists() and not target.is_file():
        raise FileWriteError(f"cannot write {target}: it is no regular file; write elsewhere.")
    if not target.parent.is_dir():
        raise FileWriteError(
            f"cannot write {target}: the folder {target.parent} does not exist; create it first "
            "or write elsewhere."
        )
    content = data.encode("utf-8") if isinstance(data, str) else data
    # The name of the target is left out: with it, a long name would become too long.
    temporary = target.parent / f".{secrets.token_hex(8)}.part"
    try:
        # Not tempfile: its files are private to the user, while O_CREAT heeds the umask.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with open(descriptor, "wb") as stream:
                if target.exists():
                    os.chmod(temporary, target.stat().st_mode & 0o7777)
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())  # else a power cut could leave a renamed empty file
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise FileWriteError(
            f"cannot write {target}: {error.strerror or error}; check that the folder may be "
            "written to and that the disk has room, or write elsewhere."
        ) from error
    return target


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]]) -> Path:
    """Write named arrays as a compressed NPZ file, in one step."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return write_atomically(path, buffer.getvalue())


def read_arrays(
    path: str | os.PathLike[str], names: Sequence[str]
) -> dict[str, NDArray[np.float64]]:
    """Read the named float arrays of an NPZ file; nothing in it is ever executed."""
    try:
        # Opened here, because numpy leaves a file open that turns out to be no archive.
        with open(path, "rb") as stream:
            stored = np.load(stream, allow_pickle=False)
            if not isinstance(stored, np.lib.npyio.NpzFile):
                raise FileReadError(f"cannot read {path}: one array alone; save the result again.")
            missing = [name for name in names if name not in stored]
            if missing:
                raise FileReadError(
                    f"{path} lacks {', '.join(missing)}: it was not written by this kind of result."
                )
            return {name: np.asarray(stored[name], dtype=np.float64) for name in names}
    except FileReadError:
        raise
    except Exception as error:  # damage shows as zlib.error, TokenError, MemoryError, …
        raise FileReadError(f"cannot read {path}: {error}; save the result again.") from error


def read_json(path: str | os.PathLike[str], keys: Sequence[str]) -> dict[str, Any]:
    """Read a JSON object that has the given keys."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileReadError(f"cannot read {path}: {error}; save the result again.") from error
    missing = [key for key in keys if not isinstance(content, dict) or key not in content]
    if missing:
        raise FileReadError(f"{path} lacks {', '.join(missing)}: save the result again.")
    return dict(content)


# Results: dataclasses whose arrays go to ``name.npz`` and whose other fields go to ``name.json``.


def save_result(
    result: Any,
    folder: str | os.PathLike[str],
    name: str,
    about: Mapping[str, Any] | None = None,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    without: Sequence[str] = (),
) -> None:
    """Write a dataclass: its fields that are annotated as arrays, everything else, its summary.

    Args:
        result: with a method ``summary()``.
        folder: made if it is missing.
        name: of the two files.
        about: what ``name.json`` holds; by default all other fields, of arrays by name the names,
            whose arrays are ``field.0``, ``field.1``, …
        arrays: to be stored beside the fields.
        without: fields that are not stored.
    """
    values = {f.name: getattr(result, f.name) for f in fields(result) if f.name not in without}
    kinds = [field for field in _array_fields(type(result)) if values.get(field) is not None]
    stored = {field: np.asarray(values[field]) for field in kinds}
    if about is None:
        for field in _array_mappings(type(result)):
            stored |= {f"{field}.{k}": value for k, value in enumerate(values[field].values())}
            values[field] = list(values[field])
        about = {field: value for field, value in values.items() if field not in kinds}
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileWriteError(
            f"cannot make the folder {folder}: {error.strerror or error}; write elsewhere."
        ) from error
    write_arrays(Path(folder) / f"{name}.npz", {**stored, **(arrays or {})})
    table = plain({**about, "summary": result.summary()}, stored=True)
    content = json.dumps(table, indent=2, allow_nan=False)
    write_atomically(Path(folder) / f"{name}.json", content)


def load_result(
    kind: type[_Result],
    folder: str | os.PathLike[str],
    name: str,
    *,
    keys: Mapping[str, str] | None = None,
    arrays: Sequence[str] = (),
    shapes: Callable[[_Stored], Mapping[str, tuple[int, ...]]] | None = None,
    **made: Callable[[_Stored], Any],
) -> _Result:
    """Read what `save_result` wrote; arrays are read-only.

    `keys` are those in ``name.json`` by field, where they are not the field's name; `arrays` were
    stored beside the fields, or are fields of numbers stored as arrays; `shapes` are those that
    arrays must have. Functions `made` make fields that are not stored as they are, from all arrays
    and ``name.json`` in one mapping.

    Raises:
        FileReadError: the files are missing, damaged, or do not belong together.
    """
    names = set(_hints(kind)) - set(made)
    others = sorted(names - set(arrays) - set(_array_fields(kind)))
    by_field = {field: (keys or {}).get(field, field) for field in others}
    about = read_json(Path(folder) / f"{name}.json", list(by_field.values()))
    parts = _names_to_read(kind, names - set(arrays), about)
    numbers = read_arrays(Path(folder) / f"{name}.npz", [*chain(*parts.values()), *arrays])
    for array in numbers.values():
        array.setflags(write=False)
    stored: _Stored = {**about, **numbers}
    try:
        expected = {} if shapes is None else shapes(stored)
        wrong = [key for key, shape in expected.items() if stored[key].shape != shape]
        if wrong:
            raise ValueError(f"shape of {', '.join(wrong)}")
        by_field |= {field: field for field in names & set(arrays)}
        values = _values_of(kind, by_field, parts, stored)
        return kind(**values, **{field: make(stored) for field, make in made.items()})
    except (BodysenseError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileReadError(
            f"{name}.json and {name}.npz in {folder} are damaged or do not belong together "
            f"({error!r}): save the result again."
        ) from error


_Stored = dict[str, Any]
_Result = TypeVar("_Result")


def _names_to_read(kind: type, names: set[str], about: _Stored) -> dict[str, list[str]]:
    """Arrays to read by field: one of its name, or ``field.0``, … for arrays by name."""
    parts = {field: [field] for field in _array_fields(kind) if about.get(field, field) is not None}
    lists = [field for field in _array_mappings(kind) if isinstance(about.get(field), list)]
    parts |= {field: [f"{field}.{k}" for k in range(len(about[field]))] for field in lists}
    return {field: parts[field] for field in sorted(names & set(parts))}


def _values_of(
    kind: type, by_field: dict[str, str], parts: dict[str, list[str]], stored: _Stored
) -> dict[str, Any]:
    """Values of fields from what is stored by their key, or in their parts."""
    hints, values = _hints(kind), {}
    for field in by_field.keys() - parts.keys():
        value = stored[by_field[field]]
        numbers = value.tolist() if isinstance(value, np.ndarray) else value
        values[field] = restored(numbers, hints[field])
    for field, names in parts.items():
        if field in by_field:
            arrays = (stored[name] for name in names)
            values[field] = dict(zip(stored[field], arrays, strict=True))
        else:
            values[field] = stored[field]
    return values


def _array_fields(kind: type) -> list[str]:
    """Names of the fields that hold one array each, or none."""
    return [name for name, hint in _hints(kind).items() if _is_array(hint)]


def _array_mappings(kind: type) -> list[str]:
    """Names of the fields that hold arrays by name."""
    parts = {name: get_args(hint) for name, hint in _hints(kind).items()}
    return [name for name, args in parts.items() if args[:1] == (str,) and _is_array(args[-1])]


def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind) if f.init}


def _is_array(hint: Any) -> bool:
    options = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    return any(get_origin(option) is np.ndarray for option in options)


_INFINITE = {"Infinity": math.inf, "-Infinity": -math.inf}


def plain(value: Any, *, stored: bool = False) -> Any:
    """A value as JSON holds it: dataclasses as mappings, tuples as lists, `None` for NaN.

    Infinity is `None` too; or, where it is to be read back, its name.
    """
    if hasattr(value, "to_dict"):
        return plain(value.to_dict(), stored=stored)
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name), stored=stored) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(entry, stored=stored) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [plain(entry, stored=stored) for entry in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    names = {number: name for name, number in _INFINITE.items()}
    return names.get(value) if stored else None


def restored(value: Any, hint: Any) -> Any:
    """The value of a field of this type, from what `plain` made of it to be stored."""
    if hasattr(hint, "from_dict"):
        return hint.from_dict(value)
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{key: restored(entry, hints[key]) for key, entry in value.items()})
    if get_origin(hint) is tuple:
        return _restored_tuple(value, get_args(hint))
    if get_args(hint)[1:] == (NoneType,) and value is not None:
        return restored(value, get_args(hint)[0])
    if get_origin(hint) in (Mapping, dict):
        return {key: restored(entry, get_args(hint)[1]) for key, entry in dict(value).items()}
    if hint is Any:
        return _with_infinities(value)
    if hint is float:
        return math.nan if value is None else float(value)
    return hint(value) if hint in (str, int, bool) else value


def _with_infinities(value: Any) -> Any:
    """Anything, with infinities in place of their names."""
    if isinstance(value, dict):
        return {key: _with_infinities(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_with_infinities(entry) for entry in value]
    return _INFINITE.get(value, value) if isinstance(value, str) else value


def _restored_tuple(value: Any, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    kinds = parts[:1] * len(value) if parts[-1] is ... else parts
    return tuple(restored(entry, kind) for entry, kind in zip(value, kinds, strict=True))


def write_configuration(
    folder: str | os.PathLike[str], command: str, configuration: Mapping[str, Any] | None
) -> None:
    """Write ``config.yaml``: the options of a command by name; nothing if there are none."""
    if configuration is None:
        return
    text = yaml.safe_dump(dict(configuration), sort_keys=False, allow_unicode=True)
    head = f"# Reproduce with: bodysense {command} --config config.yaml -o ANOTHER_FOLDER\n"
    write_atomically(Path(folder) / "config.yaml", head + text)


# Where a result comes from: versions, and digests of what went in.

_PACKAGES = ("bodysense", "numpy", "scipy", "numba", "pin", "clarabel")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide the numbers."""
    result = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            result[package] = version(package)
        except PackageNotFoundError:
            continue
    return result


# Reading the bytes of a file, with an answer for everything that can go wrong.


def read_bytes(
    path: str | os.PathLike[str], largest: int, error: type[BodysenseError], kind: str
) -> bytes:
    """Content of a file of some kind, which holds at most so many bytes."""
    try:
        if Path(path).is_dir():
            raise error(f"{path} is a folder: give the path of a file in it.")
        with Path(path).open("rb") as stream:
            data = stream.read(largest + 1)
    except (OSError, ValueError) as problem:  # ValueError: a null character in the path
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise error(f"cannot read {path}: {reason}; check the path.") from problem
    if len(data) > largest:
        raise error(f"{path} is too large for {kind} (over {largest} bytes): is it another file?")
    return data


LARGEST_ROBOT_FILE = 2**25  # bytes; the largest humanoids take less than one million


def read_robot_file(path: str | os.PathLike[str]) -> bytes:
    """Content of a robot's file."""
    return read_bytes(path, LARGEST_ROBOT_FILE, RobotFileError, "a robot description")
