"""Predicted standard deviations of base parameters, and why some of them stay unknown.

Each is held against the plausible size of its parameter: sigma / size below 1 says that the motion
tells more than a guess. With M the information, two things make sigma large: the parameter's own
torque is small, 1/√M_kk, or it looks like that of others, σ_k √M_kk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bodysense.excitation.design import Design
from bodysense.report.rendering import count, number, percent, place
from bodysense.report.sections.parameters import parameter_units
from bodysense.robot.frames import supporting_joints
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

LABELS = ("well", "poorly", "not identifiable")
"""How a base parameter comes out: sigma below a quarter of its plausible size, below it, above."""

WIDTH = 220.0
"""Of a drawing, in its own units."""

_WELL = 0.25
_LOWEST, _HIGHEST = 1e-3, 10.0  # ends of the axis of sigma / size


@dataclass(frozen=True)
class PrecisionRow:
    """One base parameter in words and numbers, and the numbers to sort by."""

    name: str
    combination: str
    terms: int
    words: str
    unit: str
    value: str
    sigma: str
    size: str
    ratio: str
    bar: float
    label: str
    slug: str
    sort_value: float | None
    sort_sigma: float | None
    sort_size: float | None
    sort_ratio: float | None
    order: int


@dataclass(frozen=True)
class PrecisionSection:
    """All base parameters, and what stays unknown.

    Attributes:
        rows: base parameters.
        counts: label, its class of the style sheet, and how many have it.
        marks: places and labels of the axis; the last is that of a guess.
        poor: base parameters that stay unknown, and why.
        silent: reason and names of parameters without any effect.
        regrouped: parameters that only show in combination, each with the combinations.
    """

    rows: tuple[PrecisionRow, ...]
    counts: tuple[tuple[str, str, int], ...]
    marks: tuple[tuple[float, str], ...]
    poor: tuple[tuple[str, str], ...]
    silent: tuple[tuple[str, str], ...]
    regrouped: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, design: Design, robot: Robot) -> PrecisionSection:
        """The section of a design."""
        base, labels = design.base, precision_labels(design)
        names = base.layout.names
        units = parameter_units(base.layout, robot.joint_types)
        with np.errstate(all="ignore"):
            ratio = design.sigma / design.sizes
        rows = []
        for k, kept in enumerate(base.independent.tolist()):
            combination = base.names[k]
            rows.append(
                PrecisionRow(
                    name=names[kept],
                    combination=combination if combination != names[kept] else "",
                    terms=combination.count(" + ") + combination.count(" - "),
                    words=base.layout.describe(names[kept]),
                    unit=units[kept],
                    value=number(float(design.theta_base[k]), 4),
                    sigma=number(float(design.sigma[k]), 3),
                    size=number(float(design.sizes[k]), 2),
                    ratio=percent(float(ratio[k])),
                    bar=bar_place(float(ratio[k])),
                    label=labels[k],
                    slug=_slug(labels[k]),
                    sort_value=place(float(design.theta_base[k])),
                    sort_sigma=place(float(design.sigma[k])),
                    sort_size=place(float(design.sizes[k])),
                    sort_ratio=place(float(ratio[k])),
                    order=k,
                )
            )
        return cls(
            rows=tuple(rows),
            counts=tuple((label, _slug(label), labels.count(label)) for label in LABELS),
            marks=tuple((bar_place(share), f"{100.0 * share:g} %") for share in (0.01, 0.1, 1.0)),
            poor=_poor(design, labels),
            silent=_silent(design, robot),
            regrouped=_regrouped(design),
        )


def precision_labels(design: Design) -> list[str]:
    """A label of `LABELS` for every base parameter."""
    ratio = design.sigma / design.sizes
    return [LABELS[0] if r < _WELL else LABELS[1] if r < 1.0 else LABELS[2] for r in ratio]


def bar_place(ratio: float) -> float:
    """Where sigma / size stands on a logarithmic axis, from 0 to `WIDTH`."""
    if not np.isfinite(ratio):
        return WIDTH
    share = np.log(max(ratio, _LOWEST) / _LOWEST) / np.log(_HIGHEST / _LOWEST)
    return round(WIDTH * float(min(1.0, share)), 1)


def _poor(design: Design, labels: list[str]) -> tuple[tuple[str, str], ...]:
    R: Array = design.information
    M = R.T @ R
    norms = np.sqrt(np.maximum(np.diag(M), np.finfo(float).tiny))
    names = [design.base.layout.names[k] for k in design.base.independent]
    with np.errstate(all="ignore"):
        scaled = np.linalg.pinv(M / np.outer(norms, norms), hermitian=True)
        spread = np.sqrt(np.diag(scaled))
        correlation = scaled / np.outer(spread, spread)
    result = []
    for k, label in enumerate(labels):
        if label != LABELS[2]:
            continue
        alone = 1.0 / norms[k] / design.sizes[k]
        others = np.abs(correlation[k])
        others[k] = 0.0
        partner = int(np.argmax(others))
        if alone >= _WELL:
            why = (
                "its torque is lost in the noise: known to "
                f"{percent(float(alone))} of its plausible size even if all else were known"
            )
        else:
            why = (
                f"alone it would be known to {percent(float(alone))} of its plausible size, but it "
                f"looks like others, most of all {names[partner]} (correlation "
                f"{number(float(correlation[k, partner]), 2)})"
            )
        result.append((design.base.names[k], why))
    return tuple(result)


def _silent(design: Design, robot: Robot) -> tuple[tuple[str, str], ...]:
    layout, moving = design.base.layout, set(design.joints)
    moves = supporting_joints(robot)
    reasons: dict[str, list[str]] = {}
    for name in design.base.unidentifiable:
        k = layout.index(name)
        if k < layout.n_inertial:
            movers = {robot.joint_names[j] for j in np.flatnonzero(moves[k // 10 + 1])}
            held = not movers & moving
            why = "no joint that moves carries the link" if held else _NEVER
        else:
            joint = layout.joint_names[(k - layout.n_inertial) % layout.n_joints]
            why = _NEVER if joint in moving or k >= layout.coupling.start else "the joint holds"
        reasons.setdefault(why, []).append(name)
    return tuple((why, " ".join(names)) for why, names in reasons.items())


_NEVER = "no motion of these joints makes a torque of it, as the mass of a link turning on the base"


def _regrouped(design: Design) -> tuple[tuple[str, str], ...]:
    base = design.base
    names = base.layout.names
    kept = [names[k] for k in base.independent]
    column = {names[k]: j for j, k in enumerate(base.dependent)}
    result = []
    for name in base.regrouped:
        inside = [kept[i] for i in np.flatnonzero(np.abs(base.K[:, column[name]]) > 1e-5)]
        shown = ", ".join(inside[:6])
        result.append(
            (name, shown if len(inside) <= 6 else f"{shown} and {count(len(inside) - 6, 'other')}")
        )
    return tuple(result)


def _slug(label: str) -> str:
    return f"label-{LABELS.index(label)}"
