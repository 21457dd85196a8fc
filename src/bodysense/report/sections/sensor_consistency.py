"""How sensors agree with each other, contacts, worst readings, and what is seen: tables."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bodysense.estimation import LogTotals, Observability
from bodysense.report.rendering import BAND, number, percent, place

_FULL = 3.0  # ratio at which a bar is full
_ROWS = 200
_DOUBTFUL = 0.05
"""Readings that come more often by chance than this are not worth a look."""


@dataclass(frozen=True)
class SensorRow:
    """A sensor's row; the pairs are a text and the number by which it sorts."""

    name: str
    kind: str
    where: str
    unit: str
    rms: str
    stated: str
    ratio: tuple[str, float | None]
    bar: float
    beyond: tuple[str, float | None]
    loud: bool
    samples: int
    absent: int


@dataclass(frozen=True)
class SeenRow:
    """A quantity that readings do not tell alone."""

    name: str
    components: str
    label: str
    before: str
    after: str


@dataclass(frozen=True)
class ConsistencySection:
    """All tables.

    Attributes:
        sensors: one row each.
        worst: sensor, time, chi², degrees of freedom, p-value of readings hard to believe.
        contacts: link, start, end, median force, largest certain force, its 95 % band and its time.
        seen: what is not seen.
        seen_summary: the same in a line.
        help: sensors that would show more.
        untrue: which readings are said to be exact and cannot all be true; or nothing.
    """

    sensors: tuple[SensorRow, ...]
    worst: tuple[tuple[str, str, str, int, str], ...]
    contacts: tuple[tuple[str, ...], ...]
    seen: tuple[SeenRow, ...]
    seen_summary: str
    help: tuple[str, ...]
    untrue: str

    @classmethod
    def of(cls, totals: LogTotals, seen: Observability) -> ConsistencySection:
        """The tables of a log."""
        rows = [
            SeenRow(
                name,
                ", ".join(part for part in parts if part),
                label,
                number(float(seen.before[seen.variables[name]].max()), 3),
                number(float(seen.after[seen.variables[name]].max()), 3),
            )
            for label in ("unobservable", "partly")
            for name, parts in seen.named(label).items()
        ]
        return cls(
            sensors=tuple(
                SensorRow(
                    name=s.name,
                    kind=s.kind.replace("_", " "),
                    where=s.place,
                    unit=s.unit,
                    rms=number(s.rms, 3),
                    stated=number(s.stated, 3),
                    ratio=(number(s.ratio, 3), place(s.ratio)),
                    bar=round(100.0 * min(1.0, s.ratio / _FULL), 1)
                    if math.isfinite(s.ratio)
                    else 0.0,
                    beyond=(percent(s.beyond), place(s.beyond)),
                    loud=s.disagrees,
                    samples=s.samples,
                    absent=s.absent,
                )
                for s in totals.scores()
            ),
            worst=tuple(
                (
                    w.sensor,
                    f"{w.t:.2f}",
                    number(w.chi_square, 3),
                    w.freedom,
                    _p(w.p_value),
                )
                for w in totals.worst_residuals
                if w.p_value < _DOUBTFUL
            ),
            contacts=tuple(
                (
                    contact.link,
                    f"{contact.start:.2f}",
                    f"{contact.end:.2f}",
                    number(contact.usual, 3),
                    number(contact.force, 3),
                    number(BAND * contact.sigma, 2),
                    f"{contact.at:.2f}",
                )
                for contact in totals.contacts()[:_ROWS]
            ),
            seen=tuple(rows[:_ROWS]),
            seen_summary=seen.summary(),
            help=tuple(str(item) for item in seen.help),
            untrue=totals.inconsistent_exact_readings(),
        )


def _p(value: float) -> str:
    return number(value, 2) if value >= 1e-12 else "< 1e\N{MINUS SIGN}12"
