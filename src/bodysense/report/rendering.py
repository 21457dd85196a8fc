"""What pages have in common: templates that escape everything, JSON without NaN, digests."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping
from importlib import resources

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined


def environment() -> Environment:
    """Templates of this package: all values escaped, unknown names and NaN in JSON are errors."""
    made = Environment(
        loader=PackageLoader("bodysense.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


def template_text(*names: str) -> str:
    """Files beside the templates, one after the other, word for word."""
    folder = resources.files("bodysense.report") / "templates"
    return "".join((folder / name).read_text(encoding="utf-8") for name in names)


def source_digest(text: str) -> str:
    """What a content security policy calls an inline script or style, e.g. ``'sha256-…'``."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def ready_for_json(value: object) -> object:
    """The same of plain types: what is not a number becomes null, what is unknown its text."""
    if isinstance(value, Mapping):
        return {str(key): ready_for_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return ready_for_json(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [ready_for_json(item) for item in value]
    if isinstance(value, np.generic):
        return ready_for_json(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


# Numbers as a reader wants to see them.

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
