"""The actuator file: what robot descriptions do not say about drives, friction and control.

A YAML mapping; every key may be left out, and the same keys stand under `actuators:` of a DH file:

    gear_ratio: 50                      # motor turns a joint turn
    drive_gain: {shoulder: 12.5}        # N·m at the joint a unit of drive signal
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

A value is one number for all joints, a list with one number per joint, or a mapping from joint name
to number. A key or joint that is left out keeps the value of the robot's own file, or the default:
ratios and gains 1, rotor inertia and friction 0, no acceleration limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import BodysenseError, RobotFileError, unknown_name
from bodysense.robot.actuators import COUPLED_TERMS, Actuators
from bodysense.robot.controller import Controller
from bodysense.robot.friction import Friction, friction_model
from bodysense.robot.robot import Robot
from bodysense.schema import finite_number, name_list, number_per_name, read_yaml, section
from bodysense.spatial.arrays import Array, read_only

# The part of an actuator file about motors that move more than one joint; see `sidecar`.


def parse_coupling(given: object, names: tuple[str, ...], where: str) -> Array:
    """C from its rows, or from its entries off the diagonal."""
    n = len(names)
    matrix = np.eye(n)
    if not isinstance(given, list):
        raise RobotFileError(
            f"{where}: {given!r} is neither a matrix nor a list of {{motor, joint, ratio}}."
        )
    if given and isinstance(given[0], list):
        rows = [number_per_name(row, names, f"{where}, row {k + 1}") for k, row in enumerate(given)]
        if len(rows) != n:
            raise RobotFileError(
                f"{where}: {len(rows)} rows for {n} joints; give one row a motor, in the order "
                f"{', '.join(names)}."
            )
        return np.array(rows).reshape(n, n)
    for k, given_entry in enumerate(given):
        place = f"{where}, entry {k + 1}"
        entry = section(given_entry, ("motor", "joint", "ratio"), place)
        missing = [key for key in ("motor", "joint", "ratio") if key not in entry]
        if missing:
            raise RobotFileError(
                f"{place}: {' and '.join(missing)} missing; write {{motor: …, joint: …, ratio: …}}."
            )
        motor = _position(entry["motor"], names, f"{place}, motor")
        joint = _position(entry["joint"], names, f"{place}, joint")
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
        matrix[motor, joint] = finite_number(entry["ratio"], f"{place}, ratio")
    return matrix


def _position(name: object, names: tuple[str, ...], where: str) -> int:
    if not isinstance(name, str) or name not in names:
        raise unknown_name("joint", str(name), names, f"({where})")
    return names.index(name)


def parse_coupled_terms(
    given: object, coupling: Array, names: tuple[str, ...], where: str
) -> tuple[tuple[str, ...], dict[str, Array]]:
    """Names of the coupling terms, and values a coupled motor where the file gives them."""
    if given is None:
        return ("Fvm", "Fcm"), {}
    if not isinstance(given, Mapping):
        return name_list(given, where), {}
    table = section(given, COUPLED_TERMS, where)
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


_KEYS = (
    "gear_ratio",
    "drive_gain",
    "rotor_inertia",
    "coupling",
    "coupled_terms",
    "friction",
    "controller",
    "acceleration_limit",
)


@dataclass(frozen=True, eq=False)
class Actuation:
    """Drives, friction and control of one robot: the keyword arguments of `Robot.from_pinocchio`.

    Attributes:
        friction: the law with its shape per joint.
        coefficients: read-only arrays by prefix: "Ia", the terms of the law, and the coupling
            terms where the file gives values for them.
        actuators: gears, gains, couplings.
        controller: the joint controller, if the file has one.
        acceleration_limit: (n_joints,) infinite where unknown.
    """

    friction: Friction
    coefficients: Mapping[str, Array]
    actuators: Actuators
    controller: Controller | None
    acceleration_limit: Array


def with_actuator_file(
    robot: Robot, path: str | PathLike[str], *, friction: str | None = None
) -> Robot:
    """Return the same robot with what an actuator file says about it.

    Args:
        robot: what the file leaves out stays as it is here.
        path: the actuator file.
        friction: a friction law that takes precedence over the file's and the robot's.
    """
    layout = robot.layout
    coefficients = {"Ia": robot.theta[layout.rotor]}
    coefficients |= {term: robot.theta[layout.friction(term)] for term in layout.friction_terms}
    for term in robot.actuators.coupled_terms:
        coupled = [k for k, (prefix, _) in enumerate(layout.coupled) if prefix == term]
        coefficients[term] = robot.theta[layout.coupling][coupled]
    before = Actuation(
        robot.friction, coefficients, robot.actuators, robot.controller, robot.acceleration_limit
    )
    result = load_actuation(path, robot.joint_names, friction=friction, before=before)
    new = Robot.from_pinocchio(
        robot.model,
        friction=result.friction,
        coefficients=result.coefficients,
        actuators=result.actuators,
        controller=result.controller,
        acceleration_limit=result.acceleration_limit,
        source=robot.source,
        notes=robot.notes,
        allow_inconsistent=True,
    )
    new = replace(new, sensors=robot.sensors)
    # The inertial parameters as they were, without a detour over the centre of mass.
    return new.with_parameters(
        np.concatenate([robot.theta[layout.inertial], new.theta[layout.n_inertial :]])
    )


def load_actuation(
    path: str | PathLike[str],
    joint_names: Sequence[str],
    *,
    friction: str | None = None,
    known: Mapping[str, ArrayLike] | None = None,
    before: Actuation | None = None,
) -> Actuation:
    """Read an actuator file for a robot with these joints; see `parse_actuation`."""
    table = read_yaml(path)
    return parse_actuation(
        table, joint_names, str(path), friction=friction, known=known, before=before
    )


def parse_actuation(
    mapping: object,
    joint_names: Sequence[str],
    where: str,
    *,
    friction: str | None = None,
    known: Mapping[str, ArrayLike] | None = None,
    before: Actuation | None = None,
) -> Actuation:
    """Check the actuator section of a file and lay its values out a joint.

    Args:
        mapping: as `yaml.safe_load` gives it; `None` stands for an empty section.
        joint_names: joints of the robot, in its order.
        where: file and section, for messages.
        friction: a law that takes precedence over the file's; the file's coefficients and shape
            are then kept where this law has them. Without either, the law is "coulomb".
        known: coefficients that the robot's own file gives ("Ia", "Fv", "Fc", "Fs", "Fo"),
            which count where the mapping is silent; terms that the law lacks are left out.
        before: all that is known already, which counts where the mapping is silent.

    Raises:
        RobotFileError: a section or number that cannot be understood.
        UnknownNameError: an unknown key, friction model or term.
        MismatchError: joints or lengths of another robot.
    """
    names = tuple(joint_names)
    table = section({} if mapping is None else mapping, _KEYS, where)
    if before is None:
        n = len(names)
        before = Actuation(
            Friction.from_model("coulomb", n),
            {},
            Actuators.from_values(n),
            None,
            np.full(n, np.inf),
        )
    own = {
        term: np.asarray(value, dtype=np.float64)
        for term, value in {**before.coefficients, **(known or {})}.items()
    }

    def a_joint(key: str, default: ArrayLike) -> Array:
        place = f"{where}, {key}"
        return (
            number_per_name(table[key], names, place, default)
            if key in table
            else _full(default, len(names))
        )

    rotor = a_joint("rotor_inertia", own.get("Ia", np.zeros(())))
    if (rotor < 0.0).any():
        raise RobotFileError(
            f"{where}, rotor_inertia: joint {names[int(np.argmin(rotor))]!r} has {rotor.min():g}; "
            "an inertia is zero or positive."
        )
    limit = a_joint("acceleration_limit", before.acceleration_limit)
    if (limit <= 0.0).any():
        raise RobotFileError(
            f"{where}, acceleration_limit: joint {names[int(np.argmin(limit))]!r} has "
            f"{limit.min():g}; give a positive number, or leave the joint out if it is unknown."
        )
    try:
        law, values = _friction(
            table.get("friction"), names, f"{where}, friction", friction, before.friction, own
        )
        drives, coupling = before.actuators, before.actuators.coupling
        if "coupling" in table:
            coupling = parse_coupling(table["coupling"], names, f"{where}, coupling")
        terms, coupled = parse_coupled_terms(
            table.get("coupled_terms"), coupling, names, f"{where}, coupled_terms"
        )
        if "coupled_terms" not in table and np.array_equal(coupling, drives.coupling):
            terms = drives.coupled_terms
            coupled = {term: own[term] for term in terms if term in own}
        actuators = Actuators.from_values(
            len(names),
            gear_ratio=a_joint("gear_ratio", drives.gear_ratio),
            drive_gain=a_joint("drive_gain", drives.drive_gain),
            coupling=coupling,
            coupled_terms=terms,
        )
        controller = before.controller
        if "controller" in table:
            controller = _controller(table["controller"], names, f"{where}, controller")
    except BodysenseError as error:
        if where in str(error):
            raise
        raise type(error)(f"{where}: {error}") from error  # from a constructor that has no file
    coefficients = {"Ia": rotor, **values, **coupled}
    return Actuation(
        friction=law,
        coefficients={prefix: read_only(value) for prefix, value in coefficients.items()},
        actuators=actuators,
        controller=controller,
        acceleration_limit=read_only(limit),
    )


def _friction(
    given: object,
    names: tuple[str, ...],
    where: str,
    wanted: str | None,
    before: Friction,
    own: Mapping[str, Array],
) -> tuple[Friction, dict[str, Array]]:
    """The law with its shape, and its coefficients a joint."""
    table = {} if given is None else section(given, ("model", "coefficients", "shape"), where)
    stated = table.get("model", before.model.name)
    if not isinstance(stated, str):
        raise RobotFileError(f"{where}, model: {stated!r} is not a name; write e.g. coulomb.")
    file_law = friction_model(stated)
    law = file_law if wanted is None else friction_model(wanted)
    given_terms = section(table.get("coefficients", {}), file_law.terms, f"{where}, coefficients")
    values = {}
    for term in law.terms:
        default = own.get(term, np.zeros(()))
        place = f"{where}, coefficients, {term}"
        values[term] = (
            number_per_name(given_terms[term], names, place, default)
            if term in given_terms
            else _full(default, len(names))
        )
    given_shape = section(table.get("shape", {}), file_law.shape, f"{where}, shape")
    shape = {}
    for k, key in enumerate(law.shape):
        default = np.full((), law.defaults[k])
        if key in before.model.shape:
            default = before.shape[:, before.model.shape.index(key)]
        shape[key] = (
            number_per_name(given_shape[key], names, f"{where}, shape, {key}", default)
            if key in given_shape
            else _full(default, len(names))
        )
    return Friction.from_model(law, len(names), **shape), values


def _controller(given: object, names: tuple[str, ...], where: str) -> Controller:
    table = section(given, ("kp", "kd", "ki", "rate"), where)
    missing = [key for key in ("kp", "kd", "rate") if key not in table]
    if missing:
        raise RobotFileError(f"{where}: {', '.join(missing)} missing; ki may be left out.")
    gains = {
        key: number_per_name(value, names, f"{where}, {key}", 0.0 if key == "ki" else None)
        for key, value in table.items()
        if key != "rate"
    }
    return Controller.from_gains(
        len(names),
        kp=gains["kp"],
        kd=gains["kd"],
        ki=gains.get("ki", 0.0),
        rate=finite_number(table["rate"], f"{where}, rate"),
    )


def _full(value: ArrayLike, n: int) -> Array:
    return np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), (n,)))
