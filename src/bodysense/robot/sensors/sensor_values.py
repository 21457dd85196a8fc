"""Values of a sensor's entry in a file, checked: vectors, covariances, places, cells of a skin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bodysense.errors import RobotFileError
from bodysense.robot.sensors.covariance import variances
from bodysense.robot.sensors.mount import Mount
from bodysense.robot.yaml_values import finite_number, section
from bodysense.spatial.arrays import Array

Table = Mapping[str, object]
"""A sensor's entry, as read."""


def numbers(value: object, n: int, where: str, *, one: bool = False) -> Array:
    """(n,) from a list of n numbers; from a single one as well if `one`."""
    if one and not isinstance(value, Sequence | Mapping):
        return np.full(n, finite_number(value, where))
    if one and isinstance(value, str):  # a number that YAML reads as a word, such as 1e-3
        return np.full(n, finite_number(value, where))
    if not isinstance(value, list) or len(value) != n:
        wanted = f"a number, or a list of {n}" if one and n > 1 else f"a list of {n} numbers"
        raise RobotFileError(f"{where}: expected {wanted}, got {value!r:.60}.")
    return np.array([finite_number(entry, f"{where}, {k + 1}") for k, entry in enumerate(value)])


def noise(table: Table, m: int, where: str) -> Array:
    """(m, m) covariance, from `std` or `covariance`."""
    if ("std" in table) == ("covariance" in table):
        raise RobotFileError(
            f"{where}: give either std, one number or {m}, in SI units, or covariance, {m} rows of "
            f"{m} numbers; zero is exact."
        )
    if "std" in table:
        place = f"{where}, std"
        return variances(numbers(table["std"], m, place, one=True), m, place)
    rows, place = table["covariance"], f"{where}, covariance"
    if not isinstance(rows, list) or len(rows) != m:
        raise RobotFileError(f"{place}: expected {m} rows of {m} numbers, got {rows!r:.60}.")
    return np.array([numbers(row, m, f"{place}, row {k + 1}") for k, row in enumerate(rows)])


def word(table: Table, key: str, where: str) -> str:
    """Return a name that must be there."""
    value = table.get(key)
    if not isinstance(value, str) or not value.strip():
        given = f"{value!r:.60} is not a name" if key in table else "it is missing"
        raise RobotFileError(f"{where}, {key}: {given}; give a name.")
    return value


def mount(table: Table, where: str) -> Mount:
    """The place of a sensor: `link` or `frame`, with `xyz` [m] and `rpy` [rad] in it."""
    if ("link" in table) == ("frame" in table):
        raise RobotFileError(
            f"{where}: give the link that it is on, or any frame fixed to one (link: or frame:)."
        )
    frame = word(table, "link" if "link" in table else "frame", where)
    place = {
        key: numbers(table[key], 3, f"{where}, {key}") for key in ("xyz", "rpy") if key in table
    }
    return Mount.of(frame, **place)


def cells(table: Table, where: str) -> tuple[Array, Array]:
    """Normals and points (n, 3) of a skin: one `normal`, or `cells` with `normal` and `xyz`."""
    if ("normal" in table) == ("cells" in table):
        raise RobotFileError(f"{where}: give either a normal, or cells with normal and xyz each.")
    if "normal" in table:
        return numbers(table["normal"], 3, f"{where}, normal")[np.newaxis], np.zeros((1, 3))
    given = table["cells"]
    if not isinstance(given, list) or not given:
        raise RobotFileError(f"{where}, cells: expected a list of cells, got {given!r:.60}.")
    normals, points = np.zeros((2, len(given), 3))
    for k, entry in enumerate(given):
        place = f"{where}, cells, {k + 1}"
        cell = section(entry, ("normal", "xyz"), place)
        normals[k] = numbers(cell.get("normal"), 3, f"{place}, normal")
        points[k] = numbers(cell.get("xyz"), 3, f"{place}, xyz")
    return normals, points
