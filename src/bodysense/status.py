"""The same for all results: `Status` and `Finding`, and how wide 95 % intervals are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

BAND = 1.96
"""Standard deviations to either side of the mean in a 95 % interval."""


@dataclass(frozen=True)
class Status:
    """How the numerics ended.

    Attributes:
        ok: whether the result can be used.
        message: what happened, and what to do about it if something did.
        notes: what to know about the result or the data, each with advice.
    """

    ok: bool = True
    message: str = "Solved."
    notes: tuple[str, ...] = ()

    @classmethod
    def failed(cls, message: str, notes: tuple[str, ...] = ()) -> Status:
        """The status of a result that cannot be used."""
        return cls(False, message, notes)

    @property
    def failure(self) -> str:
        """Why the result cannot be used; empty if it can."""
        return "" if self.ok else self.message

    def summary(self) -> str:
        """Message and notes."""
        return " ".join((self.message, *self.notes))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "ok": self.ok,
            "message": self.summary(),
            "failure": self.failure,
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Status:
        """Read what `to_dict` wrote, or a table of ``ok`` and ``message`` alone."""
        ok, notes = bool(table["ok"]), tuple(str(note) for note in table.get("notes", ()))
        message = str(table["message"]).removesuffix(" ".join(notes)).rstrip()
        return cls(ok, message or cls.message, notes)


Severity = Literal["note", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""From bad to harmless."""


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        kind: what it is, a stable word such as ``garbage-rows``.
        severity: ``note`` (dealt with and harmless), ``warning`` (deserves a look) or ``error``
            (what was examined cannot be used as it is).
        where: the channel, joint, link or rows.
        message: what was observed, with numbers.
        action: what bodysense does about it, or what the user should do.
    """

    kind: str
    severity: Severity
    where: str
    message: str
    action: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.kind}: {self.where}: {self.message}; {self.action}"
