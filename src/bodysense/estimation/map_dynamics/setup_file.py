"""The sensors file (YAML): everything that an estimator needs besides the robot.

    from_urdf: {gyroscope: 0.01}        # the file's own tags, with std by kind; or true
    sensors:                            # as in `bodysense.sensors.sensor_file`
      motors: {kind: joint_torque, joint: all, side: drive, std: 2, bias_std: 5}
      motion: {kind: joint_acceleration, joint: all}
    external_wrenches:                  # on links or frames; see `wrench_entries`
      default: zero
      hand: unknown
      tool0: {force: 50, direction: [0, 0, 1]}
    attached: [{frame: tool0, mass: 1.2, com: [0, 0, 0.05]}]     # not in the robot's description
    model: {wrench_std: [1, 1, 1, 0.1, 0.1, 0.1], torque_std: 0.1}
    priors: {tau.elbow: {mean: 3, std: 1}}
    base: {link: left_foot, fixed: true, gravity: [0, 0, -9.81]}
    state:                              # positions and velocities are to be estimated as well
      method: smooth                    # all readings of a window; or track (the default)
      window: 200                       # samples of a window
      jerk: 100                         # (rad/s³)² s, how suddenly joints move; or {elbow: 400}
      priors:                           # at the first sample; else from the first readings
        q.elbow: {mean: 0.5, std: 0.2}

`model` holds standard deviations of the equations (acceleration_std, wrench_std, torque_std; exact
if left out) and of the priors of accelerations (joint_acceleration_std, and
base_acceleration_std of a floating root; unknown if left out). `priors` are about a.<link>,
f.<joint>, tau.<joint> and ddq.<joint>. Numbers stand alone or one per component, linear first.
A root that floats may have feet that stand, `base: {standing: [l_sole, r_sole]}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

import numpy as np

from bodysense.errors import BodysenseError, MismatchError, RobotFileError, unknown_name
from bodysense.estimation.map_dynamics.base_motion import StandingFeet
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.plausible_sizes import PlausibleSizes
from bodysense.estimation.map_dynamics.priors import Assumptions, GaussianPrior
from bodysense.estimation.map_dynamics.reading_layout import ReadingLayout
from bodysense.estimation.map_dynamics.setup import (
    QUANTITIES,
    STATE_METHODS,
    AttachedBody,
    EstimationSetup,
    StateSetup,
)
from bodysense.estimation.map_dynamics.state.tracking import JERK
from bodysense.estimation.map_dynamics.wrench_entries import parse_wrenches, prior_entry, std_entry
from bodysense.robot.frames import moving_frame
from bodysense.robot.robot import Robot, require_robot
from bodysense.schema import (
    finite_number,
    name_list,
    number_list,
    number_per_name,
    read_yaml,
    required_name,
    section,
)
from bodysense.sensors.sensor import Sensor
from bodysense.sensors.sensor_file import parse_sensors
from bodysense.sensors.urdf_sensors import TYPICAL_STD, urdf_sensors
from bodysense.spatial.arrays import Array

_SECTIONS = (
    *("from_urdf", "sensors", "external_wrenches", "attached", "model", "priors", "base", "state"),
)
_BASE = ("link", "fixed", "gravity", "standing", "standing_points")
_BODY = ("link", "frame", "mass", "com", "center_of_mass", "inertia")
_MOMENTS = {"ixx": (0, 0), "iyy": (1, 1), "izz": (2, 2)}
_PRODUCTS = {"ixy": (0, 1), "ixz": (0, 2), "iyz": (1, 2)}
_MODEL = {
    "acceleration_std": ("acceleration_slack", 6),
    "wrench_std": ("wrench_slack", 6),
    "torque_std": ("torque_slack", 1),
    "joint_acceleration_std": ("joint_acceleration", 1),
    "base_acceleration_std": ("base_acceleration", 6),
}
_SIZES = {"a": 6, "f": 6, "tau": 1, "ddq": 1}
_MOST_GRAVITY = 30.0  # m/s²: more than on any planet that one can stand on


def load_estimation(path: str | PathLike[str], robot: Robot) -> EstimationSetup:
    """Read a sensors file for a robot; see `parse_estimation`."""
    require_robot(robot)
    return parse_estimation(read_yaml(path), robot, str(path))


def parse_estimation(table: object, robot: Robot, where: str) -> EstimationSetup:
    """Check the content of a sensors file, as `yaml.safe_load` gives it; `where` is its name.

    Raises:
        RobotFileError: something that cannot be understood.
        UnknownNameError: an unknown section, key, kind, joint, link or frame.
        ShapeError: a covariance that is not positive.
        MismatchError: a sensor or root that cannot be where the file puts it.
    """
    given = section(table, _SECTIONS, where)
    attached = _attached(given.get("attached"), robot, f"{where}, attached")
    whole = EstimationSetup(attached=attached).robot(robot)
    sensors = parse_sensors(given.get("sensors"), robot, f"{where}, sensors")
    default, wrenches, shared = parse_wrenches(
        given.get("external_wrenches"), whole, PlausibleSizes.of(whole), where
    )
    assumptions = Assumptions(
        wrench=default,
        wrenches=wrenches,
        others=_priors(given.get("priors"), robot, f"{where}, priors"),
        **_model(given.get("model"), f"{where}, model"),
    ).on(whole)
    base, fixed, gravity = _base(given.get("base"), f"{where}, base")
    state = _state(given.get("state"), robot, f"{where}, state")
    own, notes = _from_urdf(given.get("from_urdf"), robot, f"{where}, from_urdf")
    try:
        tree = BodyTree.of(robot, base=base, fixed=fixed)
        tree.root_acceleration(gravity)  # which way is down must be said of a link that is held
        standing = _standing(given.get("base"), tree, f"{where}, base")
        own, held = _not_held(own, tree)
        known = {sensor.name for sensor in sensors}
        # What the file says counts before what the robot's description says of the same sensor.
        sensors = (*(sensor for sensor in own if sensor.name not in known), *sensors)
        notes = (*shared, *notes, *held)
        setup = EstimationSetup(
            sensors, assumptions, base, fixed, gravity, notes, state, attached, standing
        )
        setup.problem(robot)
    except BodysenseError as error:
        if where in str(error):
            raise
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


def _attached(value: object, robot: Robot, where: str) -> tuple[AttachedBody, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise RobotFileError(
            f"{where}: expected a list such as [{{frame: tool0, mass: 1.2, com: [0, 0, 0.05]}}], "
            f"got {value!r:.60}."
        )
    bodies = []
    for k, entry in enumerate(value, start=1):
        place = f"{where}, {k}"
        body = _body(section(entry, _BODY, place), place)
        try:
            robot = body.on(robot)  # checks the place, and that it is physically consistent
        except BodysenseError as error:
            raise type(error)(f"{place}: {error}") from error
        bodies.append(body)
    return tuple(bodies)


def _body(given: Mapping[str, object], where: str) -> AttachedBody:
    if ("link" in given) == ("frame" in given) or "mass" not in given:
        raise RobotFileError(
            f"{where}: give the link that holds the body, or any frame fixed to one (link: or "
            "frame:), and the mass [kg]."
        )
    if "com" in given and "center_of_mass" in given:
        raise RobotFileError(f"{where}: give com or center_of_mass, which are the same.")
    frame = required_name(given, "link" if "link" in given else "frame", where)
    mass = finite_number(given["mass"], f"{where}, mass")
    key = "center_of_mass" if "center_of_mass" in given else "com"
    com = number_list(given.get(key, [0, 0, 0]), 3, f"{where}, {key}")
    if "inertia" not in given:
        return AttachedBody(frame, mass, com)
    place = f"{where}, inertia"
    if isinstance(given["inertia"], list):
        return AttachedBody(frame, mass, com, np.diag(number_list(given["inertia"], 3, place)))
    entries = section(given["inertia"], (*_MOMENTS, *_PRODUCTS), place)
    if any(name not in entries for name in _MOMENTS):
        raise RobotFileError(f"{place}: give ixx, iyy and izz about the centre of mass [kg·m²].")
    I = np.zeros((3, 3))
    for name, number in entries.items():
        row, column = {**_MOMENTS, **_PRODUCTS}[name]
        I[row, column] = I[column, row] = finite_number(number, f"{place}, {name}")
    return AttachedBody(frame, mass, com, I)


def _model(table: object, where: str) -> dict[str, GaussianPrior]:
    given = section({} if table is None else table, tuple(_MODEL), where)
    return {
        _MODEL[key][0]: GaussianPrior.zero(
            _MODEL[key][1], std_entry(value, _MODEL[key][1], f"{where}, {key}")
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
        priors[str(name)] = prior_entry(value, _SIZES[quantity], f"{where}, {name}")
    return priors


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


def _base(table: object, where: str) -> tuple[str | None, bool | None, Array | None]:
    given = section({} if table is None else table, _BASE, where)
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


def _standing(table: object, tree: BodyTree, where: str) -> StandingFeet:
    """Feet that stand while the root floats, from the section of the base."""
    given = section({} if table is None else table, _BASE, where)
    names: dict[str, tuple[str, ...]] = {}
    for key in ("standing", "standing_points"):
        names[key] = name_list(given.get(key, []), f"{where}, {key}")
        for name in names[key]:
            moving_frame(tree.robot, name, f"{where}, {key}")
    feet = StandingFeet(names["standing"], names["standing_points"])
    if feet and not tree.floating:
        raise MismatchError(
            f"{where}: {tree.names[0]!r} is held still, so that no foot is needed to tell how it "
            "moves: leave standing out, or let the base float."
        )
    return feet


def _state(table: object, robot: Robot, where: str) -> StateSetup | None:
    """The section `state`; `None` or false: it is not asked for, true: with all defaults."""
    if table is None or table is False:
        return None
    given = section({} if table is True else table, ("method", "window", "jerk", "priors"), where)
    usual = StateSetup()
    method = given.get("method", usual.method)
    if method not in STATE_METHODS:
        raise unknown_name("method", str(method), STATE_METHODS, f"({where})")
    window = finite_number(given.get("window", usual.window), f"{where}, window")
    if window < 2 or window != int(window):
        raise RobotFileError(f"{where}, window: expected a number of samples, got {window:g}.")
    jerk = number_per_name(given.get("jerk", JERK), robot.joint_names, f"{where}, jerk", JERK)
    if (jerk <= 0.0).any():
        raise RobotFileError(f"{where}, jerk: {jerk.min():g} is not positive; give more than 0.")
    names = [f"{what}.{joint}" for what in QUANTITIES for joint in robot.joint_names]
    place = f"{where}, priors"
    priors = section(given.get("priors", {}), names, place)
    return StateSetup(
        "smooth" if method == "smooth" else "track",
        int(window),
        jerk,
        {name: prior_entry(value, 1, f"{place}, {name}", "mean") for name, value in priors.items()},
    )
