"""Parameters against the prior, with error bars, in tables that can be sorted and filtered.

Masses, inertias and friction have nothing in common to be compared by, but each has a plausible
size by which the prior may well be off. In these sizes,

    change = (value - prior) / size,        half an error bar = 1.96 sigma / size,

a parameter at 0 is as in the robot's file, one beyond 1 is a surprise, and an error bar as long as
1 says that the data know no more than the prior did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bodysense.identification.identification import LABELS, Label
from bodysense.identification.prior import Prior
from bodysense.identification.run import IdentificationRun
from bodysense.report.rendering import BAND, NOTHING, number, place
from bodysense.report.sections.whiskers import Whisker, WhiskerScale
from bodysense.robot.layout import ParameterLayout
from bodysense.spatial.arrays import Array

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
    "Iam": ("inertia of a coupled motor", "kg·m²", "kg"),
    "Fvm": ("viscous friction of a coupled motor", "N·m·s/rad", "N·s/m"),
    "Fcm": ("Coulomb friction of a coupled motor", "N·m", "N"),
}
"""Meaning of the parameters' prefixes, and units for a turning and for a sliding joint."""


@dataclass(frozen=True)
class ParameterRow:
    """One parameter in words and numbers, and the numbers to sort by.

    Attributes:
        name: its own, or that of the parameter which leads a combination.
        combination: all of the combination, if it is more than its first parameter.
        terms: how many parameters are regrouped into it.
        words: what it is.
        unit: of all its values.
        label: whether the data decide it.
        slug: the label as a class of the style sheet.
        whisker: its change in plausible sizes, drawn.
        change: the same as a number.
        order: place in theta.
    """

    name: str
    combination: str
    terms: int
    words: str
    unit: str
    prior: str
    value: str
    sigma: str
    label: Label
    slug: str
    whisker: Whisker
    change: float | None
    sort_prior: float | None
    sort_value: float | None
    sort_sigma: float | None
    order: int


@dataclass(frozen=True)
class ParameterTable:
    """Rows and the axis of their drawings."""

    key: str
    title: str
    rows: tuple[ParameterRow, ...]
    counts: tuple[tuple[Label, str, int], ...]
    scale: WhiskerScale


@dataclass(frozen=True)
class ParameterSection:
    """Tables of base parameters and of standard parameters, and what their names mean."""

    tables: tuple[ParameterTable, ParameterTable]
    terms: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, run: IdentificationRun) -> ParameterSection:
        """The section of a run."""
        result, prior = run.identification, Prior.of(run.problem)
        layout, base = result.prior.layout, result.base
        units = parameter_units(layout, result.prior.joint_types)
        independent = [int(k) for k in base.independent]
        names = layout.names
        base_table = _table(
            "base",
            "Base parameters",
            [names[k] for k in independent],
            base.names,
            [layout.describe(names[k]) for k in independent],
            [units[k] for k in independent],
            (result.theta_base, result.sigma_base, prior.theta_base, prior.size_base),
            result.base_labels,
        )
        full_table = _table(
            "standard",
            "Standard parameters",
            names,
            names,
            [layout.describe(name) for name in names],
            units,
            (result.theta, result.sigma, prior.theta, prior.size),
            result.labels,
        )
        used = dict.fromkeys(_prefix(name) for name in names)
        terms = tuple((term, _TERMS[term][0]) for term in used if term in _TERMS)
        return cls((base_table, full_table), terms)


def parameter_units(layout: ParameterLayout, joint_types: Sequence[str]) -> tuple[str, ...]:
    """Unit of every parameter of theta; empty where a friction law is the user's own."""
    units = []
    for k, name in enumerate(layout.names):
        _, turning, sliding = _TERMS.get(_prefix(name), ("", "", ""))
        drive = k >= layout.n_inertial
        slides = drive and joint_types[_joint(layout, k)] == "prismatic"
        units.append(sliding if slides else turning)
    return tuple(units)


def _joint(layout: ParameterLayout, k: int) -> int:
    coupled = k - layout.coupling.start
    return layout.coupled[coupled][1] if coupled >= 0 else (k - layout.n_inertial) % layout.n_joints


def _prefix(name: str) -> str:
    return name.rstrip("0123456789")


def _table(
    key: str,
    title: str,
    names: Sequence[str],
    combinations: Sequence[str],
    words: Sequence[str],
    units: Sequence[str],
    arrays: tuple[Array, Array, Array, Array],
    labels: Sequence[Label],
) -> ParameterTable:
    theta, sigma, before, size = arrays
    with np.errstate(all="ignore"):
        change, reach = (theta - before) / size, BAND * sigma / size
    scale = WhiskerScale.of(change, reach)
    rows = tuple(
        ParameterRow(
            name=names[k],
            combination=combinations[k] if combinations[k] != names[k] else "",
            terms=combinations[k].count(" + ") + combinations[k].count(" - "),
            words=words[k],
            unit=units[k],
            prior=number(before[k], 4),
            value=_to(theta[k], sigma[k]),
            sigma=number(sigma[k], 2),
            label=labels[k],
            slug=_slug(labels[k]),
            whisker=scale.whisker(float(change[k]), float(reach[k])),
            change=place(float(change[k])),
            sort_prior=place(float(before[k])),
            sort_value=place(float(theta[k])),
            sort_sigma=place(float(sigma[k])),
            order=k,
        )
        for k in range(len(names))
    )
    counts = tuple(
        (label, _slug(label), list(labels).count(label))
        for label in LABELS
        if label != "known" or label in labels  # seldom there at all
    )
    return ParameterTable(key, title, rows, counts, scale)


def _slug(label: Label) -> str:
    return f"label-{LABELS.index(label)}"


def _to(value: float, sigma: float) -> str:
    """A value with as many digits as its error leaves, and one more."""
    if not (np.isfinite(value) and np.isfinite(sigma)):
        return number(value) if np.isfinite(value) else NOTHING
    if value == 0.0 or sigma <= 0.0:
        return number(value)
    if abs(value) < 1e-3 * sigma:  # rounding, where the prior is zero
        return "0"
    digits = int(np.floor(np.log10(abs(value))) - np.floor(np.log10(sigma))) + 2
    return number(value, min(max(digits, 2), 7))
