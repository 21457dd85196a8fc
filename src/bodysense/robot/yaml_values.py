"""Values of robots' YAML files, checked: mappings with known keys, numbers a joint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, RobotFileError, unknown_name
from bodysense.plain_yaml import parse_yaml
from bodysense.robot.reading import read_robot_file
from bodysense.spatial.arrays import Array


def read_yaml(path: str | PathLike[str]) -> dict[str, object]:
    """Read a file whose top level is a mapping.

    Raises:
        RobotFileError: the file is missing, empty, not YAML, not a mapping, or has a key twice.
    """
    return parse_yaml(read_robot_file(path), str(path), RobotFileError)


def section(value: object, keys: Sequence[str], where: str) -> dict[str, object]:
    """Return `value` as a mapping that has no other keys than these."""
    if not isinstance(value, Mapping):
        raise RobotFileError(
            f"{where}: expected a mapping with keys out of {', '.join(keys) or '(none)'}; "
            f"got {value!r:.60}."
        )
    for key in value:
        if key not in keys:
            raise unknown_name("key", str(key), keys, f"({where})")
    return dict(value)


def finite_number(value: object, where: str) -> float:
    """Return `value` as a finite float; text such as ``1e3``, which YAML reads as a word, too."""
    number = _number(value, where)
    if not math.isfinite(number):
        raise RobotFileError(f"{where}: {number} is not a finite number; give its value.")
    return number


def number_per_name(
    value: object, names: Sequence[str], where: str, default: ArrayLike | None = None
) -> Array:
    """(len(names),) from one number, a list with one a name, or a mapping from name to number.

    Args:
        value: as read from the file.
        names: of the joints (or motors), in their order.
        where: file and key, for messages.
        default: one number or one a name, for names that a mapping leaves out; `None` makes a
            left-out name an error.

    Raises:
        RobotFileError: not numbers, not finite, a name left out.
        MismatchError: names or a length that belong to another robot.
    """
    if isinstance(value, Mapping):
        return _from_mapping(value, names, where, default)
    if isinstance(value, list):
        if len(value) != len(names):
            raise MismatchError(
                f"{where}: {len(value)} values for {len(names)} joints ({', '.join(names)}); give "
                "one number for all, one a joint, or a mapping from joint to number."
            )
        return np.array(
            [finite_number(v, f"{where}, {name}") for v, name in zip(value, names, strict=True)],
            dtype=np.float64,
        )
    return np.full(len(names), finite_number(value, where))


def name_list(value: object, where: str) -> tuple[str, ...]:
    """Return `value` as a tuple of names."""
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise RobotFileError(f"{where}: expected a list of names, got {value!r:.60}.")
    return tuple(value)


def _from_mapping(
    value: Mapping[object, object], names: Sequence[str], where: str, default: ArrayLike | None
) -> Array:
    foreign = [str(key) for key in value if key not in names]
    if foreign:
        raise MismatchError(
            f"{where}: {', '.join(map(repr, foreign[:5]))} "
            f"{'is' if len(foreign) == 1 else 'are'} not of this robot, whose names are "
            f"{', '.join(names)}; is the table for another robot?"
        )
    absent = [name for name in names if name not in value]
    if absent and default is None:
        raise RobotFileError(f"{where}: {', '.join(absent)} missing; give a number for each.")
    fill = np.nan if default is None else default
    numbers = np.array(np.broadcast_to(np.asarray(fill, dtype=np.float64), (len(names),)))
    for k, name in enumerate(names):
        if name in value:
            numbers[k] = finite_number(value[name], f"{where}, {name}")
    return numbers


def _number(value: object, where: str) -> float:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise RobotFileError(f"{where}: expected a number, got {value!r:.60}.")
