"""Entries of a sensors file that are priors, those of external wrenches above all.

    external_wrenches:                      # of links, or of frames fixed to them
      default: zero                         # of links that are not named
      hand: unknown                         # as wide as is plausible for the robot
      forearm: {std: [50, 50, 50, 5, 5, 5], mean: 0}
      tool0: {force: 50}                    # a pure force at the frame's origin, of any direction
      pad: {force: unknown, direction: [0, 0, 1], at: [0, 0, 0.02], moment: 0.1}

All numbers are in the frame that is named, about its origin or the point `at` in it [m, N, N·m].
"""

from __future__ import annotations

from collections.abc import Mapping

import pinocchio as pin

from bodysense.errors import RobotFileError, ShapeError, listing
from bodysense.estimation.map_dynamics.plausible_sizes import PlausibleSizes
from bodysense.estimation.map_dynamics.priors import GaussianPrior
from bodysense.robot.frames import moving_frame
from bodysense.robot.robot import Robot
from bodysense.schema import number_list, section
from bodysense.sensors.sensor import deviations
from bodysense.spatial.arrays import Array

DEFAULT = "default"
"""The wrench of links that are not named."""

_KEYS = ("std", "mean", "force", "direction", "moment", "at")


def parse_wrenches(
    table: object, robot: Robot, sizes: PlausibleSizes, where: str
) -> tuple[GaussianPrior, dict[str, GaussianPrior], tuple[str, ...]]:
    """The default, the priors by link or frame, and notes about frames that share a link.

    Raises:
        RobotFileError: an entry that cannot be understood.
        UnknownNameError: an unknown link, frame or key.
        MismatchError: a frame that is part of the ground.
        ShapeError: a standard deviation that is negative, a direction without length.
    """
    place = f"{where}, external_wrenches"
    given = {} if table is None else table
    if not isinstance(given, Mapping):
        raise RobotFileError(
            f"{place}: expected a mapping from link or frame to zero, unknown or a prior, got "
            f"{given!r:.60}."
        )
    priors: dict[str, GaussianPrior] = {}
    names: dict[str, list[str]] = {}
    for name, value in ((str(name), value) for name, value in given.items()):
        if name != DEFAULT:
            link = name
            if name not in robot.link_names:
                frame = moving_frame(robot, name, place)
                link = robot.link_names[frame.parentJoint - 1]
            names.setdefault(link, []).append(name)
        priors[name] = _wrench(value, sizes, f"{place}, {name}")
    notes = tuple(
        f"external wrenches of {listing(several)} act on {link} together: their priors add up"
        for link, several in names.items()
        if len(several) > 1
    )
    return priors.pop(DEFAULT, GaussianPrior.zero(6)), priors, notes


def _wrench(value: object, sizes: PlausibleSizes, where: str) -> GaussianPrior:
    if value == "zero":
        return GaussianPrior.zero(6)
    if value == "unknown":
        return GaussianPrior.of([0.0] * 6, sizes.wrench)
    if not isinstance(value, Mapping):
        raise RobotFileError(
            f"{where}: expected zero, unknown, {{std: …, mean: …}} in N and N·m, or "
            f"{{force: …, direction: …}} for a pure force, got {value!r:.60}."
        )
    given = section(value, _KEYS, where)
    at = number_list(given.pop("at", [0, 0, 0]), 3, f"{where}, at")
    try:
        prior = _force(given, sizes, where) if "force" in given else _spread(given, where)
    except ShapeError as error:
        raise error if where in str(error) else ShapeError(f"{where}: {error}") from error
    point = pin.SE3.Identity()
    point.translation = at
    return prior.moved(point)


def _spread(given: Mapping[str, object], where: str) -> GaussianPrior:
    """A wrench with a standard deviation of each component."""
    for key in ("direction", "moment"):
        if key in given:
            raise RobotFileError(
                f"{where}: {key} belongs to a pure force: give `force:`, its standard deviation "
                "[N], instead of std."
            )
    return prior_entry(given, 6, where)


def _force(given: Mapping[str, object], sizes: PlausibleSizes, where: str) -> GaussianPrior:
    """A force at a point, of any direction or a known one."""
    if "std" in given:
        raise RobotFileError(
            f"{where}: give either std, of all six components, or force, of a pure force [N]."
        )
    direction, n = None, 3
    if "direction" in given:
        direction, n = number_list(given["direction"], 3, f"{where}, direction"), 1
    value, place = given["force"], f"{where}, force"
    return GaussianPrior.force(
        sizes.force if value == "unknown" else std_entry(value, n, place),
        mean=number_list(given.get("mean", 0.0), n, f"{where}, mean", one=True),
        direction=direction,
        moment_std=std_entry(given.get("moment", 0.0), 3, f"{where}, moment"),
    )


def prior_entry(value: object, size: int, where: str, *required: str) -> GaussianPrior:
    """A prior from {std: …, mean: …}, one number or `size` of them."""
    given = section(value, ("mean", "std"), where)
    required = (*required, "std")
    if any(key not in given for key in required):
        raise RobotFileError(
            f"{where}: give {' and '.join(required)}, one number or {size}, in SI units; a std of "
            "zero is exact."
        )
    mean = number_list(given.get("mean", 0.0), size, f"{where}, mean", one=True)
    return GaussianPrior.of(mean, std_entry(given["std"], size, f"{where}, std"))


def std_entry(value: object, size: int, where: str) -> Array:
    """(size,) standard deviations, from one number or `size` of them."""
    return deviations(number_list(value, size, where, one=True), size, where)
