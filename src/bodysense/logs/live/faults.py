"""`StreamFaults`: what is wrong with a stream, counted by kind and said once, with the remedy."""

from __future__ import annotations

import threading
from collections.abc import Callable

_LONGEST = 1000  # characters of a message
_SHOWN = 80  # characters of a line in a message


class StreamFaults:
    """Counts what is wrong; the first of each kind is said at once.

    Threads share it.
    """

    def __init__(self, notify: Callable[[str], None] | None = None) -> None:
        """`notify` says a sentence to the user; without it nothing is said."""
        self._counts: dict[str, int] = {}
        self._first: dict[str, str] = {}
        self._notify = notify
        self._lock = threading.Lock()

    def __getitem__(self, kind: str) -> int:
        """How many there were of a kind."""
        return self._counts.get(kind, 0)

    @property
    def counts(self) -> dict[str, int]:
        """How many there were, by kind, in the order in which they came."""
        with self._lock:
            return dict(self._counts)

    @property
    def messages(self) -> dict[str, str]:
        """What was said of the first of each kind."""
        with self._lock:
            return dict(self._first)

    def report(self, kind: str, message: str | Callable[[], str], number: int = 1) -> None:
        """Count a fault; `message` names what is wrong and the remedy, and is needed but once."""
        with self._lock:
            before = self._counts.get(kind, 0)
            self._counts[kind] = before + number
            if before:
                return
            text = printable(message if isinstance(message, str) else message(), _LONGEST)
            self._first[kind] = text
        if self._notify is not None:
            self._notify(text)

    def say(self, message: str) -> None:
        """Say what is no fault, and is not counted."""
        if self._notify is not None:
            self._notify(printable(message, _LONGEST))


def excerpt(data: bytes) -> str:
    """The beginning of a line, printable, for a message."""
    return printable(data[: 2 * _SHOWN].decode("utf-8", "replace").strip(), _SHOWN)


def printable(text: str, most: int) -> str:
    """Text for a terminal: names come from the source, and may hold what a terminal obeys."""
    clean = "".join(c if c.isprintable() else "�" for c in text[: most + 1])
    return clean if len(clean) <= most else f"{clean[:most]} …"
