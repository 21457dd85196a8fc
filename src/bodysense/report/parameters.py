"""Tables of parameters: identified ones beside the prior, and the precision that a motion promises.

Masses, inertias and friction have nothing in common to be compared by, but each has a plausible
size by which the prior may well be off. In these sizes,

    change = (value - prior) / size,        half an error bar = 1.96 sigma / size,

a parameter at 0 is as in the robot's file, one beyond 1 is a surprise, and an error bar as long as
1 says that the data know no more than the prior did.

A predicted sigma / size below 1 says that the motion tells more than a guess. With M the
information, two things make sigma large: the parameter's own torque is small, 1/√M_kk, or it is
correlated with that of others, σ_k √M_kk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bodysense.report.figures import WIDTH, WhiskerScale
from bodysense.report.page import NOTHING, Section, count, number, percent
from bodysense.robot.frames import supporting_joints
from bodysense.robot.layout import ParameterLayout
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.status import BAND

if TYPE_CHECKING:
    from bodysense.excitation.design import Design
    from bodysense.identification.run import IdentificationRun

PRECISION_LABELS = ("well", "poorly", "not identifiable")
"""Of a base parameter: sigma below a quarter of its plausible size, below it, above it."""

_WELL_KNOWN = 0.25  # sigma / size below which a parameter is well identified
_BAR_ENDS = (1e-3, 10.0)  # of the axis of sigma / size
_NO_TORQUE = (
    "no motion of these joints makes a torque of it, as the mass of a link turning on the base"
)

_TERMS = {
    "M": ("mass", "kg", "kg"),
    "MX": ("first moment along x", "kg·m", "kg·m"),
    "MY": ("first moment along y", "kg·m", "kg·m"),
    "MZ": ("first moment along z", "kg·m", "kg·m"),
    "XX": ("moment of inertia about x", "kg·m²", "kg·m²"),
    "XY": ("product of inertia xy", "kg·m²", "kg·m²"),
    "YY": ("moment of inertia about y", "kg·m²", "kg·m²"),
    "XZ": ("product of inertia xz", "kg·m²", "kg·m²"),
    "YZ": ("product of inertia yz", "kg·m²", "kg·m²"),
    "ZZ": ("moment of inertia about z", "kg·m²", "kg·m²"),
    "Ia": ("rotor inertia", "kg·m²", "kg"),
    "Fv": ("viscous friction", "N·m·s/rad", "N·s/m"),
    "Fc": ("Coulomb friction", "N·m", "N"),
    "Fs": ("static friction", "N·m", "N"),
    "Fo": ("torque offset", "N·m", "N"),
    "Fl": ("load-dependent friction, per load", "1", "1"),
    "Iam": ("inertia of a coupled motor", "kg·m²", "kg"),
    "Fvm": ("viscous friction of a coupled motor", "N·m·s/rad", "N·s/m"),
    "Fcm": ("Coulomb friction of a coupled motor", "N·m", "N"),
}
"""Meaning of the parameters' prefixes, and units for a turning and for a sliding joint."""


def parameter_units(layout: ParameterLayout, joint_types: Sequence[str]) -> tuple[str, ...]:
    """Unit of every parameter of theta; empty for terms of a user-defined friction law."""
    units = []
    for k, name in enumerate(layout.names):
        _, turning, sliding = _TERMS.get(_prefix(name), ("", "", ""))
        joint = _joint(layout, k)
        slides = joint is not None and joint_types[joint] == "prismatic"
        units.append(sliding if slides else turning)
    return tuple(units)


def _prefix(name: str) -> str:
    return name.rstrip("0123456789")


def _joint(layout: ParameterLayout, k: int) -> int | None:
    """The joint whose drive a parameter is of; None for those of links."""
    if k < layout.n_inertial:
        return None
    coupled = k - layout.coupling.start
    return layout.coupled[coupled][1] if coupled >= 0 else (k - layout.n_inertial) % layout.n_joints


