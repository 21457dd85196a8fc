"""One way in: a robot from a name or a file of any format that bodysense reads.

| source               | is                                                      |
|----------------------|---------------------------------------------------------|
| ``tx40``, …          | a built-in robot                                        |
| ``example:NAME``     | a robot of the package example-robot-data               |
| ``PATH.urdf``        | a URDF file                                             |
| ``PATH.xml, .mjcf``  | an MJCF file, or a URDF file: its root element decides  |
| ``PATH.yaml, .yml``  | a DH table                                              |

The readers are imported when they are needed, so that a missing optional package matters only to
those who use it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from bodysense.errors import MissingDependencyError, RobotFileError, UnknownNameError, unknown_name
from bodysense.files import read_robot_file
from bodysense.robot.robot import Robot

_EXAMPLE_PREFIX = "example:"
_SUFFIXES = (".urdf", ".xml", ".mjcf", ".yaml", ".yml")
_ROOT = re.compile(rb"<\s*([A-Za-z_][\w:.-]*)")
_NOT_ELEMENTS = re.compile(rb"<!--.*?-->|<\?.*?\?>|<![^>]*>", re.DOTALL)


def load_robot(
    source: str | os.PathLike[str],
    *,
    floating_base: bool | None = None,
    friction: str | None = None,
    actuators: str | os.PathLike[str] | None = None,
    allow_inconsistent: bool = False,
) -> Robot:
    """Load a robot by name or from a file.

    Args:
        source: see the table of this module, e.g. ``"tx40"``, ``"example:talos"``, ``"arm.urdf"``.
        floating_base: whether the root link moves freely; by default what the source says, and
            fixed where it says nothing.
        friction: name of the friction law; by default the source's own, or "coulomb".
        actuators: an actuator file with gears, friction and control; it counts before the source.
        allow_inconsistent: accept links with infeasible inertia.

    Raises:
        UnknownNameError: there is no such robot; the message lists what there is.
        RobotFileError: the file cannot be read or understood.
        InconsistentInertiaError: a link has infeasible inertia, unless allowed.
        MissingDependencyError: the format needs a package that is not installed.
    """
    text = os.fspath(source)
    options: dict[str, Any] = {"friction": friction, "allow_inconsistent": allow_inconsistent}
    if text.startswith(_EXAMPLE_PREFIX):
        from bodysense.robot.io.example_robots import load_example_robot

        name = text.removeprefix(_EXAMPLE_PREFIX)
        return load_example_robot(name, floating_base=floating_base, actuators=actuators, **options)
    kind = _kind(text)
    if kind == "urdf":
        from bodysense.robot.io.urdf import load_urdf

        return load_urdf(text, floating_base=floating_base, actuators=actuators, **options)
    robot = _load_other(kind, text, floating_base, options)
    if actuators is None:
        return robot
    from bodysense.robot.io.actuator_file import with_actuator_file

    return with_actuator_file(robot, actuators, friction=friction)


def _load_other(kind: str, text: str, floating_base: bool | None, options: dict[str, Any]) -> Robot:
    if kind == "mjcf":
        from bodysense.robot.io.mjcf import load_mjcf

        friction = options["friction"] or "coulomb"
        return load_mjcf(text, floating_base=floating_base, **{**options, "friction": friction})
    if floating_base:
        raise RobotFileError(
            f"{text} is a DH table, which describes a chain on a fixed base: use a URDF or MJCF "
            "file for a floating one."
        )
    if kind == "dh":
        from bodysense.robot.io.dh import load_dh

        return load_dh(text, **options)
    from bodysense.robot.builtin import load_builtin

    return load_builtin(text, friction=options["friction"])


def _kind(text: str) -> str:
    """Say what a source is: "builtin", "urdf", "mjcf" or "dh"."""
    from bodysense.robot.builtin import builtin_names

    suffix = Path(text).suffix.lower()
    if text in builtin_names():
        return "builtin"
    if suffix in (".yaml", ".yml"):
        return "dh"
    if suffix in _SUFFIXES or (text and Path(text).exists()):
        return _root_kind(text)
    looks_like_path = os.sep in text or "/" in text or suffix != ""
    if looks_like_path:
        raise RobotFileError(
            f"there is no robot file {text!r}: check the path; files end in {', '.join(_SUFFIXES)}."
        )
    files = f"the path of a file that ends in {', '.join(_SUFFIXES)}."
    examples = _example_sources()
    if _EXAMPLE_PREFIX + text in examples:
        raise UnknownNameError(
            f"unknown robot {text!r}: did you mean {_EXAMPLE_PREFIX + text!r}? Give that, or a "
            f"built-in one ({', '.join(builtin_names())}), or {files}"
        )
    raise unknown_name("robot", text, (*builtin_names(), *examples), f"Or give {files}")


def _root_kind(path: str) -> str:
    ascii_text = read_robot_file(path).replace(b"\x00", b"")  # UTF-16 puts them between letters
    result = _ROOT.search(_NOT_ELEMENTS.sub(b"", ascii_text))
    root = result.group(1).decode("ascii", "replace") if result else ""
    # The reader itself explains best what is wrong with a broken file.
    if root == "mujoco":
        return "mjcf"
    if root == "robot" or Path(path).suffix.lower() == ".urdf":
        return "urdf"
    if Path(path).suffix.lower() == ".mjcf":
        return "mjcf"
    raise RobotFileError(
        f"{path} is not a robot description: its root element is "
        f"{f'<{root}>' if root else 'missing'}, expected <robot> (URDF) or <mujoco> (MJCF)."
    )


def _example_sources() -> tuple[str, ...]:
    from bodysense.robot.io.example_robots import example_robot_names

    try:
        return tuple(f"{_EXAMPLE_PREFIX}{name}" for name in example_robot_names())
    except MissingDependencyError:
        return ()
