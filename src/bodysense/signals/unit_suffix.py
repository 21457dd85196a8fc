"""Units in the names of columns: ``q.elbow [deg]``."""

from __future__ import annotations

import re

_SUFFIX = re.compile(r"(?P<name>.*\S)\s*\[(?P<unit>[^\[\]]*)\]")


def split_unit(title: str) -> tuple[str, str]:
    """Name and unit of a column, "" where it states none."""
    found = _SUFFIX.fullmatch(title)
    return (found["name"], found["unit"].strip()) if found else (title, "")


def join_unit(name: str, unit: str) -> str:
    """The title of a column; the brackets stand even without a unit, as a name may end in some."""
    return f"{name} [{unit}]"
