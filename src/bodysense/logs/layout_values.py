"""Values of a layout file, checked, with messages that say where."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from bodysense.errors import FileReadError, MismatchError, unknown_name
from bodysense.schema import parse_yaml

_LARGEST = 2**22  # bytes of a layout
_PI = re.compile(r"([+-]?)\s*(\d+(?:\.\d*)?)?\s*\*?\s*pi\s*(?:/\s*(\d+(?:\.\d*)?))?")


def read_mapping(path: str | PathLike[str]) -> dict[str, object]:
    """Read a YAML file whose top level is a mapping; only plain data is ever built.

    Raises:
        FileReadError: missing, too large, not YAML, not a mapping, an alias, a key that repeats.
    """
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_LARGEST + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileReadError(f"cannot read {path}: {reason}; check the path.") from error
    if len(data) > _LARGEST:
        raise FileReadError(f"{path} is too large for a layout: is it the log itself?")
    return parse_yaml(data, str(path), FileReadError)


def mapping(value: object, where: str, keys: Sequence[str] | None = None) -> dict[str, object]:
    """Return `value` as a mapping with names as keys, and no other than `keys`."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        hint = f" with keys out of {', '.join(keys)}" if keys else ", `name: value`"
        raise FileReadError(f"{where}: expected a mapping{hint}; got {value!r:.60}.")
    for key in value:
        if keys is not None and key not in keys:
            raise unknown_name("key", key, keys, f"({where})")
    return dict(value)


def text(value: object, where: str) -> str:
    """Return `value` as text."""
    if not isinstance(value, str) or not value:
        raise FileReadError(f"{where}: expected text, got {value!r:.60}; put it in quotes.")
    return value


def names(value: object, where: str) -> tuple[str, ...]:
    """Return `value` as different names."""
    if not isinstance(value, list) or not value:
        raise FileReadError(f"{where}: expected a list of names, got {value!r:.60}.")
    result = tuple(text(entry, where) for entry in value)
    for name in result:
        if result.count(name) > 1:
            raise FileReadError(f"{where}: {name!r} stands there twice; keep one.")
    return result


def number(value: object, where: str) -> float:
    """Return `value` as a finite number; ``pi``, ``-pi/2``, ``3*pi/4`` are understood."""
    result = math.nan
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        found = _PI.fullmatch(value.strip()) if isinstance(value, str) else None
        with contextlib.suppress(ValueError, OverflowError, ZeroDivisionError):
            if found:
                result = float(f"{found[1]}{found[2] or 1}") * math.pi / float(found[3] or 1)
            else:
                result = float(value)  # text, too: YAML takes 1e3 for a word
    if not math.isfinite(result):
        raise FileReadError(f"{where}: expected a finite number, got {value!r:.60}.")
    return result


def whole(value: object, where: str) -> int:
    """Return `value` as a whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise FileReadError(f"{where}: expected a whole number from 1, got {value!r:.60}.")
    return value


def one_each(value: object, each: Sequence[str], where: str) -> list[object]:
    """One value for all of `each`, a list with one each, or a mapping from name to value."""
    if isinstance(value, Mapping):
        for key in value:
            if key not in each:
                raise unknown_name("name", str(key), each, f"({where})")
        missing = [name for name in each if name not in value]
        if missing:
            raise MismatchError(f"{where}: {', '.join(missing)} missing; give a value for each.")
        return [value[name] for name in each]
    if isinstance(value, list):
        if len(value) != len(each):
            raise MismatchError(
                f"{where}: {len(value)} values for {len(each)} ({', '.join(each)}); give one for "
                "all, or one each."
            )
        return list(value)
    return [value] * len(each)
