"""Writing the actuator file of a robot (drives, friction, control), see `actuator_file`.

What theta holds, rotor inertia and friction, is always written in full, since it counts before the
robot's own file, which may say otherwise. Gears, gains, couplings, controller and acceleration
limits are written where they differ from the default. Numbers are written in full, so that they
come back to the last bit; values per joint go by its name, so that their order does not matter.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml

from bodysense.errors import ShapeError
from bodysense.files import write_atomically
from bodysense.robot.model import require_rotor_inertias
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_WIDTH = 96  # characters of a line
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[-./][A-Za-z0-9_]+)*")
_UNITS = {  # of what a key holds: its meaning, its unit for a turning joint and for a sliding one
    "drive_gain": ("at the joint per unit of drive signal", "N·m", "N"),
    "rotor_inertia": ("reflected to the joint", "kg·m²", "kg"),
    "acceleration_limit": ("", "rad/s²", "m/s²"),
    "Fv": ("viscous", "N·m·s/rad", "N·s/m"),
    "Fc": ("Coulomb", "N·m", "N"),
    "Fs": ("static level", "N·m", "N"),
    "Fo": ("offset", "N·m", "N"),
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
    _require_readable(robot)
    names = robot.joint_names
    drives, controller, limit = robot.actuators, robot.controller, robot.acceleration_limit
    lines = [
        f"# Drives, friction and control of {robot.name!r}, written by bodysense.",
        *_negative_coefficients(robot),
    ]
    if (drives.gear_ratio != 1.0).any():
        lines += _entry("gear_ratio", _each(drives.gear_ratio, names), "motor turns per joint turn")
    if (drives.drive_gain != 1.0).any():
        gain = _each(drives.drive_gain, names)
        lines += _entry("drive_gain", gain, _unit(robot, "drive_gain"))
    if names:
        rotor = _each(robot.theta[robot.layout.rotor], names)
        lines += _entry("rotor_inertia", rotor, _unit(robot, "rotor_inertia"))
    lines += _coupling(robot)
    lines += _friction(robot)
    if controller is not None:
        lines.append("controller:  # drive signal per rad, rad/s and rad·s; rate in Hz")
        lines += _entry("kp", _each(controller.kp, names), depth=1)
        lines += _entry("kd", _each(controller.kd, names), depth=1)
        if controller.ki.any():
            lines += _entry("ki", _each(controller.ki, names), depth=1)
        lines += _entry("rate", _number(controller.rate), depth=1)
    if np.isfinite(limit).any():
        unit = _unit(robot, "acceleration_limit")
        lines += _entry("acceleration_limit", _each(limit, names), unit)
    return "\n".join(lines) + "\n"


def _require_readable(robot: Robot) -> None:
    where = f"the actuator file of robot {robot.name!r} cannot be written"
    require_rotor_inertias(robot, where)
    for name, value in zip(robot.joint_names, robot.acceleration_limit, strict=True):
        if value <= 0.0:
            raise ShapeError(
                f"{where}: the acceleration limit of joint {name!r} is {value:g}; give a positive "
                "number, or inf if it is unknown."
            )


def _negative_coefficients(robot: Robot) -> list[str]:
    """Comments on coefficients that no physical drive has; those of own laws may be negative."""
    layout = robot.layout
    suspects = [(term, j) for term in ("Fv", "Fc", "Fs") for j in range(robot.n_joints)]
    bad = [
        f"{term} of {robot.joint_names[j]!r}"
        for term, j in suspects
        if robot.friction.model.custom is None
        and term in layout.friction_terms
        and robot.theta[layout.friction(term)][j] < 0.0
    ]
    bad += [
        f"{prefix} of {robot.joint_names[motor]!r}"
        for (prefix, motor), value in zip(layout.coupled, robot.theta[layout.coupling], strict=True)
        if value < 0.0
    ]
    if not bad:
        return []
    text = f"Negative, which is not physical: {', '.join(bad)}. A consistent method (pc-wls) helps."
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ")


def _coupling(robot: Robot) -> list[str]:
    drives, names = robot.actuators, robot.joint_names
    if np.array_equal(drives.coupling, np.eye(drives.n_joints)):
        return []
    lines = ["coupling:  # motors that move more than one joint, in reduced coordinates"]
    for motor, joint in np.argwhere(drives.coupling):
        if motor != joint:
            ratio = _number(drives.coupling[motor, joint])
            entry = f"motor: {_text(names[motor])}, joint: {_text(names[joint])}, ratio: {ratio}"
            lines.append(f"  - {{{entry}}}")
    if not drives.coupled_terms:
        return [*lines, "coupled_terms: []"]
    lines.append("coupled_terms:")
    motors = [names[k] for k in drives.coupled_motors]
    for term in drives.coupled_terms:
        values = _each(robot.theta[robot.layout.places(term)], motors)
        lines += _entry(term, values, _unit(robot, term), depth=1)
    return lines


def _friction(robot: Robot) -> list[str]:
    model, names = robot.friction.model, robot.joint_names
    own = model.custom is not None
    lines = ["friction:"]
    if own:
        lines.append("  # a law of your own: register_friction_model before this file is read")
    lines.append(f"  model: {_text(model.name)}")
    if model.terms and names:
        lines.append("  coefficients:")
        for term in model.terms:
            values = _each(robot.theta[robot.layout.friction(term)], names)
            lines += _entry(term, values, "" if own else _unit(robot, term), depth=2)
    if model.shape and names:
        lines.append("  shape:")
        for k, key in enumerate(model.shape):
            values = _each(robot.friction.shape[:, k], names)
            lines += _entry(key, values, "" if own else _unit(robot, key), depth=2)
    return lines


def _unit(robot: Robot, key: str) -> str:
    """What a key holds, with the unit that the robot's kinds of joints give it."""
    if key not in _UNITS:
        return ""
    meaning, turning, sliding = _UNITS[key]
    kinds = set(robot.joint_types)
    unit = sliding if kinds == {"prismatic"} else turning
    unit += f" ({sliding} where a joint slides)" if len(kinds) == 2 else ""
    return f"{meaning}, {unit}" if meaning else unit


