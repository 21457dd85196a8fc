"""Names of channels: which quantity, of which joint or frame, in which unit.

q.<joint>  v.<joint>  a.<joint>  tau.<joint>  i.<joint>     of a joint; q_des.<joint>, … what
                                                            its controller asked for
wrench.<frame>.fx … fz, mx … mz                             force and moment in a frame
gyro.<frame>.x … z     acc.<frame>.x … z                    of an IMU
quat.<frame>.w, x … z                                       orientation of an IMU
"""

from __future__ import annotations

import math
import re
from types import MappingProxyType

from bodysense.errors import unknown_name
from bodysense.logs.log import UNITS

_LINEAR = {"q": "m", "v": "m/s", "a": "m/s²", "tau": "N"}  # of sliding joints

JOINT_QUANTITIES = MappingProxyType(
    {
        quantity + suffix: (unit, _LINEAR[quantity]) if quantity in _LINEAR else (unit,)
        for suffix in ("", "_des")
        for quantity, unit in UNITS.items()
    }
)
"""Units that a quantity of a joint can have, the usual one first."""

FRAME_QUANTITIES = MappingProxyType(
    {
        "force": ("wrench", ("fx", "fy", "fz"), "N"),
        "moment": ("wrench", ("mx", "my", "mz"), "N·m"),
        "gyro": ("gyro", ("x", "y", "z"), "rad/s"),
        "acc": ("acc", ("x", "y", "z"), "m/s²"),
        "quat": ("quat", ("w", "x", "y", "z"), ""),
    }
)
"""Vectors measured in a frame: start of the channel name, its components, their unit."""

_COMPONENT_UNITS = MappingProxyType(
    {
        (start, component): (unit,)
        for start, components, unit in FRAME_QUANTITIES.values()
        for component in components
    }
)


def units_of(channel: str) -> tuple[str, ...]:
    """Units that a channel of this name can have, the usual one first; none if it is unknown."""
    quantity, dot, rest = channel.partition(".")
    if not dot or not rest:
        return ()
    if quantity in JOINT_QUANTITIES:
        return JOINT_QUANTITIES[quantity]
    frame, _, component = rest.rpartition(".")
    return _COMPONENT_UNITS.get((quantity, component), ()) if frame else ()


# Units in the names of columns: ``q.elbow [deg]``, or ``q.elbow (deg)``.

_SUFFIX = re.compile(r"(?P<name>.*\S)\s*\[(?P<unit>[^\[\]]*)\]")
_ROUND = re.compile(r"(?P<name>.*\S)\s*\((?P<unit>[^()]+)\)")


def split_unit(title: str) -> tuple[str, str]:
    """Name and unit of a column, "" where it states none.

    Round brackets hold a unit where they hold one that is known: names end in others.
    """
    result = _SUFFIX.fullmatch(title)
    if result is None:
        result = _ROUND.fullmatch(title)
        if result is None or find_unit(result["unit"].strip()) is None:
            return title, ""
    return result["name"], result["unit"].strip()


def join_unit(name: str, unit: str) -> str:
    """The title of a column; the brackets stand even without a unit, as a name may end in some."""
    return f"{name} [{unit}]"


# Units of recordings, and what turns them into SI.

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
    "m/s²": {"m/s²": 1.0, "cm/s²": 1e-2, "mm/s²": 1e-3, "g": 9.80665},
    "N·m": {"N·m": 1.0, "mN·m": 1e-3, "kN·m": 1e3, "N·cm": 1e-2, "N·mm": 1e-3},
    "N": {"N": 1.0, "mN": 1e-3, "kN": 1e3},
    "A": {"A": 1.0, "mA": 1e-3},
}
_FACTORS = MappingProxyType(
    {unit: (si, factor) for si, units in _TABLE.items() for unit, factor in units.items()}
)


def find_unit(text: str) -> tuple[str, float] | None:
    """SI unit of the same dimension and the factor that turns a value into it, if there is one.

    ``Nm``, ``N m``, ``N*m``, ``rad/s^2`` are understood.
    """
    return _FACTORS.get(_normalised(text))


def parse_unit(text: str, where: str) -> tuple[str, float]:
    """SI unit and factor, as `find_unit`; an error if there is no such unit."""
    unit = find_unit(text)
    if unit is None:
        raise unknown_name("unit", text, _FACTORS, f"({where})")
    return unit


def _normalised(text: str) -> str:
    plain = text.strip().replace("µ", "u").replace("μ", "u").replace("degrees", "deg")
    plain = re.sub(r"\^?2$", "²", plain)
    return re.sub(r"N[ .*-]?(m|cm|mm)$", r"N·\1", plain)
