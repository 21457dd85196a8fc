"""How an identification with a load ended: perhaps a failure, and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LoadStatus:
    """How it ended.

    Attributes:
        failure: why the result is of no use, and what to do about it; empty if it is of use.
        notes: what to know about the result or the recordings, and what to do about it.
    """

    failure: str = ""
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the result can be used."""
        return not self.failure

    @property
    def message(self) -> str:
        """All of it in words."""
        return " ".join(words for words in (self.failure, *self.notes) if words) or "Solved."

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "ok": self.ok,
            "message": self.message,
            "failure": self.failure,
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> LoadStatus:
        """Read what `to_dict` wrote."""
        return cls(str(table["failure"]), tuple(str(note) for note in table["notes"]))
