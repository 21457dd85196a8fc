"""Writing the actuator file of a robot (drives, friction, control), see `actuator_file`.

What theta holds, rotor inertia and friction, is always written in full, since it counts before the
robot's own file, which may say otherwise. Gears, gains, couplings, controller and acceleration
limits are written where they differ from the default. Numbers are written in full, so that they
come back to the last bit; values per joint go by its name, so that their order does not matter.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml

from bodysense.errors import ShapeError
from bodysense.files import write_atomically
from bodysense.robot.model import require_rotor_inertias
from bodysense.robot.mounting import in_actuator_file
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array

_WIDTH = 96  # characters of a line
_ITEM = 24  # of them for the last item, which PyYAML does not count
_UNITS = {  # of what a key holds: its meaning, its unit for a turning joint and for a sliding one
    "drive_gain": ("at the joint per unit of drive signal", "N·m", "N"),
    "rotor_inertia": ("reflected to the joint", "kg·m²", "kg"),
    "acceleration_limit": ("", "rad/s²", "m/s²"),
    "Fv": ("viscous", "N·m·s/rad", "N·s/m"),
    "Fc": ("Coulomb", "N·m", "N"),
    "Fs": ("static level", "N·m", "N"),
    "Fo": ("offset", "N·m", "N"),
    "Fl": ("friction per load", "1", "1"),
    "Iam": ("inertia", "kg·m²", "kg"),
    "Fvm": ("viscous", "N·m·s/rad", "N·s/m"),
    "Fcm": ("Coulomb", "N·m", "N"),
    "width": ("smoothing of the sign", "rad/s", "m/s"),
    "vs": ("Stribeck velocity", "rad/s", "m/s"),
    "sigma0": ("stiffness of the bristles", "N·m/rad", "N/m"),
    "sigma1": ("damping of the bristles", "N·m·s/rad", "N·s/m"),
}


def write_actuators(robot: Robot, path: str | os.PathLike[str]) -> Path:
    """Write the robot's actuator file; see `actuator_text`.

    The file is replaced in one step: a failure leaves the old one untouched.
    """
    return write_atomically(path, actuator_text(robot))


def actuator_text(robot: Robot) -> str:
    """Return the actuator file of a robot: ``load_robot(urdf, actuators=file)`` reads it back.

    A friction law of your own is written by name: register it before the file is read. Negative
    friction is written as it is, with a comment; a negative rotor inertia is refused.

    Raises:
        InconsistentInertiaError: a rotor inertia is negative.
        ShapeError: an acceleration limit is not positive.
    """
    require_robot(robot)
    robot = robot.unlocked()
    _require_readable(robot)
    drives, names, limit = robot.actuators, robot.joint_names, robot.acceleration_limit
    text = f"# Drives, friction and control of {robot.name!r}, written by bodysense.\n"
    text += _negative_coefficients(robot)
    if (drives.gear_ratio != 1.0).any():
        text += _entry("gear_ratio", _each(drives.gear_ratio, names), "motor turns per joint turn")
    if (drives.drive_gain != 1.0).any():
        text += _entry("drive_gain", _each(drives.drive_gain, names), _meaning(robot, "drive_gain"))
    if names:
        rotor = _each(robot.theta[robot.layout.rotor], names)
        text += _entry("rotor_inertia", rotor, _meaning(robot, "rotor_inertia"))
    text += _coupling(robot) + _friction(robot) + _controller(robot)
    text += _gravity(robot)
    if np.isfinite(limit).any():
        unit = _meaning(robot, "acceleration_limit")
        text += _entry("acceleration_limit", _each(limit, names), unit)
    return text


def _require_readable(robot: Robot) -> None:
    where = f"the actuator file of robot {robot.name!r} cannot be written"
    require_rotor_inertias(robot, where)
    for name, value in zip(robot.joint_names, robot.acceleration_limit, strict=True):
        if value <= 0.0:
            raise ShapeError(
                f"{where}: the acceleration limit of joint {name!r} is {value:g}; give a positive "
                "number, or inf if it is unknown."
            )


def _negative_coefficients(robot: Robot) -> str:
    """A comment on coefficients that no physical drive has; those of own laws may be negative."""
    layout = robot.layout
    bad = [
        f"{term} of {robot.joint_names[j]!r}"
        for term in robot.friction.model.dissipative_terms
        for j in np.flatnonzero(robot.theta[layout.friction(term)] < 0.0)
    ]
    bad += [
        f"{prefix} of {robot.joint_names[motor]!r}"
        for (prefix, motor), value in zip(layout.coupled, robot.theta[layout.coupling], strict=True)
        if value < 0.0
    ]
    if not bad:
        return ""
    text = f"Negative, which is not physical: {', '.join(bad)}. A consistent method (pc-wls) helps."
    return textwrap.fill(text, _WIDTH, initial_indent="# ", subsequent_indent="# ") + "\n"


def _gravity(robot: Robot) -> str:
    """Gravity, where the URDF file of the robot, which cannot hold it, stays as it is."""
    if not in_actuator_file(robot):
        return ""
    g = robot.model.gravity.linear.tolist()
    return _entry("gravity", g, "in the axes of the root link, m/s²")


def _coupling(robot: Robot) -> str:
    drives, names = robot.actuators, robot.joint_names
    if not drives.coupled_motors:
        return ""
    entries = [
        {"motor": names[motor], "joint": names[joint], "ratio": float(ratio)}
        for (motor, joint), ratio in np.ndenumerate(drives.coupling)
        if motor != joint and ratio != 0.0
    ]
    comment = "motors that move more than one joint, in reduced coordinates"
    text = _entry("coupling", entries, comment)
    if not drives.coupled_terms:
        return text + _entry("coupled_terms", [])
    motors = [names[k] for k in drives.coupled_motors]
    text += "coupled_terms:\n"
    for term in drives.coupled_terms:
        values = _each(robot.theta[robot.layout.places(term)], motors)
        text += _entry(term, values, _meaning(robot, term), depth=1)
    return text


def _friction(robot: Robot) -> str:
    model, names = robot.friction.model, robot.joint_names
    text = "friction:\n"
    if model.custom is not None:
        text += "  # a law of your own: register_friction_model before this file is read\n"
    text += _entry("model", model.name, depth=1)
    coefficients = {term: robot.theta[robot.layout.friction(term)] for term in model.terms}
    shape = dict(zip(model.shape, robot.friction.shape.T, strict=True))
    for title, columns in (("coefficients", coefficients), ("shape", shape)):
        if columns and names:
            text += f"  {title}:\n"
        for key, values in columns.items():
            meaning = "" if model.custom is not None else _meaning(robot, key)
            text += _entry(key, _each(values, names), meaning, depth=2) if names else ""
    return text


def _controller(robot: Robot) -> str:
    if robot.controller is None:
        return ""
    text = "controller:  # drive signal per rad, rad/s and rad·s; rate in Hz\n"
    for key in ("kp", "kd", "ki"):
        gains = getattr(robot.controller, key)
        if key != "ki" or gains.any():
            text += _entry(key, _each(gains, robot.joint_names), depth=1)
    return text + _entry("rate", robot.controller.rate, depth=1)


def _meaning(robot: Robot, key: str) -> str:
    """What a key holds, with the unit that the robot's kinds of joints give it."""
    if key not in _UNITS:
        return ""
    meaning, turning, sliding = _UNITS[key]
    kinds = set(robot.joint_types)
    unit = sliding if kinds == {"prismatic"} else turning
    unit += f" ({sliding} where a joint slides)" if len(kinds) == 2 else ""
    return f"{meaning}, {unit}" if meaning else unit


def _each(values: Array, names: Sequence[str]) -> float | dict[str, float]:
    """One number where all are the same, otherwise by name without infinite ones."""
    numbers = values.tolist()
    if np.isfinite(values[0]) and len(set(map(repr, numbers))) == 1:
        return float(values[0])
    return {name: value for name, value in zip(names, numbers, strict=True) if np.isfinite(value)}


def _entry(key: str, value: object, comment: str = "", depth: int = 0) -> str:
    """Lines of a key and its value, the comment behind them or, if they are long, before."""
    dumped = yaml.dump(
        {key: value},
        Dumper=_Dumper,
        default_flow_style=None if isinstance(value, dict | list) else False,
        sort_keys=False,
        allow_unicode=True,
        width=_WIDTH - _ITEM - 2 * depth,
    )
    text = textwrap.indent(dumped, "  " * depth)
    if not comment:
        return text
    if text.count("\n") == 1 and len(text) + len(comment) + 3 <= _WIDTH:
        return f"{text[:-1]}  # {comment}\n"
    return f"{'  ' * depth}# {comment}\n{text}"


class _Dumper(yaml.SafeDumper):
    """Plain data; PyYAML itself does not read back what it writes of some line ends in names."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        style = None if text.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _Dumper.represent_text)
