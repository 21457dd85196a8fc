"""Packages whose names are imported when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def import_on_use(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__``, which also gives ``__all__``, and the ``__dir__`` of a package.

    Args:
        package: its ``__name__``.
        homes: the module inside bodysense that defines each name.
    """

    def get(name: str) -> Any:
        if name == "__all__":
            return names()
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"bodysense.{homes[name]}"), name)

    def names() -> list[str]:
        return sorted(homes)

    return get, names
