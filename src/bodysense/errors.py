"""Exceptions of bodysense, and helpers to word them.

One base class, so that a caller can catch all of it, and one subclass for each kind of error. A
message always names what is wrong, where, and what to do about it. A numerical failure is not an
exception: it is a status with advice in a result.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST_MESSAGE = 4000
"""Characters: of longer ones, which quote a file, beginning and end are shown."""


class BodysenseError(Exception):
    """Base of every exception that bodysense raises on purpose."""

    def __str__(self) -> str:
        """The message, shortened in the middle: place and remedy are at its ends."""
        text = super().__str__()
        left_out = len(text) - _LONGEST_MESSAGE
        if left_out <= 0:
            return text
        half = _LONGEST_MESSAGE // 2
        return f"{text[:half]} … ({left_out} characters left out) … {text[-half:]}"


class RobotFileError(BodysenseError):
    """A robot description cannot be found, read or understood."""


class UnsupportedJointError(RobotFileError):
    """A robot description contains a joint that bodysense does not model."""


class InconsistentInertiaError(BodysenseError):
    """A link's mass, centre of mass and inertia are not physically consistent."""


class UnknownNameError(BodysenseError):
    """A name (robot, link, joint, frame, parameter, model) that does not exist."""


class ShapeError(BodysenseError):
    """An array or a setting has the wrong shape, type or value."""


class MismatchError(BodysenseError):
    """Two things that belong to different robots were put together."""


class MissingDependencyError(BodysenseError):
    """An optional package is needed and not installed."""


class TrajectoryError(BodysenseError):
    """An infeasible trajectory: its duration, its limits or its points contradict each other."""


class FileWriteError(BodysenseError):
    """A file cannot be written where the caller wants it."""


class FileReadError(BodysenseError):
    """A log, a layout or a saved result cannot be read."""


class UnusableLogError(BodysenseError):
    """A recording with defects that must be fixed before anything is identified from it."""


def unknown_name(kind: str, name: str, valid: Iterable[str], remedy: str = "") -> UnknownNameError:
    """Build an `UnknownNameError` that lists the valid names, the closest ones first.

    Args:
        kind: what the name stands for, e.g. "joint".
        name: the name that was not found.
        valid: all names that would have been accepted.
        remedy: one more sentence of advice, if there is any.
    """
    names = [str(candidate) for candidate in valid]
    folded = {candidate.casefold(): candidate for candidate in names}
    close = [folded[c] for c in difflib.get_close_matches(name.casefold(), folded, n=3)]
    if close:
        hint = f"did you mean {' or '.join(repr(candidate) for candidate in close)}?"
        if len(names) > len(close):
            hint += f" Valid: {listing(names, 40)}."
    else:
        hint = f"valid: {listing(names, 40)}." if names else "there are none."
    return UnknownNameError(f"unknown {kind} {name!r}: {hint}{' ' + remedy if remedy else ''}")


def require_type(value: object, kind: type | tuple[type, ...], name: str, remedy: str) -> None:
    """Raise `ShapeError` unless an argument is of its kind, e.g. a file's name instead of a log."""
    if not isinstance(value, kind):
        raise ShapeError(f"expected {name}, got {value!r:.60}: {remedy}")


def listing(items: Iterable[object], most: int = 8, separator: str = ", ") -> str:
    """The first `most` items, and how many more there are."""
    names = [str(item) for item in items]
    shown = separator.join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def count(n: int, noun: str) -> str:
    """A number with its noun: ``1 row``, ``2 rows``."""
    return f"{n} {noun}" + ("" if n == 1 else "s")
