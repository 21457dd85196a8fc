"""How well positions that were estimated are known, and biases of sensors: tables."""

from __future__ import annotations

from dataclasses import dataclass

from bodysense.estimation import StateTotals
from bodysense.report.rendering import BAND, number


@dataclass(frozen=True)
class StateSection:
    """Both tables.

    Attributes:
        method: how positions were estimated, in words.
        joints: name, whether it has an encoder, lowest and highest position, usual and widest
            band, unit; those without encoders first.
        biases: name, value, band and unit.
    """

    method: str
    joints: tuple[tuple[str, bool, str, str, str, str, str], ...]
    biases: tuple[tuple[str, str, str, str], ...]

    @classmethod
    def of(cls, totals: StateTotals) -> StateSection:
        """The tables of a log."""
        smooth = totals.estimate.state.method == "smooth"
        return cls(
            method="all readings of a window around it" if smooth else "the readings up to it",
            joints=tuple(
                (
                    s.joint,
                    s.measured,
                    number(s.lowest, 3),
                    number(s.highest, 3),
                    number(BAND * s.std, 2),
                    number(BAND * s.worst, 2),
                    s.unit,
                )
                for s in sorted(totals.joints(), key=lambda s: s.measured)
            ),
            biases=tuple(
                (s.name, number(s.mean, 3), number(BAND * s.std, 2), s.unit)
                for s in totals.biases()
            ),
        )
