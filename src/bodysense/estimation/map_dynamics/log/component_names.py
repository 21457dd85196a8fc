"""Names for every number of what is estimated, as columns of files have them."""

from __future__ import annotations

from bodysense.estimation.named_slices import NamedSlices

_ENDS = {
    "a": ("linear_x", "linear_y", "linear_z", "angular_x", "angular_y", "angular_z"),
    "f": ("force_x", "force_y", "force_z", "moment_x", "moment_y", "moment_z"),
}
_ENDS["fx"] = _ENDS["f"]
_UNITS = {
    "a": ("m/s²",) * 3 + ("rad/s²",) * 3,
    "f": ("N",) * 3 + ("N·m",) * 3,
    "tau": ("N·m",),
    "ddq": ("rad/s²",),
}
_UNITS["fx"] = _UNITS["f"]


def component_names(variables: NamedSlices) -> tuple[str, ...]:
    """``fx.hand.force_x``, …, ``tau.elbow``: one a number, in the order of the vector."""
    names: list[str] = []
    for name in variables:
        ends = _ENDS.get(name.partition(".")[0], ())
        names += [f"{name}.{end}" for end in ends] if ends else [name]
    return tuple(names)


def component_units(variables: NamedSlices, sliding: frozenset[str] = frozenset()) -> list[str]:
    """Units alike; `sliding` are joints with forces and lengths instead of torques and angles."""
    units: list[str] = []
    for name in variables:
        quantity, _, owner = name.partition(".")
        if owner in sliding and quantity in ("tau", "ddq"):
            units.append("N" if quantity == "tau" else "m/s²")
        else:
            units += _UNITS[quantity]
    return units
