"""Robots as Denavit-Hartenberg tables in YAML.

    name: two-link
    convention: modified            # or standard
    degrees: true                   # angles below, and speeds of turning joints; default: radians
    base: {xyz: [0, 0, 0.3], rpy: [0, 0, 0]}
    gravity: [0, 0, -9.81]
    joints:
      - {name: j1, type: revolute, theta: 0, d: 0.1, a: 0, alpha: 0,
         lower: -180, upper: 180, velocity: 90, effort: 50}
      - {name: j2, type: prismatic, theta: 0, d: 0, a: 0.2, alpha: -90}
    links:
      - {name: l1, mass: 2, com: [0, 0, 0.1], inertia_about: com,
         inertia: {xx: 0.1, yy: 0.1, zz: 0.02}}
      - {name: l2, pi: [1, 0, 0, 0.05, 0.1, 0, 0.1, 0, 0, 0.02]}
    actuators: {rotor_inertia: 0.1}  # see `actuator_file`

The pose of link j in link j-1, with q_j added to theta_j (revolute) or to d_j (prismatic):

    modified (proximal, Craig):  Rx(alpha_j) Tx(a_j) Rz(theta_j) Tz(d_j)
    standard (distal):           Rz(theta_j) Tz(d_j) Tx(a_j) Rx(alpha_j)

`base` is the pose of frame 0 in the world, rpy about the fixed axes x, y, z. A link gives its mass
[kg], its `com` [m] or `first_moment` [kg·m], and its inertia [kg·m²] about the `origin` of its
frame or about its `com`, all in the axes of its DH frame; or all ten as `pi`. Limits may be left
out. `extends: other.yaml` takes over what another file in the same folder says: mappings are
merged key by key, lists and values are replaced.

In the standard convention joint j turns about the axis z of link j-1, so that the frame of link j
does not lie on the joint that moves it. The robot's own link frame then is that of link j-1 turned
along with joint j: `theta` holds the parameters there, and the DH frame is kept as a body frame.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from bodysense.errors import RobotFileError, unknown_name
from bodysense.files import read_bytes
from bodysense.robot.friction import FrictionModel
from bodysense.robot.io.actuator_file import parse_actuation
from bodysense.robot.model import require_distinct, require_feasible_links
from bodysense.robot.mounting import gravity_in_file
from bodysense.robot.robot import Robot
from bodysense.robot.source import Source
from bodysense.schema import finite_number, number_list, parse_yaml, required_name, section
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import pi_from_mass_com_inertia, transform_pi

_KEYS = ("name", "convention", "degrees", "base", "gravity", "joints", "links", "actuators")
_TABLE_KEYS = ("name", "type", "theta", "d", "a", "alpha")
_LIMIT_KEYS = ("lower", "upper", "velocity", "effort")
_LINK_KEYS = ("name", "mass", "first_moment", "com", "inertia", "inertia_about", "pi")
_LARGEST_FILE = 2**20  # bytes; a table of a hundred joints has tens of thousands
_LONGEST_CHAIN = 8  # of files that extend each other


class _Joint(NamedTuple):
    """A row of the table: a joint, T_previous_link at q = 0, and limits in rad, m, s, N·m, N."""

    name: str
    prismatic: bool
    transform: pin.SE3
    limits: tuple[float, ...]


def load_dh(
    path: str | PathLike[str], *, friction: str | None = None, allow_inconsistent: bool = True
) -> Robot:
    """Read a robot from a DH table.

    Args:
        path: the YAML file.
        friction: a friction law instead of the file's; its coefficients are kept where they fit.
        allow_inconsistent: accept links with infeasible inertia.

    Raises:
        RobotFileError: the file cannot be found, read or understood.
        UnknownNameError: an unknown key, convention, joint type or friction law.
        MismatchError: a list of the actuators with another number of joints.
        InconsistentInertiaError: unless `allow_inconsistent`.
    """
    where = str(path)
    data = _read(Path(path))
    table = section(_extended(parse_yaml(data, where, RobotFileError), Path(path), 1), _KEYS, where)
    convention = _choice(table, "convention", ("modified", "standard"), where)
    degrees = table.get("degrees", False)
    if not isinstance(degrees, bool):
        raise RobotFileError(f"{where}, degrees: {degrees!r:.60} is neither true nor false.")
    angle_unit = math.pi / 180.0 if degrees else 1.0
    rows = _rows(table, "joints", where)
    joints = [_joint(row, convention, angle_unit, place) for row, place in rows]
    links = [_link(row, place) for row, place in _rows(table, "links", where)]
    if len(joints) != len(links):
        raise RobotFileError(
            f"{where}: {len(joints)} joints but {len(links)} links; give one link per joint, "
            "the one that it moves."
        )
    joint_names, link_names = [joint.name for joint in joints], [name for name, _ in links]
    require_distinct("joint", ["universe", *joint_names], where)  # the first is Pinocchio's own
    require_distinct("link", link_names, where)

    model = pin.Model()
    model.name = required_name({"name": Path(path).stem, **table}, "name", where)
    if "gravity" in table:
        model.gravity.linear = number_list(table["gravity"], 3, f"{where}, gravity")
    drives = table.get("actuators")
    if isinstance(drives, Mapping):
        model.gravity.linear = gravity_in_file(drives, f"{where}, actuators", model)
    T_world_base = _pose(table.get("base", {}), angle_unit, f"{where}, base")
    pi = _build_chain(model, convention, T_world_base, joints, links)

    actuation = parse_actuation(
        table.get("actuators"), joint_names, f"{where}, actuators", friction=friction
    )
    robot = Robot.from_pinocchio(
        model,
        **vars(actuation),
        source=Source("dh", where, data),
        notes=_unknown_friction(table.get("actuators"), actuation.friction.model),
        allow_inconsistent=True,  # its links are empty so far
    )
    # Only now, so that theta holds the numbers of the file and not what a detour over the centre
    # of mass makes of them.
    robot = robot.with_parameters(np.concatenate([pi.ravel(), robot.theta[pi.size :]]))
    if not allow_inconsistent:
        require_feasible_links(robot, where)
    return robot


def _build_chain(
    model: pin.Model,
    convention: str,
    T_world_base: pin.SE3,
    joints: list[_Joint],
    links: list[tuple[str, Array]],
) -> Array:
    """Add the joints and empty links to `model`; return pi (n, 10) in its joint frames."""
    parent, T_parent_next = 0, T_world_base
    pi = np.empty((len(links), 10))
    for k, (joint, (link_name, pi_link)) in enumerate(zip(joints, links, strict=True)):
        T_dh = joint.transform
        if convention == "modified":  # the link's frame lies on its joint
            T_parent_joint, T_joint_link = T_parent_next * T_dh, pin.SE3.Identity()
            pi[k] = pi_link
        else:
            T_parent_joint, T_joint_link = T_parent_next, T_dh
            pi[k] = transform_pi(pi_link, T_joint_link.homogeneous)
        parent = model.addJoint(
            parent,
            pin.JointModelPZ() if joint.prismatic else pin.JointModelRZ(),
            T_parent_joint,
            joint.name,
            *(np.array([limit]) for limit in joint.limits),
        )
        frame = model.addJointFrame(parent)
        model.addBodyFrame(link_name, parent, T_joint_link, frame)
        T_parent_next = T_joint_link
    return pi


def _unknown_friction(actuators: object, law: FrictionModel) -> tuple[str, ...]:
    """A note on what the friction law needs and the file does not give."""
    friction = actuators.get("friction") if isinstance(actuators, Mapping) else None
    given = friction.get("coefficients", {}) if isinstance(friction, Mapping) else {}
    absent = [term for term in law.terms if term not in given]
    if not absent:
        return ()
    return (f"friction {law.name!r}: {', '.join(absent)} not given, taken as zero",)


def _read(path: Path) -> bytes:
    return read_bytes(path, _LARGEST_FILE, RobotFileError, "a DH table")


def _extended(table: dict[str, object], path: Path, depth: int) -> dict[str, object]:
    """The table with what it extends filled in."""
    if "extends" not in table:
        return table
    own = dict(table)
    name = own.pop("extends")
    if not isinstance(name, str) or name in ("", ".", "..") or Path(name).name != name:
        raise RobotFileError(
            f"{path}, extends: {name!r:.60} is not the name of a file in the same folder, without "
            "a path before it."
        )
    if depth >= _LONGEST_CHAIN:
        raise RobotFileError(
            f"{path}, extends: more than {_LONGEST_CHAIN} files extend each other, perhaps in a "
            "circle; put the common part into one file."
        )
    other = path.parent / name
    return _merged(
        _extended(parse_yaml(_read(other), str(other), RobotFileError), other, depth + 1), own
    )


def _merged(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    merged = {**base, **over}
    for key, value in over.items():
        below = base.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = _merged(below, value)
    return merged


def _rows(table: Mapping[str, object], key: str, where: str) -> list[tuple[object, str]]:
    """Entries of a list and how to call them in messages."""
    rows = table.get(key)
    if not isinstance(rows, list) or not rows:
        raise RobotFileError(f"{where}, {key}: missing or not a list; give one entry per joint.")
    names = [row.get("name") if isinstance(row, Mapping) else None for row in rows]
    return [
        (row, f"{where}, {key}, entry {k + 1}" + (f" ({name})" if isinstance(name, str) else ""))
        for k, (row, name) in enumerate(zip(rows, names, strict=True))
    ]


def _joint(row: object, convention: str, angle_unit: float, where: str) -> _Joint:
    table = section(row, (*_TABLE_KEYS, *_LIMIT_KEYS), where)
    _require(table, _TABLE_KEYS, where)
    prismatic = _choice(table, "type", ("revolute", "prismatic"), where) == "prismatic"
    motion_unit = 1.0 if prismatic else angle_unit

    def number(key: str, unit: float, default: float = math.inf) -> float:
        return finite_number(table[key], f"{where}, {key}") * unit if key in table else default

    along_z = _screw("z", number("theta", angle_unit), number("d", 1.0))
    along_x = _screw("x", number("alpha", angle_unit), number("a", 1.0))
    lower, upper = number("lower", motion_unit, -math.inf), number("upper", motion_unit)
    velocity, effort = number("velocity", motion_unit), number("effort", 1.0)
    if lower > upper:
        raise RobotFileError(f"{where}: lower is above upper; swap them.")
    for key, value in (("velocity", velocity), ("effort", effort)):
        if value <= 0.0:
            raise RobotFileError(
                f"{where}, {key}: {table[key]} is not positive; leave it out if it is unknown."
            )
    return _Joint(
        required_name(table, "name", where),
        prismatic,
        along_x * along_z if convention == "modified" else along_z * along_x,
        (effort, velocity, lower, upper),
    )


def _screw(axis: str, angle: float, distance: float) -> pin.SE3:
    """A turn about an axis and a shift along it."""
    return pin.SE3(pin.utils.rotate(axis, angle), distance * np.eye(3)["xyz".index(axis)])


def _link(row: object, where: str) -> tuple[str, Array]:
    """Name and pi (10,) of a link, in its DH frame."""
    table = section(row, _LINK_KEYS, where)
    name = required_name(table, "name", where)
    if "pi" in table:
        if len(table) > 2:
            raise RobotFileError(
                f"{where}: pi holds all inertial parameters; remove it, or everything but it."
            )
        pi = number_list(table["pi"], 10, f"{where}, pi")
        mass, h = pi[0], pi[1:4]
    else:
        _require(table, ("mass", "inertia", "inertia_about"), where)
        if ("com" in table) == ("first_moment" in table):
            raise RobotFileError(f"{where}: give either com or first_moment, one of them.")
        mass = finite_number(table["mass"], f"{where}, mass")
        if "com" in table:
            h = mass * number_list(table["com"], 3, f"{where}, com")
        else:
            h = number_list(table["first_moment"], 3, f"{where}, first_moment")
        inertia = _inertia(table["inertia"], f"{where}, inertia")
        if _choice(table, "inertia_about", ("origin", "com"), where) == "com":
            com = h / mass if mass != 0.0 else np.zeros(3)
            pi = pi_from_mass_com_inertia(mass, com, inertia)
        else:
            pi = np.array([mass, *h, *inertia[np.triu_indices(3)][[0, 1, 3, 2, 4, 5]]])
    if mass == 0.0 and h.any():
        raise RobotFileError(f"{where}: the link has a first moment but no mass; give it one.")
    return name, pi


def _inertia(value: object, where: str) -> Array:
    table = section(value, ("xx", "xy", "xz", "yy", "yz", "zz"), where)
    _require(table, ("xx", "yy", "zz"), where)
    inertia = np.zeros((3, 3))
    for key, entry in table.items():
        row, column = "xyz".index(key[0]), "xyz".index(key[1])
        inertia[row, column] = inertia[column, row] = finite_number(entry, f"{where}, {key}")
    return inertia


def _pose(value: object, angle_unit: float, where: str) -> pin.SE3:
    table = section(value, ("xyz", "rpy"), where)
    xyz = number_list(table.get("xyz", [0, 0, 0]), 3, f"{where}, xyz")
    rpy = number_list(table.get("rpy", [0, 0, 0]), 3, f"{where}, rpy") * angle_unit
    return pin.SE3(pin.rpy.rpyToMatrix(rpy), xyz)


def _choice(table: Mapping[str, object], key: str, valid: tuple[str, ...], where: str) -> str:
    _require(table, (key,), where)
    value = table[key]
    if value not in valid or not isinstance(value, str):
        raise unknown_name(key, str(value)[:60], valid, f"({where})")
    return value


def _require(table: Mapping[str, object], keys: tuple[str, ...], where: str) -> None:
    missing = [key for key in keys if key not in table]
    if missing:
        raise RobotFileError(
            f"{where}: {', '.join(missing)} missing; every entry needs {', '.join(keys)}."
        )
