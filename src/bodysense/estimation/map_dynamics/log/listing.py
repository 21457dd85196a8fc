"""`listing`: names in a message, not too many of them."""

from __future__ import annotations

from collections.abc import Sequence


def listing(names: Sequence[str], most: int = 6) -> str:
    """``a, b, c and 4 more``; ``none`` where there are none."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "none"