def _each(values: Array, names: Sequence[str]) -> list[str] | str:
    """One number where all are the same, otherwise items of a mapping without infinite ones."""
    if np.isfinite(values[0]) and len({_number(value) for value in values}) == 1:
        return _number(values[0])
    return [
        f"{_text(name)}: {_number(value)}"
        for name, value in zip(names, values, strict=True)
        if np.isfinite(value)
    ]


def _entry(key: str, value: list[str] | str, unit: str = "", depth: int = 0) -> list[str]:
    """A key with a number, or with a mapping that is broken into lines of `_WIDTH`."""
    indent, comment = "  " * depth, f"  # {unit}" if unit else ""
    start = f"{indent}{_text(key)}:"
    if isinstance(value, str):
        return [f"{start} {value}{comment}"]
    whole = f"{start} {{{', '.join(value)}}}"
    if len(whole) + len(comment) <= _WIDTH:
        return [whole + comment]
    lines = [f"{start}{comment}"]
    row = f"{indent}  {{"
    for k, item in enumerate(value):
        piece = item + ("}" if k + 1 == len(value) else ",")
        if len(row) + len(piece) + 1 > _WIDTH and row.strip(" {"):
            lines.append(row)
            row = f"{indent}   "
        row += piece if row.endswith(("{", "   ")) else f" {piece}"
    return [*lines, row]


def _text(name: str) -> str:
    """A name as YAML reads it back: in quotes where it would mean something else."""
    if _PLAIN_NAME.fullmatch(name) and yaml.safe_load(name) == name:
        return name
    quoted: str = yaml.safe_dump(name, default_style='"', allow_unicode=True, width=2**30)
    return quoted.rstrip("\n")


def _number(value: float) -> str:
    """A number in full; with a point, without which YAML takes 1e-05 for a word."""
    text = repr(float(value))
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
