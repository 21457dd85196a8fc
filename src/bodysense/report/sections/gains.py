"""Drive gains beside the nominal ones, the load as they see it, and what they depend on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bodysense.identification.payload.drive_gains import DriveGains
from bodysense.report.rendering import BAND, number, percent
from bodysense.report.sections.axis import Axis

WIDTH = 220.0
"""Of the drawing of a gain, in its own units."""


@dataclass(frozen=True)
class GainRow:
    """One joint: its gains, the drawing of its factor, and errors of its torque.

    Attributes:
        joint: its name.
        nominal: gain.
        gain: identified.
        interval: 95 % of it.
        factor: identified over nominal gain.
        other: factors without asking for physical links, and without losses.
        at, low, high: places of the factor and the ends of its interval.
        before, after: held-out error of the torque.
        better: whether the error is smaller than before.
    """

    joint: str
    nominal: str
    gain: str
    interval: str
    factor: str
    other: tuple[str, str]
    at: float
    low: float
    high: float
    before: str
    after: str
    better: bool


@dataclass(frozen=True)
class LoadDrawing:
    """The load [kg] on an axis: as weighed, as nominal gains see it, on blocks left out."""

    given: float
    nominal: float
    after: tuple[tuple[float, str], ...]
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class GainSection:
    """All joints, the load, and what the gains depend on.

    Attributes:
        line: to be pasted into the file that the nominal gains are in; empty if none should be.
        rows: one per joint.
        one: place of the nominal gain.
        ticks: places and labels of factors.
        load: as the gains see it.
        words: what the gains depend on.
        means: mean held-out error before and after.
    """

    line: str
    rows: tuple[GainRow, ...]
    one: float
    ticks: tuple[tuple[float, str], ...]
    load: LoadDrawing
    words: tuple[str, ...]
    means: tuple[str, str]

    @classmethod
    def of(cls, gains: DriveGains, line: str) -> GainSection:
        """The section of drive gains."""
        reach = BAND * gains.sigma
        axis = Axis.around(
            [1.0, *(gains.factors - reach), *(gains.factors + reach)], 4.0, WIDTH - 4
        )
        rows = tuple(
            GainRow(
                joint=joint,
                nominal=number(gains.nominal[j]),
                gain=number(gains.gains[j]),
                interval=f"{number(gains.gains[j] - BAND * gains.sigma_gains[j])} to "
                f"{number(gains.gains[j] + BAND * gains.sigma_gains[j])}",
                factor=number(gains.factors[j]),
                other=(number(gains.total_least_squares[j]), number(gains.without_losses[j])),
                at=axis.place(gains.factors[j]),
                low=axis.place(gains.factors[j] - reach[j]),
                high=axis.place(gains.factors[j] + reach[j]),
                before=percent(gains.errors_before[j]),
                after=percent(gains.errors_after[j]),
                better=bool(gains.errors_after[j] < gains.errors_before[j]),
            )
            for j, joint in enumerate(gains.joints)
        )
        return cls(
            line=line,
            rows=rows,
            one=axis.place(1.0),
            ticks=axis.ticks(4),
            load=_load(gains),
            words=_words(gains),
            means=(
                percent(float(gains.errors_before.mean())),
                percent(float(gains.errors_after.mean())),
            ),
        )


def _load(gains: DriveGains) -> LoadDrawing:
    after = [float(m) for m in gains.load_after if np.isfinite(m)]
    axis = Axis.around([gains.load_mass, gains.load_before, *after], 12.0, 408.0)
    return LoadDrawing(
        given=axis.place(gains.load_mass),
        nominal=axis.place(gains.load_before),
        after=tuple((axis.place(m), number(m)) for m in after),
        ticks=axis.ticks(),
    )


def _words(gains: DriveGains) -> tuple[str, ...]:
    lost = bool(gains.losses.any())
    physical = float(np.abs(gains.total_least_squares / gains.factors - 1.0).max())
    return (
        "1 % more load makes every gain 1 % larger: the scale of all gains is the load's mass, "
        "exactly, and the intervals are for the load as given.",
        f"Without friction that grows with the load, which takes up to "
        f"{percent(float(gains.losses.max()))} of the torque, a gain would change by up to "
        f"{percent(gains.model_sensitivity)}."
        if lost
        else "Friction that grows with the load was not seen, and is not counted.",
        "Without asking for links that can exist (total least squares), a gain would change by up "
        f"to {percent(physical)}.",
        "Errors of predicted torque say little about gains: wrong gains predict the torques that "
        "they define as well as right ones.",
    )
