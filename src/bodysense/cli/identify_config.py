"""config.yaml of `bodysense identify`: what it may hold, and where its files are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from bodysense.errors import FileReadError, unknown_name


def read_configuration(path: str, known: set[str]) -> dict[str, Any]:
    """Read a config.yaml whose keys are `known`; empty values are left out."""
    from bodysense.schema import parse_yaml

    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise FileReadError(f"cannot read {path}: {error}; check the path.") from error
    table = parse_yaml(data, path, FileReadError)
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


def digests(*paths: str | None) -> dict[str, str]:
    """SHA-256 of those that are files."""
    files = [path for path in paths if path is not None and Path(path).is_file()]
    return {path: sha256(Path(path).read_bytes()).hexdigest() for path in files}


def absolute(path: str | None) -> str | None:
    """Absolute where it is a file or folder; names such as tx40 stay."""
    return str(Path(path).resolve()) if path is not None and Path(path).exists() else path


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


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


def _is_weight(value: object) -> bool:
    return value == "auto" or _is_number(value)


def _are_named(kind: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: (
        isinstance(value, dict)
        and all(isinstance(name, str) and kind(x) for name, x in value.items())
    )


_TEXTS = (
    "robot",
    "layout",
    "method",
    "actuators",
    "friction",
    "weighting",
    "relax",
    "knowledge",
    "com_inside",
    "payload",
)
_KINDS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(_TEXTS, _is_text),
    **dict.fromkeys(("logs", "validate", "unloaded"), _are_texts),
    **dict.fromkeys(("fixed", "decimate", "allow_unusable", "drive_gains"), _is_flag),
    **dict.fromkeys(("order", "seed"), _is_whole),
    "relax_weight": _is_weight,
    "load": _are_numbers,
    "friction_shape": _are_named(_is_number),
    "settings": _are_named(_is_text),
    "sha256": _are_named(_is_text),
}
"""What a key of config.yaml holds; a number where nothing is said."""