def _row(
    layout: ParameterLayout, k: int, combination: str, unit: str, label: str, labels: Sequence[str]
) -> Section:
    """What names parameter k, or a combination that it leads, in a table, and its label."""
    name = layout.names[k]
    return {
        "name": name,
        "combination": combination if combination != name else "",
        "terms": combination.count(" + ") + combination.count(" - "),
        "words": layout.describe(name),
        "unit": unit,
        "label": label,
        "slug": _slug(label, labels),
    }


def _slug(label: str, labels: Sequence[str]) -> str:
    return f"label-{labels.index(label)}"


def _counts(labels: Sequence[str], all_labels: Sequence[str]) -> list[tuple[str, str, int]]:
    return [(label, _slug(label, all_labels), labels.count(label)) for label in all_labels]


# Identified parameters beside the prior.


def parameter_section(run: IdentificationRun) -> Section:
    """Tables of base parameters and of standard parameters, and what their names mean."""
    from bodysense.identification.prior import Prior  # which designs of motions do not need

    result, prior = run.identification, Prior.of(run.problem)
    base = result.base
    names = result.prior.layout.names
    used = dict.fromkeys(_prefix(name) for name in names)
    return {
        "tables": (
            {"key": "base", "title": "Base parameters"}
            | _table(
                run,
                base.independent.tolist(),
                base.names,
                (result.theta_base, result.sigma_base, prior.theta_base, prior.size_base),
                result.base_labels,
            ),
            {"key": "standard", "title": "Standard parameters"}
            | _table(
                run,
                range(len(names)),
                names,
                (result.theta, result.sigma, prior.theta, prior.size),
                result.labels,
            ),
        ),
        "terms": [(term, _TERMS[term][0]) for term in used if term in _TERMS],
    }


def _table(
    run: IdentificationRun,
    places: Sequence[int],
    combinations: Sequence[str],
    arrays: tuple[Array, Array, Array, Array],
    labels: Sequence[str],
) -> Section:
    """Rows of parameters at some places of theta, with the axis of their drawings."""
    from bodysense.identification.identification import LABELS

    robot = run.identification.prior
    units = parameter_units(robot.layout, robot.joint_types)
    theta, sigma, before, size = arrays
    with np.errstate(all="ignore"):
        change, reach = (theta - before) / size, BAND * sigma / size
    scale = WhiskerScale.of(change, reach)
    rows = [
        {
            **_row(robot.layout, k, combinations[j], units[k], labels[j], LABELS),
            "order": j,
            "prior": float(before[j]),
            "value": float(theta[j]),
            "text": _to(theta[j], sigma[j]),
            "sigma": float(sigma[j]),
            "whisker": scale.whisker(float(change[j]), float(reach[j])),
            "change": float(change[j]),
        }
        for j, k in enumerate(places)
    ]
    counts = [entry for entry in _counts(labels, LABELS) if entry[0] != "known" or entry[2]]
    return {"rows": rows, "counts": counts, "scale": scale}


def _to(value: float, sigma: float) -> str:
    """A value with as many digits as its error leaves, and one more."""
    if not np.isfinite(value):
        return NOTHING
    if not np.isfinite(sigma) or value == 0.0 or sigma <= 0.0:
        return number(value)
    if abs(value) < 1e-3 * sigma:  # rounding, where the prior is zero
        return "0"
    digits = int(np.floor(np.log10(abs(value))) - np.floor(np.log10(sigma))) + 2
    return number(value, min(max(digits, 2), 7))


# The precision that a motion promises.


