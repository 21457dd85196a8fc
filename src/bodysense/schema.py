"""YAML as plain data, with errors that say where.

Only plain data is ever built (`yaml.SafeLoader`). What YAML would silently accept is refused: a
key that occurs twice, and aliases, a few of which can stand for gigabytes.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import yaml
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import (
    BodysenseError,
    FileReadError,
    MismatchError,
    RobotFileError,
    listing,
    unknown_name,
)
from bodysense.files import LARGEST_ROBOT_FILE, read_bytes


class _PlainYamlError(Exception):
    """What YAML allows and bodysense does not: the line, counted from 0, and the problem."""


_DEEPEST = 50  # brackets within brackets; the scanner takes time with their square


class _PlainLoader(yaml.SafeLoader):
    """Refuses aliases, keys that occur twice, and brackets in brackets without end."""

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:
        if self.flow_level >= _DEEPEST:
            text = f"brackets are nested deeper than {_DEEPEST} levels; is the file damaged?"
            raise _PlainYamlError(self.line, text)
        super().fetch_flow_collection_start(TokenClass)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.current_event
            text = f"the alias *{event.anchor} is not supported: write the value out."
            raise _PlainYamlError(event.start_mark.line, text)
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        keys = set[str]()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in keys:
                text = f"the key {key.value!r} occurs twice in one mapping; remove one of them."
                raise _PlainYamlError(key.start_mark.line, text)
            keys.add(key.value)
        return node


def parse_yaml(data: bytes, where: str, error: type[BodysenseError]) -> dict[str, object]:
    """Parse the bytes of a file whose top level is a mapping with names as keys.

    Args:
        data: content of the file.
        where: its name, for messages.
        error: what to raise if it is empty, not YAML or no mapping, has an alias or a key twice.
    """
    if not data.strip():
        raise error(f"{where} is empty: it must hold a YAML mapping, `key: value`.")
    try:
        content = _PlainLoader(data).get_single_data()
    except _PlainYamlError as problem:
        line, text = problem.args
        raise error(f"{where}, line {line + 1}: {text}") from problem
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise error(f"{where}{place}: not valid YAML: {problem.problem}.") from problem
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise error(f"{where} is not valid YAML: {problem}.") from problem
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise error(
            f"{where} holds a {type(content).__name__}: it must be a YAML mapping, `key: value`, "
            "with names as keys."
        )
    return content


# Values of YAML files, checked: mappings with known keys, texts, names and numbers.

_LARGEST = 1.0e30  # SI units; beyond it, products of masses and lengths overflow
_PI = re.compile(r"([+-]?)\s*(\d+(?:\.\d*)?)?\s*\*?\s*pi\s*(?:/\s*(\d+(?:\.\d*)?))?")


@dataclass(frozen=True)
class Schema:
    """Reads and checks one kind of YAML file; errors say where a value is and what is expected.

    Attributes:
        error: what is raised.
        kind: of file, for messages.
        largest: size of a file [bytes].
    """

    error: type[BodysenseError] = FileReadError
    kind: str = "a configuration"
    largest: int = 2**22

    def read(self, path: str | PathLike[str]) -> dict[str, object]:
        """Read a file whose top level is a mapping."""
        data = read_bytes(path, self.largest, self.error, self.kind)
        return parse_yaml(data, str(path), self.error)

    def mapping(
        self, value: object, where: str, keys: Sequence[str] | None = None
    ) -> dict[str, object]:
        """`value` as a mapping with names as keys, and no other than `keys`."""
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            hint = ", `name: value`" if keys is None else f" with keys out of {', '.join(keys)}"
            raise self.error(f"{where}: expected a mapping{hint}; got {value!r:.60}.")
        for key in value:
            if keys is not None and key not in keys:
                raise unknown_name("key", key, keys, f"({where})")
        return dict(value)

    def text(self, value: object, where: str) -> str:
        """`value` as text."""
        if not isinstance(value, str) or not value:
            raise self.error(f"{where}: expected text, got {value!r:.60}; put it in quotes.")
        return value

    def names(self, value: object, where: str) -> tuple[str, ...]:
        """`value` as different names, at least one."""
        if not isinstance(value, list) or not value:
            raise self.error(f"{where}: expected a list of names, got {value!r:.60}.")
        result = tuple(self.text(entry, where) for entry in value)
        for name in result:
            if result.count(name) > 1:
                raise self.error(f"{where}: {name!r} occurs twice; keep one.")
        return result

    def number(self, value: object, where: str) -> float:
        """`value` as a finite number; ``pi``, ``-pi/2``, ``3*pi/4`` and ``1e3`` may be text."""
        result = math.nan
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            match = _PI.fullmatch(value.strip()) if isinstance(value, str) else None
            with contextlib.suppress(ValueError, OverflowError, ZeroDivisionError):
                if match:
                    result = float(f"{match[1]}{match[2] or 1}") * math.pi / float(match[3] or 1)
                else:
                    result = float(value)  # text, too: YAML reads 1e3 as a word
        if not math.isfinite(result):
            raise self.error(f"{where}: expected a finite number, got {value!r:.60}.")
        if abs(result) > _LARGEST:
            raise self.error(f"{where}: {result:g} is too large; check its unit.")
        return result

    def whole(self, value: object, where: str) -> int:
        """`value` as a whole number of at least 1."""
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.error(f"{where}: expected a whole number from 1, got {value!r:.60}.")
        return value

    def one_each(self, value: object, each: Sequence[str], where: str) -> list[object]:
        """One value for all of `each`, a list with one each, or a mapping from name to value."""
        if isinstance(value, Mapping):
            for key in value:
                if key not in each:
                    raise unknown_name("name", str(key), each, f"({where})")
            missing = [name for name in each if name not in value]
            if missing:
                raise MismatchError(f"{where}: {listing(missing)} missing; give a value for each.")
            return [value[name] for name in each]
        if isinstance(value, list):
            if len(value) != len(each):
                raise MismatchError(
                    f"{where}: {len(value)} values for {len(each)} ({listing(each)}); give one "
                    "for all, or one each."
                )
            return list(value)
        return [value] * len(each)

    def number_list(
        self, value: object, n: int, where: str, *, one: bool = False
    ) -> NDArray[np.float64]:
        """(n,) from a list of n numbers; from a single one as well if `one`."""
        if one and not isinstance(value, list | Mapping):
            return np.full(n, self.number(value, where))
        if not isinstance(value, list) or len(value) != n:
            expected = f"a number, or a list of {n}" if one and n > 1 else f"a list of {n} numbers"
            raise self.error(f"{where}: expected {expected}, got {value!r:.60}.")
        return np.array([self.number(x, f"{where}, {k}") for k, x in enumerate(value, start=1)])

    def number_per_name(
        self, value: object, names: Sequence[str], where: str, default: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """(len(names),) from one number, a list with one each, or a mapping from name to number.

        Args:
            value: as read from the file.
            names: of the joints (or motors), in their order.
            where: file and key, for messages.
            default: one number or one per name, for names that a mapping leaves out; `None` makes
                a left-out name an error.

        Raises:
            BodysenseError: of this schema: not numbers, not finite, a name left out.
            MismatchError: names or a length that belong to another robot.
        """
        if isinstance(value, Mapping):
            foreign = [str(key) for key in value if key not in names]
            if foreign:
                raise MismatchError(
                    f"{where}: {listing(map(repr, foreign), 5)} "
                    f"{'is' if len(foreign) == 1 else 'are'} not of this robot, whose names are "
                    f"{listing(names)}; is the table for another robot?"
                )
            absent = [name for name in names if name not in value]
            if absent and default is None:
                raise self.error(f"{where}: {listing(absent)} missing; give a number for each.")
            numbers = np.zeros(len(names))
            numbers[:] = default if absent else 0.0
            for k, name in enumerate(names):
                if name in value:
                    numbers[k] = self.number(value[name], f"{where}, {name}")
            return numbers
        if not isinstance(value, list):
            return np.full(len(names), self.number(value, where))
        if len(value) != len(names):
            raise MismatchError(
                f"{where}: {len(value)} values for {len(names)} joints ({listing(names)}); give "
                "one number for all, one per joint, or a mapping from joint to number."
            )
        each = zip(value, names, strict=True)
        return np.array([self.number(x, f"{where}, {name}") for x, name in each], dtype=np.float64)

    def required_name(self, table: Mapping[str, object], key: str, where: str) -> str:
        """The name under a key that must be there."""
        value = table.get(key)
        if not isinstance(value, str) or not value.strip():
            problem = f"{value!r:.60} is not a name" if key in table else "it is missing"
            raise self.error(f"{where}, {key}: {problem}; give a name.")
        return value

    def name_list(self, value: object, where: str) -> tuple[str, ...]:
        """`value` as names, of which there may be none, or one twice."""
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise self.error(f"{where}: expected a list of names, got {value!r:.60}.")
        return tuple(value)


# Robots' YAML files.

_ROBOT_FILES = Schema(RobotFileError, "a robot description", LARGEST_ROBOT_FILE)
read_yaml = _ROBOT_FILES.read
finite_number = _ROBOT_FILES.number
number_list = _ROBOT_FILES.number_list
number_per_name = _ROBOT_FILES.number_per_name
required_name = _ROBOT_FILES.required_name
name_list = _ROBOT_FILES.name_list


def section(value: object, keys: Sequence[str], where: str) -> dict[str, object]:
    """`value` as a mapping that has no other keys than these."""
    return _ROBOT_FILES.mapping(value, where, keys)
