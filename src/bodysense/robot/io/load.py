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

import importlib.metadata
import os
import re
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from bodysense.errors import MissingDependencyError, RobotFileError, UnknownNameError, unknown_name
from bodysense.files import read_robot_file
from bodysense.robot.io.urdf import load_urdf
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

    try:
        return tuple(f"{_EXAMPLE_PREFIX}{name}" for name in example_robot_names())
    except MissingDependencyError:
        return ()


# Robots of the package `example-robot-data`, by name.
#
# The names are those that its own loaders use; every other file of the package can be had by the
# stem of its name, or by its whole name where another robot has that stem ("ur3.urdf"). Robots that
# walk or fly get a floating base.

_PACKAGE = "example-robot-data"

_FIXED = {
    "alex_nub_hands": "alex_description/urdf/alex_nub_hands.urdf",
    "alex_psyonic_hands": "alex_description/urdf/alex_psyonic_hands.urdf",
    "alex_sake_hands": "alex_description/urdf/alex_sake_hands.urdf",
    "allegro_left_hand": "allegro_hand_description/urdf/allegro_left_hand.urdf",
    "allegro_right_hand": "allegro_hand_description/urdf/allegro_right_hand.urdf",
    "asr_twodof": "asr_twodof_description/urdf/TwoDofs.urdf",
    "baxter": "baxter_description/urdf/baxter.urdf",
    "bravo7_gripper": "bravo7_description/urdf/bravo7_gripper.urdf",
    "bravo7_no_ee": "bravo7_description/urdf/bravo7_no_ee.urdf",
    "double_pendulum": "double_pendulum_description/urdf/double_pendulum.urdf",
    "double_pendulum_continuous": (
        "double_pendulum_description/urdf/double_pendulum_continuous.urdf"
    ),
    "double_pendulum_simple": "double_pendulum_description/urdf/double_pendulum_simple.urdf",
    "finger_edu": "finger_edu_description/robots/finger_edu.urdf",
    "kinova": "kinova_description/robots/kinova.urdf",
    "panda": "panda_description/urdf/panda.urdf",
    "panda_collision": "panda_description/urdf/panda_collision.urdf",
    "pr2": "pr2_description/urdf/pr2.urdf",
    "so100": "so_arm_description/urdf/so100.urdf",
    "so101": "so_arm_description/urdf/so101.urdf",
    "talos_arm": "talos_data/robots/talos_left_arm.urdf",
    "tiago": "tiago_description/robots/tiago.urdf",
    "tiago_dual": "tiago_description/robots/tiago_dual.urdf",
    "tiago_no_hand": "tiago_description/robots/tiago_no_hand.urdf",
    "tiago_pro": "tiago_pro_description/robots/tiago_pro.urdf",
    "ur3": "ur_description/urdf/ur3_robot.urdf",
    "ur3_gripper": "ur_description/urdf/ur3_gripper.urdf",
    "ur3_limited": "ur_description/urdf/ur3_joint_limited_robot.urdf",
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "ur5_gripper": "ur_description/urdf/ur5_gripper.urdf",
    "ur5_limited": "ur_description/urdf/ur5_joint_limited_robot.urdf",
    "ur10": "ur_description/urdf/ur10_robot.urdf",
    "ur10_limited": "ur_description/urdf/ur10_joint_limited_robot.urdf",
    "xarm7": "xarm_description/urdf/xarm7.urdf",
    "z1": "z1_description/urdf/z1.urdf",
}

