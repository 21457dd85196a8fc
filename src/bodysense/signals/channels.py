"""Names of channels: which quantity, of which joint or frame, in which unit.

q.<joint>  v.<joint>  a.<joint>  tau.<joint>  i.<joint>     of a joint; q_des.<joint>, … what
                                                            its controller asked for
wrench.<frame>.fx … fz, mx … mz                             force and moment in a frame
gyro.<frame>.x … z     acc.<frame>.x … z                    of an IMU
quat.<frame>.w, x … z                                       orientation of an IMU
"""

from __future__ import annotations

from types import MappingProxyType

from bodysense.signals.log import UNITS

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
