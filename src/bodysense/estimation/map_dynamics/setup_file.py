"""The sensors file of `bodysense estimate`: sensors and priors (YAML).

    from_urdf: {gyroscope: 0.01}        # the file's own tags, with std by kind; or true
    sensors:                            # as in `bodysense.sensors.sensor_file`
      motors: {kind: joint_torque, joint: all, side: drive, std: 2, bias_std: 5}
      motion: {kind: joint_acceleration, joint: all, std: 0.5}
    external_wrenches:                  # on links, in their frames [N, N·m]; zero where not named
      default: zero
      hand: unknown
      forearm: {std: [50, 50, 50, 5, 5, 5], mean: 0}
    model: {wrench_std: [1, 1, 1, 0.1, 0.1, 0.1], torque_std: 0.1}
    priors: {tau.elbow: {mean: 3, std: 1}}
    base: {link: left_foot, fixed: true, gravity: [0, 0, -9.81]}
    state: {method: smooth}             # positions too; see `state_file`

`model` holds standard deviations of the equations (acceleration_std, wrench_std, torque_std; exact
if left out) and of the priors of accelerations (joint_acceleration_std, and
base_acceleration_std of a floating root; unknown if left out). `priors` are about a.<link>,
f.<joint>, tau.<joint> and ddq.<joint>. Numbers stand alone or one per component, linear first.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

import numpy as np

from bodysense.errors import BodysenseError, MismatchError, RobotFileError, unknown_name
from bodysense.estimation.map_dynamics.body_tree import WORLD, BodyTree, require_link
from bodysense.estimation.map_dynamics.priors import Assumptions, GaussianPrior
from bodysense.estimation.map_dynamics.reading_layout import ReadingLayout
from bodysense.estimation.map_dynamics.setup import (
    METHODS,
    QUANTITIES,
    WINDOW,
    EstimationSetup,
    StateSetup,
)
from bodysense.estimation.map_dynamics.state.tracking import JERK
from bodysense.robot.robot import Robot
from bodysense.schema import (
    finite_number,
    number_list,
    number_per_name,
    read_yaml,
    required_name,
    section,
)
from bodysense.sensors.sensor import Sensor, deviations
from bodysense.sensors.sensor_file import parse_sensors
from bodysense.sensors.urdf_sensors import TYPICAL_STD, urdf_sensors
from bodysense.spatial.arrays import Array

# The section `state` of a sensors file: positions and velocities are to be estimated as well.
#
# state:
#   method: smooth                    # all readings of a window; or track (the default)
#   window: 200                       # samples of a window
#   jerk: 100                         # (rad/s³)² s, how suddenly joints move; or {elbow: 400}
#   priors:                          # at the first sample; else from the first readings
#     q.elbow: {mean: 0.5, std: 0.2}

_KEYS = ("method", "window", "jerk", "priors")


def _parse_state(table: object, robot: Robot, where: str) -> StateSetup | None:
    """Check the section; `None` or false: it is not asked for, true: with all defaults.

    Raises:
        RobotFileError: something that cannot be understood.
        UnknownNameError: an unknown key, method, quantity or joint.
    """
    if table is None or table is False:
        return None
    given = section({} if table is True else table, _KEYS, where)
    method = given.get("method", METHODS[0])
    if method not in METHODS:
        raise unknown_name("method", str(method), METHODS, f"({where})")
    window = finite_number(given.get("window", WINDOW), f"{where}, window")
    if window < 2 or window != int(window):
        raise RobotFileError(f"{where}, window: expected a number of samples, got {window:g}.")
    jerk = number_per_name(given.get("jerk", JERK), robot.joint_names, f"{where}, jerk", JERK)
    if (jerk <= 0.0).any():
        raise RobotFileError(f"{where}, jerk: {jerk.min():g} is not positive; give more than 0.")
    return StateSetup(
        "smooth" if method == "smooth" else "track",
        int(window),
        jerk,
        _state_file_priors(given.get("priors", {}), robot, f"{where}, priors"),
    )


def _state_file_priors(table: object, robot: Robot, where: str) -> dict[str, GaussianPrior]:
    names = [f"{what}.{joint}" for what in QUANTITIES for joint in robot.joint_names]
    priors = {}
    for name, value in section(table, names, where).items():
        place = f"{where}, {name}"
        entry = section(value, ("mean", "std"), place)
        if "mean" not in entry or "std" not in entry:
            raise RobotFileError(f"{place}: give mean and std, in rad or m and their rates.")
        mean = number_list(entry["mean"], 1, f"{place}, mean", one=True)
        std = number_list(entry["std"], 1, f"{place}, std", one=True)
        priors[name] = GaussianPrior.of(mean, deviations(std, 1, f"{place}, std"))
    return priors


_SECTIONS = ("from_urdf", "sensors", "external_wrenches", "model", "priors", "base", "state")
_MODEL = {
    "acceleration_std": ("acceleration_slack", 6),
    "wrench_std": ("wrench_slack", 6),
    "torque_std": ("torque_slack", 1),
    "joint_acceleration_std": ("joint_acceleration", 1),
    "base_acceleration_std": ("base_acceleration", 6),
}
_SIZES = {"a": 6, "f": 6, "tau": 1, "ddq": 1}
_MOST_GRAVITY = 30.0  # m/s²: more than on any planet that one can stand on
_DEFAULT = "default"
"""The wrench of links that are not named."""


def load_estimation(path: str | PathLike[str], robot: Robot) -> EstimationSetup:
    """Read a sensors file for a robot; see `parse_estimation`."""
    return parse_estimation(read_yaml(path), robot, str(path))


def parse_estimation(table: object, robot: Robot, where: str) -> EstimationSetup:
    """Check the content of a sensors file.

    Args:
        table: as `yaml.safe_load` gives it.
        robot: that it is for.
        where: name of the file, for messages.

    Raises:
        RobotFileError: something that cannot be understood.
        UnknownNameError: an unknown section, key, kind, joint, link or frame.
        ShapeError: a covariance that is not positive.
        MismatchError: a sensor or root that cannot be where the file puts it.
    """
    given = section(table, _SECTIONS, where)
    sensors = parse_sensors(given.get("sensors"), robot, f"{where}, sensors")
    default, wrenches = _wrenches(given.get("external_wrenches"), robot, where)
    assumptions = Assumptions(
        wrench=default,
        wrenches=wrenches,
        others=_priors(given.get("priors"), robot, f"{where}, priors"),
        **_model(given.get("model"), f"{where}, model"),
    )
    base, fixed, gravity = _base(given.get("base"), f"{where}, base")
    state = _parse_state(given.get("state"), robot, f"{where}, state")
    own, notes = _from_urdf(given.get("from_urdf"), robot, f"{where}, from_urdf")
    try:
        tree = BodyTree.of(robot, base=base, fixed=fixed)
        _require_gravity(tree, gravity)
        own, held = _not_held(own, tree)
        known = {sensor.name for sensor in sensors}
        # What the file says counts before what the robot's description says of the same sensor.
        sensors = (*(sensor for sensor in own if sensor.name not in known), *sensors)
        setup = EstimationSetup(sensors, assumptions, base, fixed, gravity, (*notes, *held), state)
        setup.problem(robot)
    except BodysenseError as error:
        raise type(error)(f"{where}: {error}") from error
    return setup


def _from_urdf(
    value: object, robot: Robot, where: str
) -> tuple[tuple[Sensor, ...], tuple[str, ...]]:
    if value is None or value is False:
        return (), ()
    if value is not True and not isinstance(value, Mapping):
        raise RobotFileError(
            f"{where}: expected true, or standard deviations by kind ({', '.join(TYPICAL_STD)}), "
            f"got {value!r:.60}."
        )
    source = robot.source
    if source is None or source.format != "urdf":
        raise RobotFileError(
            f"{where}: {robot.name!r} does not come from a URDF file; list its sensors under "
            "sensors."
        )
    std: dict[str, Array] = {}
    if isinstance(value, Mapping):
        for kind, number in section(value, tuple(TYPICAL_STD), where).items():
            std[kind] = number_list(number, len(TYPICAL_STD[kind]), f"{where}, {kind}", one=True)
    result = urdf_sensors(source.data, robot, std=std)
    return result.sensors, result.notes


def _wrenches(
    table: object, robot: Robot, where: str
) -> tuple[GaussianPrior, dict[str, GaussianPrior]]:
    place = f"{where}, external_wrenches"
    for name in table if isinstance(table, Mapping) else ():
        if name != _DEFAULT and name not in robot.link_names:
            require_link(robot, str(name), place)
    given = section({} if table is None else table, (_DEFAULT, *robot.link_names), place)
    priors = {link: _wrench(value, f"{place}, {link}") for link, value in given.items()}
    return priors.pop(_DEFAULT, GaussianPrior.zero(6)), priors


def _wrench(value: object, where: str) -> GaussianPrior:
    if value == "zero":
        return GaussianPrior.zero(6)
    if value == "unknown":
        return GaussianPrior.unknown(6)
    if not isinstance(value, Mapping):
        raise RobotFileError(
            f"{where}: expected zero, unknown, or {{std: …, mean: …}} in N and N·m, "
            f"got {value!r:.60}."
        )
    return _prior(value, 6, where)


def _model(table: object, where: str) -> dict[str, GaussianPrior]:
    given = section({} if table is None else table, tuple(_MODEL), where)
    return {
        _MODEL[key][0]: GaussianPrior.zero(
            _MODEL[key][1], _std(value, _MODEL[key][1], f"{where}, {key}")
        )
        for key, value in given.items()
    }


def _priors(table: object, robot: Robot, where: str) -> dict[str, GaussianPrior]:
    if table is None:
        return {}
    if not isinstance(table, Mapping):
        raise RobotFileError(
            f"{where}: expected a mapping such as {{tau.elbow: {{mean: 3, std: 1}}}}, "
            f"got {table!r:.60}."
        )
    priors = {}
    for name, value in table.items():
        quantity, _, owner = str(name).partition(".")
        if quantity not in _SIZES:
            raise unknown_name("quantity", str(name), [f"{key}.<name>" for key in _SIZES], where)
        known = robot.link_names if quantity == "a" else robot.joint_names
        if owner not in known:
            raise unknown_name("link" if quantity == "a" else "joint", owner, known, f"({where})")
        priors[str(name)] = _prior(value, _SIZES[quantity], f"{where}, {name}")
    return priors


def _prior(value: object, size: int, where: str) -> GaussianPrior:
    given = section(value, ("mean", "std"), where)
    if "std" not in given:
        raise RobotFileError(
            f"{where}: give std, one number or {size}, in SI units; zero is exact."
        )
    mean = number_list(given.get("mean", 0.0), size, f"{where}, mean", one=True)
    return GaussianPrior.of(mean, _std(given["std"], size, f"{where}, std"))


def _std(value: object, size: int, where: str) -> Array:
    return deviations(number_list(value, size, where, one=True), size, where)


def _not_held(
    sensors: tuple[Sensor, ...], tree: BodyTree
) -> tuple[tuple[Sensor, ...], tuple[str, ...]]:
    """Sensors of a description without those on a link that is held still, which are named."""
    kept, notes = [], []
    for sensor in sensors:
        try:
            ReadingLayout.of(tree, (sensor,), Assumptions())
        except MismatchError as error:
            notes.append(f"left out: {error}")
        else:
            kept.append(sensor)
    return tuple(kept), tuple(notes)


def _require_gravity(tree: BodyTree, gravity: Array | None) -> None:
    """Which way is down must be said of a root that is held, and cannot be of one that floats."""
    if tree.floating and gravity is not None:
        raise MismatchError(
            "base, gravity: the root floats, and its proper acceleration is estimated; leave it "
            "out, or hold the root (fixed: true)."
        )
    if not tree.floating and tree.names[0] != WORLD and gravity is None:
        raise MismatchError(
            f"base: {tree.names[0]} is held in an unknown direction; give gravity in its frame, "
            "e.g. gravity: [0, 0, -9.81]."
        )


def _base(table: object, where: str) -> tuple[str | None, bool | None, Array | None]:
    given = section({} if table is None else table, ("link", "fixed", "gravity"), where)
    link = required_name(given, "link", where) if "link" in given else None
    fixed = given.get("fixed")
    if fixed is not None and not isinstance(fixed, bool):
        raise RobotFileError(f"{where}, fixed: expected true or false, got {fixed!r:.60}.")
    if "gravity" not in given:
        return link, fixed, None
    gravity = number_list(given["gravity"], 3, f"{where}, gravity")
    if np.linalg.norm(gravity) > _MOST_GRAVITY:
        raise RobotFileError(
            f"{where}, gravity: its size is {np.linalg.norm(gravity):.4g}; give it in m/s², e.g. "
            "[0, 0, -9.81]."
        )
    return link, fixed, gravity