def precision_section(design: Design, robot: Robot) -> Section:
    """All base parameters, which are not identifiable, and which only in combination."""
    base, labels = design.base, precision_labels(design)
    units = parameter_units(base.layout, robot.joint_types)
    with np.errstate(all="ignore"):
        ratios = design.sigma / design.sizes
    return {
        "rows": [
            {
                **_row(base.layout, k, base.names[j], units[k], labels[j], PRECISION_LABELS),
                "order": j,
                "value": float(design.theta_base[j]),
                "sigma": float(design.sigma[j]),
                "size": float(design.sizes[j]),
                "ratio": float(ratios[j]),
                "bar": _bar_place(float(ratios[j])),
            }
            for j, k in enumerate(base.independent.tolist())
        ],
        "counts": _counts(labels, PRECISION_LABELS),
        "marks": [(_bar_place(share), f"{100.0 * share:g} %") for share in (0.01, 0.1, 1.0)],
        "poor": _poor(design, labels),
        "unidentifiable": _unidentifiable(design, robot),
        "regrouped": _regrouped(design),
    }


def precision_labels(design: Design) -> list[str]:
    """A label of `PRECISION_LABELS` for every base parameter."""
    well, poorly, lost = PRECISION_LABELS
    ratios = design.sigma / design.sizes
    return [well if r < _WELL_KNOWN else poorly if r < 1.0 else lost for r in ratios]


def _bar_place(ratio: float) -> float:
    """Where sigma / size stands on a logarithmic axis, from 0 to `WIDTH`."""
    lowest, highest = _BAR_ENDS
    if not np.isfinite(ratio):
        return WIDTH
    share = np.log(max(ratio, lowest) / lowest) / np.log(highest / lowest)
    return round(WIDTH * float(min(1.0, share)), 1)


def _poor(design: Design, labels: list[str]) -> list[tuple[str, str]]:
    R: Array = design.information
    M = R.T @ R
    norms = np.sqrt(np.maximum(np.diag(M), np.finfo(float).tiny))
    names = [design.base.layout.names[k] for k in design.base.independent]
    with np.errstate(all="ignore"):
        scaled = np.linalg.pinv(M / np.outer(norms, norms), hermitian=True)
        sigma = np.sqrt(np.diag(scaled))
        correlation = scaled / np.outer(sigma, sigma)
    reasons = []
    for k, label in enumerate(labels):
        if label != PRECISION_LABELS[2]:
            continue
        alone = 1.0 / norms[k] / design.sizes[k]
        others = np.abs(correlation[k])
        others[k] = 0.0
        partner = int(np.argmax(others))
        if alone >= _WELL_KNOWN:
            why = (
                "its torque is lost in the noise: known to "
                f"{percent(float(alone))} of its plausible size even if all else were known"
            )
        else:
            why = (
                f"alone it would be known to {percent(float(alone))} of its plausible size, but it "
                f"cannot be separated from others, most of all {names[partner]} (correlation "
                f"{number(float(correlation[k, partner]), 2)})"
            )
        reasons.append((design.base.names[k], why))
    return reasons


def _unidentifiable(design: Design, robot: Robot) -> list[tuple[str, str]]:
    layout, moving = design.base.layout, set(design.joints)
    moves = supporting_joints(robot)
    reasons: dict[str, list[str]] = {}
    for name in design.base.unidentifiable:
        k = layout.index(name)
        joint = _joint(layout, k)
        if joint is None:
            movers = {robot.joint_names[j] for j in np.flatnonzero(moves[k // 10 + 1])}
            why = _NO_TORQUE if movers & moving else "no joint that moves carries the link"
        elif layout.joint_names[joint] in moving or k >= layout.coupling.start:
            why = _NO_TORQUE
        else:
            why = "the joint does not move"
        reasons.setdefault(why, []).append(name)
    return [(why, " ".join(names)) for why, names in reasons.items()]


def _regrouped(design: Design) -> list[tuple[str, str]]:
    base = design.base
    names = base.layout.names
    kept = [names[k] for k in base.independent]
    column = {names[k]: j for j, k in enumerate(base.dependent)}
    rows = []
    for name in base.regrouped:
        inside = [kept[i] for i in np.flatnonzero(np.abs(base.K[:, column[name]]) > 1e-5)]
        shown = ", ".join(inside[:6])
        rows.append(
            (name, shown if len(inside) <= 6 else f"{shown} and {count(len(inside) - 6, 'other')}")
        )
    return rows
