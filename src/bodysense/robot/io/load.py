"""One way in: a robot from a name or a file of any format that bodysense reads.

| source               | is                                                      |
|----------------------|---------------------------------------------------------|
| ``tx40``, …          | a built-in robot                                        |
| ``example:NAME``     | a robot of the package example-robot-data               |
| ``PATH.urdf``        | a URDF file                                             |
| ``PATH.xml, .mjcf``  | an MJCF file, or a URDF file: its root element decides  |
| ``PATH.yaml, .yml``  | a DH table                                              |

Built-in robots are published models to learn on, test with and compare against. Those of
example-robot-data go by the names that its own loaders use; every other file of the package can be
had by the stem of its name, or by its whole name where another robot has that stem ("ur3.urdf").
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

from bodysense.errors import (
    MissingDependencyError,
    RobotFileError,
    UnknownNameError,
    require_type,
    unknown_name,
)
from bodysense.files import read_robot_file
from bodysense.robot.checks.parameters import loading_notes
from bodysense.robot.io.actuator_file import with_actuator_file
from bodysense.robot.io.dh import load_dh
from bodysense.robot.io.mjcf import load_mjcf
from bodysense.robot.io.urdf import load_urdf
from bodysense.robot.robot import Robot

_EXAMPLE_PREFIX = "example:"
_SUFFIXES = (".urdf", ".xml", ".mjcf", ".yaml", ".yml")
_BUILTIN = Path(__file__).parents[1] / "builtin"
_ROOT = re.compile(rb"<\s*([A-Za-z_][\w:.-]*)")
_NOT_ELEMENTS = re.compile(rb"<!--.*?-->|<\?.*?\?>|<![^>]*>", re.DOTALL)


def load_robot(
    source: str | os.PathLike[str],
    *,
    floating_base: bool | None = None,
    friction: str | None = None,
    actuators: str | os.PathLike[str] | None = None,
    allow_inconsistent: bool = True,
) -> Robot:
    """Load a robot by name or from a file.

    Args:
        source: see the table of this module, e.g. ``"tx40"``, ``"example:talos"``, ``"arm.urdf"``.
        floating_base: whether the root link moves freely; by default what the source says, and
            fixed where it says nothing. Example robots that walk or fly float.
        friction: name of the friction law; by default the source's own, or "coulomb".
        actuators: an actuator file with gears, friction and control; it counts before the source.
        allow_inconsistent: accept links with infeasible inertia, which `Robot.notes` then name.

    Raises:
        UnknownNameError: there is no such robot; the message lists what there is.
        RobotFileError: the file cannot be read or understood.
        InconsistentInertiaError: a mass is negative, or a link has infeasible inertia and that
            is not allowed.
        MissingDependencyError: the format needs a package that is not installed.
    """
    require_type(source, (str, os.PathLike), "a name or a path", "a Robot needs no loading")
    robot = _loaded(os.fspath(source), floating_base, friction, actuators, allow_inconsistent)
    return replace(robot, notes=(*robot.notes, *loading_notes(robot)))


def _loaded(
    source: str,
    floating_base: bool | None,
    friction: str | None,
    actuators: str | os.PathLike[str] | None,
    allow_inconsistent: bool,
) -> Robot:
    path: str | Path = source
    kind = _kind(source)
    if kind == "example":
        path, floats = _example(source.removeprefix(_EXAMPLE_PREFIX))
        floating_base, kind = floats if floating_base is None else floating_base, "urdf"
    if kind == "urdf":
        return load_urdf(
            path,
            floating_base=floating_base,
            friction=friction,
            actuators=actuators,
            allow_inconsistent=allow_inconsistent,
        )
    if kind == "mjcf":
        robot = load_mjcf(
            path,
            floating_base=floating_base,
            friction=friction,
            allow_inconsistent=allow_inconsistent,
        )
    else:
        if floating_base:
            raise RobotFileError(
                f"{path} is a DH table, which describes a chain on a fixed base: use a URDF or "
                "MJCF file for a floating one."
            )
        law = friction
        if kind == "builtin":
            path, law = _BUILTIN / f"{path}.yaml", friction or "coulomb"
        robot = load_dh(path, friction=law, allow_inconsistent=allow_inconsistent)
    if actuators is None:
        return robot
    return with_actuator_file(robot, actuators, friction=friction)


def builtin_names() -> tuple[str, ...]:
    """Names of the built-in robots, sorted."""
    return tuple(sorted(path.stem for path in _BUILTIN.glob("*.yaml")))


def example_robot_names() -> tuple[str, ...]:
    """Names of all robots of example-robot-data, sorted; `load_robot` takes ``example:NAME``.

    Raises:
        MissingDependencyError: the package is not installed.
    """
    return tuple(_catalogue())


def _kind(text: str) -> str:
    """Say what a source is: "builtin", "example", "urdf", "mjcf" or "dh"."""
    suffix = Path(text).suffix.lower()
    if text in builtin_names():
        return "builtin"
    if text.startswith(_EXAMPLE_PREFIX):
        return "example"
    if suffix in (".yaml", ".yml"):
        return "dh"
    if suffix in _SUFFIXES or (text and os.path.exists(text)):
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
    try:
        return tuple(f"{_EXAMPLE_PREFIX}{name}" for name in example_robot_names())
    except MissingDependencyError:
        return ()


# The package example-robot-data: what the names of its files do not say.

_PACKAGE = "example-robot-data"
_PATHS = {
    "alexander": "alexander_description/urdf/alexander_v1.lowerBodyOnly.urdf",
    "anymal": "anymal_b_simple_description/robots/anymal.urdf",
    "anymal_c": "anymal_c_simple_description/urdf/anymal.urdf",
    "anymal_kinova": "anymal_b_simple_description/robots/anymal-kinova.urdf",
    "asr_twodof": "asr_twodof_description/urdf/TwoDofs.urdf",
    "b1_z1": "b1_description/urdf/b1-z1.urdf",
    "borinot": "borinot_description/urdf/borinot_flying_arm_2.urdf",
    "g1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "g1_with_hands": "g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf",
    "hector": "hector_description/robots/quadrotor_base.urdf",
    "hextilt": "hextilt_description/urdf/hextilt_flying_arm_5.urdf",
    "hyq": "hyq_description/robots/hyq_no_sensors.urdf",
    "iris": "iris_description/robots/iris_simple.urdf",
    "solo8": "solo_description/robots/solo.urdf",
    "talos": "talos_data/robots/talos_reduced.urdf",
    "talos_arm": "talos_data/robots/talos_left_arm.urdf",
    "talos_box": "talos_data/robots/talos_reduced_box.urdf",
    "talos_full": "talos_data/robots/talos_full_v2.urdf",
    "talos_full_box": "talos_data/robots/talos_full_v2_box.urdf",
    "ur3": "ur_description/urdf/ur3_robot.urdf",
    "ur3_limited": "ur_description/urdf/ur3_joint_limited_robot.urdf",
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "ur5_limited": "ur_description/urdf/ur5_joint_limited_robot.urdf",
    "ur10": "ur_description/urdf/ur10_robot.urdf",
    "ur10_limited": "ur_description/urdf/ur10_joint_limited_robot.urdf",
}
# Folders of robots that walk or fly, but for one arm in them.
_FLOATING_FOLDERS = (
    *("a1_description", "alexander_description", "anymal_b_simple_description"),
    *("anymal_c_simple_description", "b1_description", "bluevolta_description"),
    *("bolt_description", "borinot_description", "cassie_description", "centauro_description"),
    *("falcon_description", "g1_description", "go1_description", "go2_description"),
    *("hector_description", "hextilt_description", "human_description", "hyq_description"),
    *("icub_description", "iris_description", "laikago_description", "quadruped_description"),
    *("romeo_description", "simple_humanoid_description", "solo_description", "talos_data"),
)
_FIXED_NAME = "talos_arm"


def _example(name: str) -> tuple[Path, bool]:
    """The file of an example robot, and whether the robot in it floats."""
    robots = _catalogue()
    if name not in robots:
        raise unknown_name("example robot", name, robots)
    path, _ = robots[name]
    if path.suffix == ".sdf":
        raise RobotFileError(
            f"the example robot {name!r} is an SDF file with closed loops ({path.name}); "
            "bodysense reads URDF and MJCF trees: convert the file, cutting its loops open."
        )
    return robots[name]


@cache
def _catalogue() -> dict[str, tuple[Path, bool]]:
    """By name the file, and whether the robot floats; what this version lacks is left out."""
    files = _robot_files()
    below = {name: path for name, path in _PATHS.items() if path in files}
    for path in files:
        if path not in _PATHS.values():
            name = Path(path).name if Path(path).stem in below else Path(path).stem
            below[name] = path
    return {
        name: (files[path], path.split("/")[0] in _FLOATING_FOLDERS and name != _FIXED_NAME)
        for name, path in sorted(below.items())
    }


def _robot_files() -> dict[str, Path]:
    """URDF and SDF files of the installed package, by path below its folder of robots."""
    try:
        listed = importlib.metadata.files(_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise MissingDependencyError(
            f"example robots need the package {_PACKAGE}, which is not installed: "
            'pip install "bodysense[robots]".'
        ) from None
    result = {}
    for entry in listed or ():
        if entry.suffix in (".urdf", ".sdf"):
            _, _, below = entry.as_posix().partition(f"share/{_PACKAGE}/robots/")
            if below:
                result[below] = Path(str(entry.locate()))
    return result
