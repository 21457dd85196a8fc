"""Names for every number of what is estimated, as columns of files have them."""

from __future__ import annotations

from collections.abc import Sequence

from bodysense.estimation.named_slices import NamedSlices
from bodysense.robot.sensors.sensor import Sensor

_WRENCH_ENDS = ("force_x", "force_y", "force_z", "moment_x", "moment_y", "moment_z")
_WRENCH_UNITS = ("N",) * 3 + ("N·m",) * 3
_ENDS: dict[str, tuple[str, ...]] = {
    "a": ("linear_x", "linear_y", "linear_z", "angular_x", "angular_y", "angular_z"),
    "f": _WRENCH_ENDS,
    "fx": _WRENCH_ENDS,
    "omega": ("x", "y", "z"),
    "rotation": ("x", "y", "z"),
}
_UNITS: dict[str, tuple[str, ...]] = {
    "a": ("m/s²",) * 3 + ("rad/s²",) * 3,
    "f": _WRENCH_UNITS,
    "fx": _WRENCH_UNITS,
    "tau": ("N·m",),
    "q": ("rad",),
    "dq": ("rad/s",),
    "ddq": ("rad/s²",),
    "omega": ("rad/s",) * 3,
    "rotation": ("rad",) * 3,
}
_SLIDING = {"tau": "N", "ddq": "m/s²", "q": "m", "dq": "m/s"}
BIAS = "bias"
"""The quantity whose owners are sensors."""


def component_names(variables: NamedSlices, sensors: Sequence[Sensor] = ()) -> tuple[str, ...]:
    """``fx.hand.force_x``, …, ``tau.elbow``: one a number, in the order of the vector.

    Args:
        variables: what is estimated.
        sensors: whose biases may be among it.
    """
    by_name, names = {sensor.name: sensor for sensor in sensors}, []
    for name in variables:
        quantity, _, owner = name.partition(".")
        ends = _ENDS.get(quantity, ())
        if quantity == BIAS and len(by_name[owner].rows) > 1:
            ends = tuple(label for label, _ in by_name[owner].rows)
        names += [f"{name}.{end}" for end in ends] if ends else [name]
    return tuple(names)


def component_units(
    variables: NamedSlices,
    sliding: frozenset[str] = frozenset(),
    sensors: Sequence[Sensor] = (),
) -> list[str]:
    """Units alike; `sliding` are joints with forces and lengths instead of torques and angles."""
    by_name = {sensor.name: sensor for sensor in sensors}
    units: list[str] = []
    for name in variables:
        quantity, _, owner = name.partition(".")
        if quantity == BIAS:
            units += [unit for _, unit in by_name[owner].rows]
        elif owner in sliding and quantity in _SLIDING:
            units.append(_SLIDING[quantity])
        else:
            units += _UNITS[quantity]
    return units
