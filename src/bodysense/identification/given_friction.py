"""The friction law that is given: in the robot's files, or by its name."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import unknown_name
from bodysense.identification.friction_fit import require_stribeck
from bodysense.logs.filtering import STILL_SPEED, slowest_motion
from bodysense.robot.checks.joints import unmeasured_friction
from bodysense.robot.friction import friction_models
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

WIDTH = 0.02
"""rad/s: over which friction reverses, by default. Measured on a UR10e and a TX40: sharper and the
noise of the velocity decides its sign, wider and reversals are no longer fitted."""

_STRIBECK_SPEED = 0.1  # rad/s: where the Stribeck curve has come down, by default
RICHEST = "stribeck-offset"
"""Contains all laws that are compared."""

FRICTION_CHOICES = ("auto", "own", "choose")
"""Ways to choose a law, where a law could be named."""


def without_friction(robot: Robot) -> Robot:
    """The robot with all coefficients of its friction law zero."""
    zero = dict.fromkeys(robot.layout.friction_terms, 0.0)
    return robot.with_friction(robot.friction.model, coefficients=zero)


def with_richest(robot: Robot) -> Robot:
    """The robot with the law that contains all that are compared, of the usual shape."""
    return robot.with_friction(RICHEST, width=WIDTH, vs=_STRIBECK_SPEED)


def with_law(robot: Robot, law: str) -> Robot:
    """The robot with another friction law, smooth where its own is sharp.

    Raises:
        UnknownNameError: neither a law nor a way to choose one.
    """
    laws = friction_models()
    if law not in laws:
        raise unknown_name("friction", law, (*FRICTION_CHOICES, *laws))
    own = dict(zip(robot.friction.model.shape, robot.friction.shape.T, strict=True))
    shape: dict[str, ArrayLike] = {}
    if "width" in laws[law].shape and not np.any(own.get("width", 0.0)):
        shape["width"] = WIDTH
    if "vs" in laws[law].shape and "vs" not in own:
        shape["vs"] = _STRIBECK_SPEED
    return robot.with_friction(law, coefficients=None, **shape)


def with_widths_for(robot: Robot, given: Robot, v: Array) -> Robot:
    """The robot with sharper reversals of the joints that velocities v (n_t, n) show to be slow.

    What moves counts from a share of its r.m.s. speed on, and must not be what reverses. Widths of
    the given robot stay.
    """
    shape = robot.friction.model.shape
    own = dict(zip(given.friction.model.shape, given.friction.shape.T, strict=True))
    if "width" not in shape or np.any(own.get("width", 0.0)):
        return robot
    width = robot.friction.shape[:, shape.index("width")]
    suited = np.minimum(width, slowest_motion(v, STILL_SPEED))
    if np.array_equal(suited, width):
        return robot
    return robot.with_friction(robot.friction.model, coefficients=None, width=suited)


def parsed_friction(robot: Robot, name: str) -> tuple[str | None, bool, bool]:
    """The law that is named, whether the data choose one, and whether its shape is fitted."""
    wanted = name.removesuffix(":fit")
    if wanted != name and wanted in ("auto", "choose"):  # which fit where it is worth it
        raise unknown_name("friction", name, (*FRICTION_CHOICES, "own:fit", "stribeck:fit"))
    choose = wanted == "choose" or (wanted == "auto" and bool(unmeasured_friction(robot)))
    return None if wanted in FRICTION_CHOICES else wanted, choose, wanted != name


def start_friction(robot: Robot, name: str) -> Robot:
    """The robot with the law that its regression is built for.

    The name is ``auto``, ``own``, ``choose`` or a law, the latter and ``own`` also with ``:fit``.

    Raises:
        UnknownNameError: no such law, or a choice that cannot be fitted.
        MismatchError: a law without a Stribeck curve that could be fitted.
    """
    law, choose, fit = parsed_friction(robot, name)
    if choose:
        return with_richest(without_friction(robot) if unmeasured_friction(robot) else robot)
    robot = robot if law is None else with_law(robot, law)
    if fit:
        require_stribeck(robot)
    return robot
