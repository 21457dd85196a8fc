"""Numbers, units and parameters as a reader wants to see them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bodysense.robot.layout import ParameterLayout

BAND = 1.96
"""Standard deviations to either side of the mean in a 95 % interval."""

NOTHING = "\N{EN DASH}"
"""Stands where there is no number."""


def number(value: float, digits: int = 4) -> str:
    """A number with a few significant digits; powers of ten only where they are needed."""
    if not math.isfinite(value):
        return NOTHING
    if value == 0.0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if -4 <= exponent < 6:
        text = f"{value:.{max(0, digits - 1 - exponent)}f}"
        # Trailing zeros stay: they say how many digits are known.
        return text.replace("-", "\N{MINUS SIGN}")
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(power)}".replace("-", "\N{MINUS SIGN}")


def percent(fraction: float) -> str:
    """A fraction in per cent, e.g. ``4.7 %``; three digits are as many as errors deserve."""
    if not math.isfinite(fraction):
        return NOTHING
    value = 100.0 * fraction
    if abs(value) >= 1e5:
        return f"{value:.0e} %".replace("e+0", "e").replace("e+", "e")
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 0.995 else 2
    return f"{value:.{digits}f} %".replace("-", "\N{MINUS SIGN}")


def count(n: int, noun: str) -> str:
    """``1 log``, ``3 logs``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def sort_key(value: float) -> float | str:
    """The number by which a table sorts; empty for what goes to the end."""
    return float(f"{value:.6g}") if math.isfinite(value) else ""


def bar_width(value: float, full: float) -> float:
    """How much of a bar is filled, in per cent, where `full` fills it."""
    return round(100.0 * min(1.0, max(value, 0.0) / full), 1) if math.isfinite(value) else 0.0


def effort_unit(joint_type: str) -> str:
    """Unit of a joint's torque, or force where it slides."""
    return "N" if joint_type == "prismatic" else "N·m"


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


def parameter_units(layout: ParameterLayout, joint_types: Sequence[str]) -> tuple[str, ...]:
    """Unit of every parameter of theta; empty for terms of a user-defined friction law."""
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


def parameter_terms(names: Sequence[str]) -> list[tuple[str, str]]:
    """What parameters' names begin with, and what it means."""
    used = dict.fromkeys(_prefix(name) for name in names)
    return [(term, _TERMS[term][0]) for term in used if term in _TERMS]


def parameter_row(name: str, combination: str, words: str, unit: str, order: int) -> dict[str, Any]:
    """What names a parameter, or a combination that it leads, in a table."""
    return {
        "name": name,
        "combination": combination if combination != name else "",
        "terms": combination.count(" + ") + combination.count(" - "),
        "words": words,
        "unit": unit,
        "order": order,
    }
