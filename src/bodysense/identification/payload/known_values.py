"""Numbers of a result in JSON, which has no NaN: what is not known is null."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def known_alone(table: Mapping[str, Any]) -> dict[str, Any]:
    """The same table, with `None` for numbers that are not finite, in tables and lists inside."""
    return {key: _known(value) for key, value in table.items()}


def number_of(value: float | None) -> float:
    """The number; NaN for null."""
    return math.nan if value is None else float(value)


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return known_alone(value)
    if isinstance(value, list):
        return [_known(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
