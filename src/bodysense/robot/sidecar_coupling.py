"""The part of an actuator file about motors that move more than one joint; see `sidecar`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bodysense.errors import RobotFileError, unknown_name
from bodysense.robot.actuators import COUPLED_TERMS
from bodysense.robot.yaml_values import finite_number, name_list, number_per_name, section
from bodysense.spatial.arrays import Array


def parse_coupling(given: object, names: tuple[str, ...], where: str) -> Array:
    """C from its rows, or from its entries off the diagonal."""
    n = len(names)
    matrix = np.eye(n)
    if not isinstance(given, list):
        raise RobotFileError(
            f"{where}: {given!r} is neither a matrix nor a list of {{motor, joint, ratio}}."
        )
    if given and isinstance(given[0], list):
        rows = [number_per_name(row, names, f"{where}, row {k + 1}") for k, row in enumerate(given)]
        if len(rows) != n:
            raise RobotFileError(
                f"{where}: {len(rows)} rows for {n} joints; give one row a motor, in the order "
                f"{', '.join(names)}."
            )
        return np.array(rows).reshape(n, n)
    for k, given_entry in enumerate(given):
        place = f"{where}, entry {k + 1}"
        entry = section(given_entry, ("motor", "joint", "ratio"), place)
        missing = [key for key in ("motor", "joint", "ratio") if key not in entry]
        if missing:
            raise RobotFileError(
                f"{place}: {' and '.join(missing)} missing; write {{motor: …, joint: …, ratio: …}}."
            )
        motor = _position(entry["motor"], names, f"{place}, motor")
        joint = _position(entry["joint"], names, f"{place}, joint")
        if motor == joint:
            raise RobotFileError(
                f"{place}: the motor of joint {names[joint]!r} moves that joint anyway; list only "
                "the other joints that it moves, and put its own ratio into gear_ratio."
            )
        if matrix[motor, joint] != 0.0:
            raise RobotFileError(
                f"{place}: motor {names[motor]!r} and joint {names[joint]!r} are coupled by an "
                "earlier entry already; keep one of the two."
            )
        matrix[motor, joint] = finite_number(entry["ratio"], f"{place}, ratio")
    return matrix


def _position(name: object, names: tuple[str, ...], where: str) -> int:
    if not isinstance(name, str) or name not in names:
        raise unknown_name("joint", str(name), names, f"({where})")
    return names.index(name)


def parse_coupled_terms(
    given: object, coupling: Array, names: tuple[str, ...], where: str
) -> tuple[tuple[str, ...], dict[str, Array]]:
    """Names of the coupling terms, and values a coupled motor where the file gives them."""
    if given is None:
        return ("Fvm", "Fcm"), {}
    if not isinstance(given, Mapping):
        return name_list(given, where), {}
    table = section(given, COUPLED_TERMS, where)
    motors = tuple(
        name for name, row in zip(names, coupling, strict=True) if np.count_nonzero(row) > 1
    )
    if not motors:
        raise RobotFileError(
            f"{where}: no motor moves more than one joint, so these have no place; add `coupling`."
        )
    values = {
        term: number_per_name(value, motors, f"{where}, {term}", 0.0)
        for term, value in table.items()
    }
    return tuple(values), values