_FLOATING = {
    "a1": "a1_description/urdf/a1.urdf",
    "alexander": "alexander_description/urdf/alexander_v1.lowerBodyOnly.urdf",
    "anymal": "anymal_b_simple_description/robots/anymal.urdf",
    "anymal_c": "anymal_c_simple_description/urdf/anymal.urdf",
    "anymal_kinova": "anymal_b_simple_description/robots/anymal-kinova.urdf",
    "b1": "b1_description/urdf/b1.urdf",
    "b1_z1": "b1_description/urdf/b1-z1.urdf",
    "bluevolta_bravo7_gripper": "bluevolta_description/urdf/bluevolta_bravo7_gripper.urdf",
    "bluevolta_bravo7_no_ee": "bluevolta_description/urdf/bluevolta_bravo7_no_ee.urdf",
    "bolt": "bolt_description/robots/bolt.urdf",
    "borinot": "borinot_description/urdf/borinot_flying_arm_2.urdf",
    "cassie": "cassie_description/robots/cassie.sdf",
    "centauro": "centauro_description/urdf/centauro.urdf",
    "falcon_bravo7_gripper": "falcon_description/urdf/falcon_bravo7_gripper.urdf",
    "falcon_bravo7_no_ee": "falcon_description/urdf/falcon_bravo7_no_ee.urdf",
    "g1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "g1_with_hands": "g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf",
    "go1": "go1_description/urdf/go1.urdf",
    "go2": "go2_description/urdf/go2.urdf",
    "hector": "hector_description/robots/quadrotor_base.urdf",
    "hextilt": "hextilt_description/urdf/hextilt_flying_arm_5.urdf",
    "human": "human_description/robots/human.urdf",
    "hyq": "hyq_description/robots/hyq_no_sensors.urdf",
    "icub": "icub_description/robots/icub.urdf",
    "icub_reduced": "icub_description/robots/icub_reduced.urdf",
    "iris": "iris_description/robots/iris_simple.urdf",
    "laikago": "laikago_description/urdf/laikago.urdf",
    "quadruped": "quadruped_description/urdf/quadruped.urdf",
    "romeo": "romeo_description/urdf/romeo.urdf",
    "simple_humanoid": "simple_humanoid_description/urdf/simple_humanoid.urdf",
    "simple_humanoid_classical": (
        "simple_humanoid_description/urdf/simple_humanoid_classical.urdf"
    ),
    "solo8": "solo_description/robots/solo.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
    "talos": "talos_data/robots/talos_reduced.urdf",
    "talos_box": "talos_data/robots/talos_reduced_box.urdf",
    "talos_full": "talos_data/robots/talos_full_v2.urdf",
    "talos_full_box": "talos_data/robots/talos_full_v2_box.urdf",
}

# Folders of robots that walk or fly, for the files that have no name of their own above.
_FLOATING_FOLDERS = frozenset(path.split("/")[0] for path in _FLOATING.values())


@dataclass(frozen=True)
class _ExampleRobot:
    """A file of the package, and whether the robot in it floats."""

    path: Path
    floating_base: bool


def example_robot_names() -> tuple[str, ...]:
    """All names that `load_example_robot` knows, in alphabetical order.

    Raises:
        MissingDependencyError: the package is not installed.
    """
    return tuple(_catalogue())


def load_example_robot(
    name: str,
    *,
    floating_base: bool | None = None,
    friction: str | None = None,
    actuators: str | PathLike[str] | None = None,
    allow_inconsistent: bool = False,
) -> Robot:
    """Load a robot of the package; see `load_urdf`.

    Args:
        name: one of `example_robot_names()`.
        floating_base: by default whether the robot walks or flies.
        friction: name of the friction law.
        actuators: an actuator file.
        allow_inconsistent: accept links with infeasible inertia.

    Raises:
        MissingDependencyError: the package is not installed.
        UnknownNameError: there is no such robot.
        RobotFileError: its file is refused, with the reason.
        InconsistentInertiaError: a link has infeasible inertia, as in some of these files.
    """
    robots = _catalogue()
    if name not in robots:
        raise unknown_name("example robot", name, robots)
    example = robots[name]
    if example.path.suffix == ".sdf":
        raise RobotFileError(
            f"the example robot {name!r} is an SDF file with closed loops ({example.path.name}); "
            "bodysense reads URDF and MJCF trees: convert the file, cutting its loops open."
        )
    return load_urdf(
        example.path,
        floating_base=example.floating_base if floating_base is None else floating_base,
        friction=friction,
        actuators=actuators,
        allow_inconsistent=allow_inconsistent,
    )


@cache
def _catalogue() -> dict[str, _ExampleRobot]:
    """Robots by name: the tables above as far as this version has their files, and the rest."""
    files = _robot_files()
    catalogue = {
        name: _ExampleRobot(files[path], table is _FLOATING)
        for table in (_FIXED, _FLOATING)
        for name, path in table.items()
        if path in files
    }
    named = {*_FIXED.values(), *_FLOATING.values()}
    for path, file in files.items():
        if path in named:
            continue
        floating = path.split("/")[0] in _FLOATING_FOLDERS
        name = file.name if file.stem in catalogue else file.stem
        catalogue[name] = _ExampleRobot(file, floating)
    return dict(sorted(catalogue.items()))


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
