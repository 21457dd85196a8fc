"""`EstimationSetup`: everything that an estimator needs besides the robot, and its file (YAML).

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

The constant error of a sensor, its bias b ~ N(0, bias_sigma²), cannot be separated from its noise
at a single sample: there the reading has the covariance of both,

    Cov(y) = covariance + diag(bias_sigma²).

Over a log it is, and `problem_of_log` leaves it to be estimated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Literal

import numpy as np

from bodysense.errors import BodysenseError, MismatchError, RobotFileError, ShapeError, unknown_name
from bodysense.estimation.map_dynamics.body_tree import BodyTree, require_link
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.priors import Assumptions, GaussianPrior
from bodysense.estimation.map_dynamics.reading_layout import ReadingLayout
from bodysense.estimation.map_dynamics.state.tracking import JERK
from bodysense.robot.robot import Robot, require_robot
from bodysense.schema import (
    finite_number,
    number_list,
    number_per_name,
    read_yaml,
    required_name,
    section,
)
from bodysense.sensors.motion_sensors import Orientation
from bodysense.sensors.sensor import Sensor, deviations
from bodysense.sensors.sensor_file import parse_sensors
from bodysense.sensors.urdf_sensors import TYPICAL_STD, urdf_sensors
from bodysense.spatial.arrays import Array

StateMethod = Literal["track", "smooth"]
_METHODS: tuple[StateMethod, ...] = ("track", "smooth")

QUANTITIES = ("q", "dq", "ddq")
"""What a prior of the first sample may be about."""


@dataclass(frozen=True, eq=False)
class StateSetup:
    """The method, and priors of the first sample.

    Attributes:
        method: ``track``, from sample to sample with the readings up to each, or ``smooth``, with
            all readings of a window.
        window: samples that are smoothed together.
        jerk: (n,) or one, spectral density of each joint's jerk [(rad/s³)² s].
        priors: at the first sample, by ``q.<joint>``, ``dq.<joint>`` and ``ddq.<joint>``; the
            others come from the first readings.
    """

    method: StateMethod = "track"
    window: int = 200
    jerk: Array | float = JERK
    priors: Mapping[str, GaussianPrior] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in _METHODS:
            raise unknown_name("method of a state", str(self.method), _METHODS)
        if self.window < 2:
            raise ShapeError(f"the window of a state is {self.window}: give 2 samples or more.")
        if not (np.asarray(self.jerk) > 0.0).all():
            raise ShapeError(
                "the jerk of a state is not positive: give spectral densities above 0."
            )


@dataclass(frozen=True, eq=False)
class EstimationSetup:
    """Sensors, priors and the root of the tree.

    Attributes:
        sensors: that the robot carries.
        assumptions: priors, and how exact the equations are.
        base: link at the root of the tree; `None`: the robot's base.
        fixed: whether the root is held still; `None`: as the robot's base is.
        gravity: (3,) in the frame of a root that is held [m/s²]; `None`: the robot's own.
        notes: what the user should know, e.g. which sensors of a URDF were left out.
        state: how positions and velocities are to be estimated; `None`: they are taken as they
            were recorded, where they were.
    """

    sensors: tuple[Sensor, ...] = ()
    assumptions: Assumptions = field(default_factory=Assumptions)
    base: str | None = None
    fixed: bool | None = None
    gravity: Array | None = None
    notes: tuple[str, ...] = ()
    state: StateSetup | None = None

    def problem(self, robot: Robot) -> MapDynamics:
        """The estimator of this robot, sample by sample: biases are among the noise."""
        return self.problem_with(robot, [_at_a_sample(sensor) for sensor in self.used])

    def problem_of_log(self, robot: Robot) -> MapDynamics:
        """The same for `consistency` and `estimate_covariances`, which find biases from a log.

        Readings are laid out as in `problem`. The bias of a sensor whose covariance is singular
        stays among its noise: see `Biases`.
        """
        sensors = [s if _of_full_rank(s) else _at_a_sample(s) for s in self.used]
        return self.problem_with(robot, sensors)

    def problem_with(self, robot: Robot, sensors: Sequence[Sensor]) -> MapDynamics:
        """The estimator with other sensors, whose biases stay what they are."""
        return MapDynamics(robot, sensors, self.assumptions, base=self.base, fixed=self.fixed)

    @property
    def used(self) -> tuple[Sensor, ...]:
        """Sensors that depend on the dynamics once positions are known: not orientations."""
        return tuple(s for s in self.sensors if not isinstance(s, Orientation))

    @property
    def unused(self) -> tuple[Sensor, ...]:
        """The others."""
        return tuple(s for s in self.sensors if isinstance(s, Orientation))


def _of_full_rank(sensor: Sensor) -> bool:
    return bool(np.linalg.matrix_rank(sensor.covariance, hermitian=True) == sensor.size)


def _at_a_sample(sensor: Sensor) -> Sensor:
    """The sensor with its bias among its noise."""
    if sensor.bias_sigma is None:
        return sensor
    covariance = sensor.covariance + np.diag(sensor.bias_sigma**2)
    return replace(sensor, covariance=covariance, bias_sigma=None)


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
    sensors = parse_sensors(given.get("sensors"), robot, f"{where}, sensors")
    default, wrenches = _wrenches(given.get("external_wrenches"), robot, where)
    assumptions = Assumptions(
        wrench=default,
        wrenches=wrenches,
        others=_priors(given.get("priors"), robot, f"{where}, priors"),
        **_model(given.get("model"), f"{where}, model"),
    )
    base, fixed, gravity = _base(given.get("base"), f"{where}, base")
    state = _state(given.get("state"), robot, f"{where}, state")
    own, notes = _from_urdf(given.get("from_urdf"), robot, f"{where}, from_urdf")
    try:
        tree = BodyTree.of(robot, base=base, fixed=fixed)
        tree.root_acceleration(gravity)  # which way is down must be said of a link that is held
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


def _prior(value: object, size: int, where: str, *required: str) -> GaussianPrior:
    given = section(value, ("mean", "std"), where)
    required = (*required, "std")
    if any(key not in given for key in required):
        raise RobotFileError(
            f"{where}: give {' and '.join(required)}, one number or {size}, in SI units; a std of "
            "zero is exact."
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


def _state(table: object, robot: Robot, where: str) -> StateSetup | None:
    """The section `state`; `None` or false: it is not asked for, true: with all defaults."""
    if table is None or table is False:
        return None
    given = section({} if table is True else table, ("method", "window", "jerk", "priors"), where)
    usual = StateSetup()
    method = given.get("method", usual.method)
    if method not in _METHODS:
        raise unknown_name("method", str(method), _METHODS, f"({where})")
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
        {name: _prior(value, 1, f"{place}, {name}", "mean") for name, value in priors.items()},
    )
