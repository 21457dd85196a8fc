"""The part of a layout file about logs of motors; see `layout_file`."""

from __future__ import annotations

import numpy as np

from bodysense.errors import FileReadError, unknown_name
from bodysense.signals import layout_values as values
from bodysense.signals.motors import MotorSide
from bodysense.spatial.arrays import Array, read_only


def parse_motors(given: object, joints: tuple[str, ...], where: str) -> MotorSide:
    """Gear ratios, coupling and zero positions, one each a joint."""
    table = values.mapping(given, where, ("gear_ratio", "coupling", "zero"))
    if not joints:
        raise FileReadError(f"{where}: of which joints? List them: `joints: [name, …]`.")
    ratios = _numbers(table.get("gear_ratio", 1.0), joints, f"{where}, gear_ratio")
    if not ratios.all():
        raise FileReadError(
            f"{where}, gear_ratio: zero for {joints[int(np.argmin(np.abs(ratios)))]!r}; give motor "
            "turns a joint turn."
        )
    coupling = np.eye(len(joints))
    entries = table.get("coupling", [])
    if not isinstance(entries, list):
        raise FileReadError(f"{where}, coupling: expected a list of {{motor, joint, ratio}}.")
    for k, given_entry in enumerate(entries):
        place = f"{where}, coupling, entry {k + 1}"
        entry = values.mapping(given_entry, place, ("motor", "joint", "ratio"))
        missing = [key for key in ("motor", "joint", "ratio") if key not in entry]
        if missing:
            raise FileReadError(f"{place}: {', '.join(missing)} missing.")
        motor = _position(entry["motor"], joints, f"{place}, motor")
        joint = _position(entry["joint"], joints, f"{place}, joint")
        if coupling[motor, joint] != 0.0:
            raise FileReadError(
                f"{place}: motor {joints[motor]!r} moves {joints[joint]!r} already; list each pair "
                "once, and put the own ratio of a motor into gear_ratio."
            )
        coupling[motor, joint] = values.number(entry["ratio"], f"{place}, ratio")
    if abs(np.linalg.det(coupling)) < 1e-9:
        raise FileReadError(
            f"{where}, coupling: singular; every joint needs a motor that moves it."
        )
    zero = _numbers(table.get("zero", 0.0), joints, f"{where}, zero")
    return MotorSide(read_only(ratios[:, None] * coupling), read_only(zero))


def _numbers(value: object, joints: tuple[str, ...], where: str) -> Array:
    each = values.one_each(value, joints, where)
    return np.array(
        [values.number(x, f"{where}, {name}") for x, name in zip(each, joints, strict=True)]
    )


def _position(value: object, joints: tuple[str, ...], where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= len(joints):
        return value - 1
    if not isinstance(value, str) or value not in joints:
        raise unknown_name("joint", str(value), joints, f"({where})")
    return joints.index(value)
