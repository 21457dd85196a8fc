"""What an identifier is: settings that are frozen, data in `fit`, a result out."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from types import NoneType
from typing import Any, TypeVar

import numpy as np

from bodysense.errors import ShapeError, require_type, unknown_name
from bodysense.identification.identification import Identification
from bodysense.identification.knowledge import Knowledge
from bodysense.identification.preprocessing import Preprocessing
from bodysense.identification.regression import Regression
from bodysense.spatial.arrays import Array


class Identifier(ABC):
    """A method that identifies parameters. Implementations are frozen dataclasses.

    An identifier is composed of parts, which are frozen dataclasses as well. Its settings are the
    fields of all parts, but for those that `fixed` names: they make the method what it is.

    Attributes:
        name: as in the registry and on the command line.
    """

    name: str

    @property
    def consistent(self) -> bool:
        """Whether links are always physically consistent."""
        return False

    @abstractmethod
    def fit(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Identification:
        """Identify; the rng is for methods that need randomness."""

    def theta(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Array:
        """(p,) the estimate without its uncertainty, which is cheaper."""
        return self.fit(problem, rng=rng).theta


def require_arguments(
    method: object, preprocessing: object, friction: object, knowledge: object
) -> None:
    """Raise `ShapeError` unless what `identify` is given is of its kind."""
    require_type(method, (str, Identifier), "an Identifier or its name", "'auto' chooses one")
    require_type(friction, str, "the name of a friction law", "'auto' chooses one where needed")
    kinds = (Preprocessing, NoneType)
    require_type(preprocessing, kinds, "a Preprocessing", "Preprocessing(cutoff=10.0), say")
    require_type(knowledge, (Knowledge, NoneType), "a Knowledge", "Knowledge(total_mass=20.0), say")


_Part = TypeVar("_Part")


def _offered(part: object) -> Iterator[tuple[str, Any]]:
    """Fields of a part that are settings, or hold parts with settings."""
    fixed = ("name", "fixed", *getattr(part, "fixed", ()))
    for f in fields(part):  # type: ignore[arg-type]  # parts are dataclasses
        if f.name not in fixed:
            yield f.name, getattr(part, f.name)


def settings_of(part: object) -> dict[str, Any]:
    """Settings of an identifier by name, those of its parts included."""
    made: dict[str, Any] = {}
    for name, value in _offered(part):
        made |= settings_of(value) if is_dataclass(value) else {name: value}
    return made


def _with_settings(part: _Part, given: Mapping[str, Any]) -> _Part:
    """The same identifier with other settings, each put into the part that has it."""
    changes = {}
    for name, value in _offered(part):
        if is_dataclass(value):
            own = settings_of(value)
            changes[name] = _with_settings(value, {k: v for k, v in given.items() if k in own})
        elif name in given:
            changes[name] = given[name]
    return replace(part, **changes)  # type: ignore[type-var]


def require_settings(
    part: object,
    *,
    positive: Sequence[str] = (),
    not_negative: Sequence[str] = (),
    counts: Sequence[str] = (),
    **choices: Collection[str],
) -> None:
    """Raise on invalid settings of a part: numbers by their range, words by the valid ones.

    Raises:
        ShapeError: a number that is not positive, is negative, or is below 1.
        UnknownNameError: a word that is not valid.
    """
    for name in (*positive, *not_negative):
        value, least = getattr(part, name), "zero or " if name in not_negative else ""
        if not (np.isfinite(value) and (value > 0.0 or (value == 0.0 and least))):
            raise ShapeError(f"{name} is {value:g}: give {least}a positive number.")
    for name in counts:
        if getattr(part, name) < 1:
            raise ShapeError(f"{name} is {getattr(part, name)}: give a whole number from 1.")
    for name, valid in choices.items():
        if getattr(part, name) not in valid:
            raise unknown_name(name, getattr(part, name), valid)


@dataclass(frozen=True)
class _Setting:
    """A setting of a method: its name, its default and what it means."""

    name: str
    default: Any
    about: str


@dataclass(frozen=True, kw_only=True)
class Method:
    """A row of the registry of methods.

    Attributes:
        name: as on the command line.
        about: one line for tables.
        group: family that it belongs to.
        compose: makes the identifier of that name; imports its parts.
        needs: input beside the robot and the log.
        cost: computation, in words.
        when: one line of advice when to use it.
        description: what it minimises, with the equation's number.
    """

    name: str = field(kw_only=False)
    about: str = field(kw_only=False)
    group: str
    compose: Callable[[str], Identifier]
    needs: str = "no extra input"
    cost: str
    when: str
    description: str

    @cached_property
    def default(self) -> Identifier:
        """The identifier with its default settings."""
        return self.compose(self.name)

    @property
    def consistent(self) -> bool:
        return self.default.consistent

    @cached_property
    def settings(self) -> Mapping[str, _Setting]:
        """Settings by name, documented where the part that has them declares them."""
        return {setting.name: setting for setting in _documented_settings(self.default)}

    def identifier(self, **settings: Any) -> Identifier:
        """The identifier, with other settings than the defaults.

        Raises:
            UnknownNameError: a setting that the method does not have.
        """
        for name in settings:
            if name not in self.settings:
                raise unknown_name(
                    f"setting of {self.name}",
                    name,
                    sorted(self.settings),
                    f"See `bodysense methods {self.name}`.",
                )
        return _with_settings(self.default, settings)


def _documented_settings(part: object) -> Iterator[_Setting]:
    meaning: dict[str, str] = {}
    for parent in reversed(type(part).__mro__):
        meaning |= _documented_attributes(parent)
    for name, value in _offered(part):
        if is_dataclass(value):
            yield from _documented_settings(value)
        else:
            yield _Setting(name, value, meaning.get(name, ""))


def _documented_attributes(cls: type) -> dict[str, str]:
    """Meanings by name, from the section `Attributes:` of a class's own docstring."""
    section = inspect.cleandoc(vars(cls).get("__doc__") or "").partition("\nAttributes:\n")[2]
    section = re.split(r"\n(?=\S)", section)[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n(?:     .*)?)*)", section, re.MULTILINE)
    return {name: " ".join(text.replace("`", "").split()) for name, text in entries}
