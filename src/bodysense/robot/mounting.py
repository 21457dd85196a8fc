"""Which way gravity points: robots on walls, ceilings and tilted bases.

Gravity is given in the axes of the robot's root link (of the world, for a floating base):

    g_base = R_world_baseᵀ (0, 0, -9.81)        R_world_base = Rz(yaw) Ry(pitch) Rx(roll)

| mount   | roll, pitch, yaw | gravity         | the base                                    |
|---------|------------------|-----------------|---------------------------------------------|
| floor   | 0, 0, 0          | (0, 0, -9.81)   | stands upright; what URDF files assume      |
| wall    | 0, π/2, 0        | (9.81, 0, 0)    | its z axis is level, its x axis points down |
| ceiling | π, 0, 0          | (0, 0, 9.81)    | its z axis points down                      |

An arm on a wall whose x axis does not point down has other angles, or another gravity: with its y
axis down, gravity is (0, 9.81, 0). URDF files hold no gravity; the actuator file does (`gravity:`
or `mount:`), and MJCF.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, RobotFileError, ShapeError, unknown_name
from bodysense.robot.model import has_floating_base
from bodysense.robot.robot import Robot, require_robot
from bodysense.schema import number_list
from bodysense.spatial.arrays import Array, as_array

MOUNTS: Mapping[str, tuple[float, float, float]] = {
    "floor": (0.0, 0.0, 0.0),
    "wall": (0.0, 0.5 * math.pi, 0.0),
    "ceiling": (math.pi, 0.0, 0.0),
}
"""Roll, pitch and yaw of the base [rad] by the name of a mount."""

GRAVITY = 9.81  # m/s², of Pinocchio and of what URDF files assume
_LEAST_GRAVITY = 1.5
"""m/s²: less than on the Moon, 1.62; a unit vector stands for a direction and is no gravity."""
_MOST_GRAVITY = 30.0  # m/s²: more than on any planet that one can stand on


def gravity_of_mount(mount: str | ArrayLike, size: float = GRAVITY) -> Array:
    """Gravity (3,) in the base of a robot, by the name of its mount or roll, pitch and yaw [rad].

    Raises:
        UnknownNameError: no mount has this name.
    """
    if isinstance(mount, str) and mount not in MOUNTS:
        raise unknown_name("mount", mount, MOUNTS, "Or give roll, pitch and yaw.")
    rpy = as_array(MOUNTS[mount] if isinstance(mount, str) else mount, (3,), "mount")
    g: Array = pin.rpy.rpyToMatrix(*rpy).T @ np.array([0.0, 0.0, -size])
    g[np.abs(g) < 1e-12 * size] = 0.0  # cos(π/2) is no gravity
    return g


def with_gravity(
    robot: Robot, gravity: ArrayLike | None = None, *, mount: str | ArrayLike | None = None
) -> Robot:
    """Return the same robot under another gravity, or mounted in another way.

    Args:
        robot: locked joints included.
        gravity: (3,) in the axes of the root link [m/s²]; zero where nothing weighs.
        mount: instead of it, see `gravity_of_mount`; the size of gravity stays.

    Raises:
        ShapeError: a gravity that no place on a planet has.
        MismatchError: both or neither are given, or a robot that floats or weighs nothing
            is to be mounted.
    """
    require_robot(robot)
    if mount is None and gravity is not None:
        g = checked_gravity(as_array(gravity, (3,), "gravity"), "gravity")
    elif gravity is None and mount is not None:
        g = _mounted(robot.model, mount)
    else:
        raise MismatchError("give either gravity or mount, one of them.")
    return under_gravity(robot, g)


def _mounted(model: pin.Model, mount: str | ArrayLike) -> Array:
    """Gravity (3,) of a model that is mounted; its size stays."""
    if has_floating_base(model):
        raise MismatchError(
            f"{model.name!r} floats, so that it is not mounted: fix its root link, or give "
            "gravity, which is that of the world."
        )
    size = float(np.linalg.norm(model.gravity.linear))
    if size == 0.0:
        raise MismatchError(
            f"{model.name!r} is weightless, whichever way it is mounted: give gravity."
        )
    return gravity_of_mount(mount, size)


def under_gravity(robot: Robot, g: Array) -> Robot:
    """The same robot under any gravity (3,) [m/s²]: unit vectors of calculations, too."""
    model, locked = robot.model.copy(), robot.locked
    model.gravity.linear = g
    if locked is not None:
        locked = replace(locked, whole=under_gravity(locked.whole, g))
    return replace(robot, model=model, locked=locked)


def checked_gravity(g: Array, where: str) -> Array:
    """The gravity (3,), if it is one.

    Raises:
        ShapeError: it is none in m/s².
    """
    if not is_of_a_planet(g):
        size = float(np.linalg.norm(g))
        raise ShapeError(f"{where}: its size is {size:.4g}; give it in m/s², e.g. 9.81, 0, 0.")
    return g


def is_of_a_planet(g: Array) -> bool:
    """Whether gravity (3,) is zero or of a size that a place on a planet or a moon has."""
    size = float(np.linalg.norm(g))
    return size == 0.0 or _LEAST_GRAVITY <= size <= _MOST_GRAVITY


def in_actuator_file(robot: Robot) -> bool:
    """Whether its actuator file holds gravity: that of a robot whose URDF file stays as it is."""
    return _from_urdf(robot) and bool((robot.model.gravity.linear != [0.0, 0.0, -GRAVITY]).any())


def _from_urdf(robot: Robot) -> bool:
    return robot.source is not None and robot.source.format == "urdf"


def gravity_notes(robot: Robot) -> tuple[str, ...]:
    """What becomes of gravity that is not along -z where a URDF file is written, in words."""
    g = robot.model.gravity.linear
    if not in_actuator_file(robot):
        turned = bool(g[:2].any() or g[2] > 0.0) and not _from_urdf(robot)
        text = "URDF holds no gravity, so the base is turned instead: load it without --mount"
        return (f"{text} and --gravity",) if turned else ()
    down = ",".join(f"{x:.6g}" for x in g)
    return (f"URDF holds no gravity; it is {down} m/s² in the actuator file, or with --gravity",)


def gravity_in_file(table: Mapping[str, object], where: str, model: pin.Model) -> Array:
    """Gravity (3,) that the keys `gravity` or `mount` of an actuator file state, or the model's.

    Raises:
        RobotFileError: both keys, values that are no gravity or angles, or a mount of a robot that
            floats or weighs nothing.
        UnknownNameError: an unknown mount.
    """
    if "gravity" in table and "mount" in table:
        raise RobotFileError(f"{where}: gravity and mount exclude each other; keep one.")
    try:
        if "gravity" in table:
            place = f"{where}, gravity"
            return checked_gravity(number_list(table["gravity"], 3, place), place)
        if "mount" in table:
            given = table["mount"]
            angles = given if isinstance(given, str) else number_list(given, 3, f"{where}, mount")
            return _mounted(model, angles)
    except (ShapeError, MismatchError) as error:
        raise RobotFileError(f"{where}: {error}" if "mount" in table else str(error)) from error
    return np.array(model.gravity.linear)
