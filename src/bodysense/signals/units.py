"""Units of recordings, and what turns them into SI."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from types import MappingProxyType

from bodysense.errors import unknown_name

_DEGREE = math.pi / 180.0
_TURN = 2.0 * math.pi

_TABLE: dict[str, dict[str, float]] = {
    "s": {"s": 1.0, "sec": 1.0, "min": 60.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "rad": {"rad": 1.0, "mrad": 1e-3, "deg": _DEGREE, "°": _DEGREE, "rev": _TURN, "turn": _TURN},
    "rad/s": {
        "rad/s": 1.0,
        "mrad/s": 1e-3,
        "deg/s": _DEGREE,
        "°/s": _DEGREE,
        "rev/s": _TURN,
        "rpm": _TURN / 60.0,
    },
    "rad/s²": {"rad/s²": 1.0, "deg/s²": _DEGREE, "°/s²": _DEGREE, "rev/s²": _TURN},
    "m": {"m": 1.0, "cm": 1e-2, "mm": 1e-3, "um": 1e-6},
    "m/s": {"m/s": 1.0, "cm/s": 1e-2, "mm/s": 1e-3},
    "m/s²": {"m/s²": 1.0, "mm/s²": 1e-3, "g": 9.80665},
    "N·m": {"N·m": 1.0, "mN·m": 1e-3, "kN·m": 1e3, "N·cm": 1e-2, "N·mm": 1e-3},
    "N": {"N": 1.0, "mN": 1e-3, "kN": 1e3},
    "A": {"A": 1.0, "mA": 1e-3},
}
_FACTORS = MappingProxyType(
    {unit: (si, factor) for si, units in _TABLE.items() for unit, factor in units.items()}
)


@dataclass(frozen=True)
class Unit:
    """What a unit measures.

    Attributes:
        si: the unit of the same dimension that bodysense uses, e.g. "rad".
        factor: what a value is multiplied with to be in it.
    """

    si: str
    factor: float


def find_unit(text: str) -> Unit | None:
    """The unit of this name, or `None`; ``Nm``, ``N m``, ``N*m``, ``rad/s^2`` are understood."""
    found = _FACTORS.get(_normalised(text))
    return None if found is None else Unit(*found)


def parse_unit(text: str, where: str) -> Unit:
    """The unit of this name.

    Raises:
        UnknownNameError: there is no such unit.
    """
    unit = find_unit(text)
    if unit is None:
        raise unknown_name("unit", text, _FACTORS, f"({where})")
    return unit


def _normalised(text: str) -> str:
    plain = text.strip().replace("µ", "u").replace("μ", "u").replace("degrees", "deg")
    plain = re.sub(r"\^?2$", "²", plain)
    return re.sub(r"N[ .*-]?(m|cm|mm)$", r"N·\1", plain)
