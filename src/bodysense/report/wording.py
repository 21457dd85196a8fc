"""Numbers as a reader wants to see them."""

from __future__ import annotations

import math

BAND = 1.96
"""Standard deviations to either side of a band that holds the truth 95 times out of 100."""

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


def place(value: float) -> float | None:
    """The number by which a table sorts; `None` for what goes to the end."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def effort_unit(joint_type: str) -> str:
    """Unit of a joint's torque, or force where it slides."""
    return "N" if joint_type == "prismatic" else "N·m"
