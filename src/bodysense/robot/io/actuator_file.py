"""The actuator file: what robot descriptions do not say about drives, friction and control.

A YAML mapping; every key may be left out, and the same keys stand under `actuators:` of a DH file:

    gear_ratio: 50                      # motor turns per joint turn
    drive_gain: {shoulder: 12.5}        # N·m at the joint per unit of drive signal
    rotor_inertia: [0.3, 0.2]           # reflected to the joint, kg·m² (kg for a sliding joint)
    coupling:                           # q_reduced = C q: a matrix, or its entries off the diagonal
      - {motor: elbow, joint: shoulder, ratio: 1.0}
    coupled_terms: {Fvm: 0.1, Fcm: 0.5} # values, or only a list of names: [Fvm, Fcm]
    friction:
      model: stribeck
      coefficients: {Fv: 0.1, Fc: [1.0, 0.5], Fs: {elbow: 0.7}}
      shape: {width: 0.01, vs: 0.05}
    controller: {kp: 100, kd: 5, ki: 0, rate: 1000}
    acceleration_limit: 10              # rad/s² or m/s²
    mount: ceiling                      # floor, wall, or roll, pitch and yaw of the base [rad]
    gravity: [9.81, 0, 0]               # instead of it, in the axes of the root link [m/s²]

A value is one number for all joints, a list with one number per joint, or a mapping from joint name
to number. A key or joint that is left out keeps the value of the robot's own file, or the default:
ratios and gains 1, rotor inertia and friction 0, no acceleration limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import BodysenseError, RobotFileError, unknown_name
from bodysense.robot.actuators import COUPLED_TERMS, Actuators, Controller
from bodysense.robot.friction import Friction, friction_model
from bodysense.robot.mounting import gravity_in_file, under_gravity
from bodysense.robot.robot import Robot
from bodysense.schema import finite_number, name_list, number_per_name, read_yaml, section
from bodysense.spatial.arrays import Array, read_only

_KEYS = (
    *("gear_ratio", "drive_gain", "rotor_inertia", "coupling", "coupled_terms"),
    *("friction", "controller", "acceleration_limit", "gravity", "mount"),
)


@dataclass(frozen=True, eq=False)
class Actuation:
    """Drives, friction and control of one robot; fields are arguments of `Robot.from_pinocchio`.

    `coefficients` has read-only arrays by prefix: "Ia", the terms of the law and of couplings.
    """

    friction: Friction
    coefficients: Mapping[str, Array]
    actuators: Actuators
    controller: Controller | None
    acceleration_limit: Array


def with_actuator_file(
    robot: Robot, path: str | PathLike[str], *, friction: str | None = None
) -> Robot:
    """Return the same robot with what an actuator file says about it; the rest stays.

    `friction` is a law that takes precedence over the file's and the robot's.
    """
    layout, coupled = robot.layout, robot.actuators.coupled_terms
    prefixes = ("Ia", *layout.friction_terms, *coupled)
    own = {prefix: robot.theta[layout.places(prefix)] for prefix in prefixes}
    table = read_yaml(path)
    actuation = parse_actuation(
        table, robot.joint_names, str(path), friction=friction, own=own, before=robot
    )
    gravity = gravity_in_file(table, str(path), robot.model)
    robot = robot.with_drives(**vars(actuation))
    unchanged = np.array_equal(gravity, robot.model.gravity.linear)
    return robot if unchanged else under_gravity(robot, gravity)


def parse_actuation(
    mapping: object,
    joint_names: Sequence[str],
    where: str,
    *,
    friction: str | None = None,
    own: Mapping[str, Array] | None = None,
    before: Robot | None = None,
) -> Actuation:
    """Check the actuator section of a file and lay its values out per joint.

    Args:
        mapping: as `yaml.safe_load` gives it; `None` stands for an empty section.
        joint_names: joints of the robot, in its order.
        where: file and section, for messages.
        friction: a law that takes precedence over the file's; the file's coefficients and shape
            are then kept where this law has them. Without either, the law is "coulomb".
        own: coefficients that the robot has without the mapping ("Ia", "Fv", …), which count where
            it is silent; terms that the law lacks are left out.
        before: the robot so far, whose drives count where the mapping is silent.

    Raises:
        RobotFileError: an invalid section or number.
        UnknownNameError: an unknown key, friction model or term.
        MismatchError: joints or lengths of another robot.
    """
    names = tuple(joint_names)
    table = section({} if mapping is None else mapping, _KEYS, where)
    present, own = before or _direct_drives(len(names)), own or {}
    rotor = _per_joint(table, "rotor_inertia", names, where, own.get("Ia", 0.0))
    if (rotor < 0.0).any():
        raise RobotFileError(
            f"{where}, rotor_inertia: joint {names[int(np.argmin(rotor))]!r} has {rotor.min():g}; "
            "an inertia is zero or positive."
        )
    limit = _per_joint(table, "acceleration_limit", names, where, present.acceleration_limit)
    if (limit <= 0.0).any():
        raise RobotFileError(
            f"{where}, acceleration_limit: joint {names[int(np.argmin(limit))]!r} has "
            f"{limit.min():g}; give a positive number, or leave the joint out if it is unknown."
        )
    try:
        law, values = _friction(
            table.get("friction"), names, f"{where}, friction", friction, present.friction, own
        )
        actuators, coupled = _actuators(table, names, where, present.actuators, own)
        controller = present.controller
        if "controller" in table:
            controller = _controller(table["controller"], names, f"{where}, controller")
    except BodysenseError as error:
        if where in str(error):
            raise
        raise type(error)(f"{where}: {error}") from error  # from a constructor that has no file
    zeros = dict.fromkeys(actuators.coupled_terms, np.zeros(len(actuators.coupled_motors)))
    coefficients = {"Ia": rotor, **values, **zeros, **coupled}
    return Actuation(
        friction=law,
        coefficients={prefix: read_only(value) for prefix, value in coefficients.items()},
        actuators=actuators,
        controller=controller,
        acceleration_limit=read_only(limit),
    )


def _direct_drives(n: int) -> Actuation:
    law, drives = Friction.from_model("coulomb", n), Actuators.from_values(n)
    return Actuation(law, {}, drives, None, np.full(n, np.inf))


def _per_joint(
    table: Mapping[str, object],
    key: str,
    names: tuple[str, ...],
    where: str,
    default: ArrayLike,
) -> Array:
    """(n_joints,) values of a key, the default where the table does not have them."""
    if key in table:
        return number_per_name(table[key], names, f"{where}, {key}", default)
    return np.array(np.broadcast_to(np.asarray(default, dtype=np.float64), (len(names),)))


def _friction(
    entry: object,
    names: tuple[str, ...],
    where: str,
    wanted: str | None,
    before: Friction,
    own: Mapping[str, Array],
) -> tuple[Friction, dict[str, Array]]:
    """The law with its shape, and its coefficients per joint."""
    table = {} if entry is None else section(entry, ("model", "coefficients", "shape"), where)
    name = table.get("model", before.model.name)
    if not isinstance(name, str):
        raise RobotFileError(f"{where}, model: {name!r} is not a name; write e.g. coulomb.")
    file_law = friction_model(name)
    law = file_law if wanted is None else friction_model(wanted)
    place = f"{where}, coefficients"
    terms = section(table.get("coefficients", {}), file_law.terms, place)
    values = {term: _per_joint(terms, term, names, place, own.get(term, 0.0)) for term in law.terms}
    place = f"{where}, shape"
    shapes = section(table.get("shape", {}), file_law.shape, place)
    defaults: dict[str, ArrayLike] = dict(zip(law.shape, law.defaults, strict=True))
    defaults |= dict(zip(before.model.shape, before.shape.T, strict=True))
    shape = {key: _per_joint(shapes, key, names, place, defaults[key]) for key in law.shape}
    return Friction.from_model(law, len(names), **shape), values


def _actuators(
    table: Mapping[str, object],
    names: tuple[str, ...],
    where: str,
    before: Actuators,
    own: Mapping[str, Array],
) -> tuple[Actuators, dict[str, Array]]:
    """Gears, gains and couplings, and the coefficients of coupled motors."""
    coupling = before.coupling
    if "coupling" in table:
        coupling = _coupling(table["coupling"], names, f"{where}, coupling")
    if "coupled_terms" not in table and np.array_equal(coupling, before.coupling):
        terms = before.coupled_terms
        coupled = {term: own[term] for term in terms if term in own}
    else:
        place = f"{where}, coupled_terms"
        terms, coupled = _coupled_terms(table.get("coupled_terms"), coupling, names, place)
    actuators = Actuators.from_values(
        len(names),
        gear_ratio=_per_joint(table, "gear_ratio", names, where, before.gear_ratio),
        drive_gain=_per_joint(table, "drive_gain", names, where, before.drive_gain),
        coupling=coupling,
        coupled_terms=terms,
    )
    return actuators, coupled


def _coupling(entries: object, names: tuple[str, ...], where: str) -> Array:
    """C from its rows, or from its entries off the diagonal."""
    n = len(names)
    if not isinstance(entries, list):
        raise RobotFileError(
            f"{where}: {entries!r} is neither a matrix nor a list of {{motor, joint, ratio}}."
        )
    if entries and isinstance(entries[0], list):
        if len(entries) != n:
            raise RobotFileError(
                f"{where}: {len(entries)} rows for {n} joints; give one row per motor, in the "
                f"order {', '.join(names)}."
            )
        rows = [
            number_per_name(row, names, f"{where}, row {k + 1}") for k, row in enumerate(entries)
        ]
        return np.array(rows).reshape(n, n)
    matrix = np.eye(n)
    for k, entry in enumerate(entries):
        place = f"{where}, entry {k + 1}"
        motor, joint, ratio = _coupling_entry(entry, names, place)
        if motor == joint:
            raise RobotFileError(
                f"{place}: the motor of joint {names[joint]!r} moves that joint anyway; list only "
                "the other joints that it moves, and put its own ratio into gear_ratio."
            )
        if matrix[motor, joint] != 0.0:
            raise RobotFileError(
                f"{place}: motor {names[motor]!r} and joint {names[joint]!r} are coupled by an "
                "earlier entry already; keep one of the two."
            )
        matrix[motor, joint] = ratio
    return matrix


def _coupling_entry(entry: object, names: tuple[str, ...], where: str) -> tuple[int, int, float]:
    keys = ("motor", "joint", "ratio")
    table = section(entry, keys, where)
    missing = [key for key in keys if key not in table]
    if missing:
        raise RobotFileError(
            f"{where}: {' and '.join(missing)} missing; write {{motor: …, joint: …, ratio: …}}."
        )
    for key in ("motor", "joint"):
        if table[key] not in names:
            raise unknown_name("joint", str(table[key]), names, f"({where}, {key})")
    motor, joint = (names.index(str(table[key])) for key in ("motor", "joint"))
    return motor, joint, finite_number(table["ratio"], f"{where}, ratio")


def _coupled_terms(
    entry: object, coupling: Array, names: tuple[str, ...], where: str
) -> tuple[tuple[str, ...], dict[str, Array]]:
    """Names of the coupling terms, and values per coupled motor where the file gives them."""
    if entry is None:
        return ("Fvm", "Fcm"), {}
    if not isinstance(entry, Mapping):
        return name_list(entry, where), {}
    table = section(entry, COUPLED_TERMS, where)
    motors = tuple(
        name for name, row in zip(names, coupling, strict=True) if np.count_nonzero(row) > 1
    )
    if not motors:
        raise RobotFileError(
            f"{where}: no motor moves more than one joint, so these have no place; add `coupling`."
        )
    values = {
        term: number_per_name(value, motors, f"{where}, {term}", 0.0)
        for term, value in table.items()
    }
    return tuple(values), values


def _controller(entry: object, names: tuple[str, ...], where: str) -> Controller:
    table = section(entry, ("kp", "kd", "ki", "rate"), where)
    missing = [key for key in ("kp", "kd", "rate") if key not in table]
    if missing:
        raise RobotFileError(f"{where}: {', '.join(missing)} missing; ki may be left out.")
    gains = {
        key: number_per_name(value, names, f"{where}, {key}", 0.0 if key == "ki" else None)
        for key, value in table.items()
        if key != "rate"
    }
    rate = finite_number(table["rate"], f"{where}, rate")
    return Controller.from_gains(len(names), rate=rate, **gains)
