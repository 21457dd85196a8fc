"""The sensor file: which sensors a robot carries, a YAML mapping from name to sensor.

    sensors:
      encoders: {kind: encoder, joint: all, std: 0.001}         # one per joint: encoders.<joint>
      pelvis_gyro: {kind: gyroscope, link: pelvis, xyz: [0, 0, 0.1], rpy: [0, 0, 1.57], std: 0.01,
                    bias_std: 0.02, channels: [gyro.imu.x, gyro.imu.y, gyro.imu.z]}
      wrist: {kind: force_torque, joint: wrist_roll, std: [1, 1, 1, 0.02, 0.02, 0.02]}
      upper_arm: {kind: force_torque, link: arm, sub_link: [0.3, 0, 0, 0.01, …], std: 0.5}
      motors: {kind: joint_torque, joint: [hip, knee], side: drive, std: 2}
      motion: {kind: joint_acceleration, joint: all}            # from positions: needs no std
      free: {kind: external_wrench, link: all, constant: 0, std: 0.1}
      palm: {kind: skin_patch, frame: palm, cells: [{normal: [0, 0, -1], xyz: [0, 0, 0]}], std: 1}
      push: {kind: directed_contact, link: arm, xyz: [0, 0, 0.2], direction: [1, 0, 0], std: 0.1}
      imu: {kind: orientation, frame: imu, covariance: [[1e-4, 0, 0], [0, 1e-4, 0], [0, 0, 1e-2]]}

Units are SI: rad, m, N, N·m. Channels are those of the log, by default `<name>.<x, y, z, …>`, and
`q.<joint>`, `v.<joint>`, `a.<joint>` or `tau.<joint>` for joints. `joint` and `link` take one
name, a list of names or the word all; several make a sensor each, named `<name>.<joint or link>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from types import MappingProxyType

import numpy as np

from bodysense.errors import BodysenseError, RobotFileError, unknown_name
from bodysense.robot.model import check_sensors
from bodysense.robot.robot import Robot, require_robot
from bodysense.schema import (
    finite_number,
    name_list,
    number_list,
    read_yaml,
    required_name,
    section,
)
from bodysense.sensors.motion_sensors import (
    Accelerometer,
    AngularAccelerometer,
    Encoder,
    Gyroscope,
    JointAcceleration,
    JointSensor,
    JointTorque,
    JointVelocity,
    LinkSensor,
    Orientation,
)
from bodysense.sensors.sensor import Mount, Sensor, variances
from bodysense.sensors.wrench_sensors import DirectedContact, ExternalWrench, ForceTorque, SkinPatch
from bodysense.spatial.arrays import Array

_KINDS: tuple[type[Sensor], ...] = (
    *(Encoder, JointVelocity, JointAcceleration, JointTorque),
    *(Gyroscope, Accelerometer, AngularAccelerometer, Orientation),
    *(ForceTorque, ExternalWrench, SkinPatch, DirectedContact),
)
SENSORS: Mapping[str, type[Sensor]] = MappingProxyType({kind.kind: kind for kind in _KINDS})
"""All kinds of sensors, by their name in files."""


ACCELERATION_STD = 0.01
"""rad/s² or m/s²: of accelerations that come from positions and for which a file has no std; what
the noise of the encoders makes of them is seen in the log, and stands beside it."""

_Table = Mapping[str, object]  # a sensor's entry, as read
_COMMON = ("kind", "std", "covariance", "bias_std", "channels", "constant")
_PLACE = ("link", "frame", "xyz", "rpy")
_OWN: dict[type[Sensor], tuple[str, ...]] = {
    JointTorque: ("side",),
    ForceTorque: ("joint", *_PLACE, "sign", "sub_link"),
    SkinPatch: ("normal", "cells"),
    DirectedContact: ("direction",),
}


def load_sensors(path: str | PathLike[str], robot: Robot) -> tuple[Sensor, ...]:
    """Read a sensor file for a robot; see `parse_sensors`."""
    require_robot(robot)
    table = section(read_yaml(path), ("sensors",), str(path))
    return parse_sensors(table.get("sensors"), robot, f"{path}, sensors")


def parse_sensors(table: object, robot: Robot, where: str) -> tuple[Sensor, ...]:
    """Check the sensors of a file and find their places on a robot.

    Args:
        table: as `yaml.safe_load` gives it; `None` stands for an empty section.
        robot: that carries them.
        where: file and section, for messages.

    Raises:
        RobotFileError: an invalid entry or number.
        UnknownNameError: an unknown kind, key, joint or frame.
        ShapeError: a covariance that is not positive, a direction without length, …
        MismatchError: a sensor that cannot sit where the file puts it.
    """
    entries = {} if table is None else table
    if not isinstance(entries, Mapping):
        raise RobotFileError(
            f"{where}: expected a mapping from name to sensor, got {entries!r:.60}."
        )
    sensors: dict[str, Sensor] = {}
    for name, entry in entries.items():
        place = f"{where}, {name}"
        try:
            result = check_sensors(robot, _sensors_of_entry(str(name), entry, robot, place))
        except BodysenseError as error:
            if place in str(error):
                raise
            raise type(error)(f"{place}: {error}") from error  # from one that knows no file
        for sensor in result:
            if sensor.name in sensors:
                raise RobotFileError(f"{place}: there is a {sensor.name!r} already; rename one.")
            sensors[sensor.name] = sensor
    return tuple(sensors.values())


def _sensors_of_entry(name: str, entry: object, robot: Robot, where: str) -> list[Sensor]:
    """The sensors of one entry, several if it names several joints or links."""
    if not isinstance(entry, Mapping):
        raise RobotFileError(f"{where}: expected a mapping such as {{kind: encoder, joint: all}}.")
    kind = required_name(entry, "kind", where)
    if kind not in SENSORS:
        raise unknown_name("kind of sensor", kind, SENSORS, f"({where})")
    cls = SENSORS[kind]
    table = section(entry, _keys(cls), where)
    key = "joint" if "joint" in table else "link"
    value = table.get(key)
    if value != "all" and not isinstance(value, list):
        return [_sensor(cls, name, table, where)]
    if "channels" in table:
        raise RobotFileError(
            f"{where}: channels are those of one sensor, and {key}: {value!r:.60} makes several; "
            "leave channels out, or write one entry per sensor."
        )
    every = robot.joint_names if key == "joint" else robot.link_names
    names = every if value == "all" else name_list(value, f"{where}, {key}")
    return [_sensor(cls, f"{name}.{each}", {**table, key: each}, where) for each in names]


def _keys(cls: type[Sensor]) -> list[str]:
    keys = [*_COMMON, *_OWN.get(cls, ())]
    keys += ["joint"] if issubclass(cls, JointSensor) else []
    keys += _PLACE if issubclass(cls, LinkSensor) else []
    if cls is DirectedContact:
        keys.remove("constant")  # it has its own
    return keys


def _sensor(cls: type[Sensor], name: str, table: _Table, where: str) -> Sensor:
    channels = name_list(table["channels"], f"{where}, channels") if "channels" in table else ()
    m = cls.readings(len(channels))
    settings: dict[str, object] = {
        "name": name,
        "channels": channels,
        "covariance": _covariance(table, m, where),
        **_place(cls, table, where),
    }
    numbers = {"bias_std": (m, "bias_sigma"), "constant": (len(cls.components), "constant")}
    for key, (n, field) in numbers.items():
        if key in table:
            settings[field] = number_list(table[key], n, f"{where}, {key}", one=True)
    if "side" in table:
        settings["side"] = required_name(table, "side", where)
    if "sign" in table:
        settings["sign"] = finite_number(table["sign"], f"{where}, sign")
    if "sub_link" in table:
        settings["sub_link"] = number_list(table["sub_link"], 10, f"{where}, sub_link")
    return cls(**settings)  # type: ignore[arg-type]  # checked above, key by key


def _place(cls: type[Sensor], table: _Table, where: str) -> dict[str, object]:
    """Where it is: joint, mount, and the cells or direction of a contact."""
    place: dict[str, object] = {}
    if issubclass(cls, JointSensor) or (cls is ForceTorque and "joint" in table):
        place["joint"] = required_name(table, "joint", where)
    if issubclass(cls, LinkSensor) or (cls is ForceTorque and set(_PLACE) & set(table)):
        place["mount"] = _mount(table, where)
    if cls is SkinPatch:
        place["normals"], place["points"] = _cells(table, where)
    if cls is DirectedContact:
        place["direction"] = number_list(table.get("direction"), 3, f"{where}, direction")
    return place


def _covariance(table: _Table, m: int, where: str) -> Array:
    if table["kind"] == JointAcceleration.kind and not {"std", "covariance"} & set(table):
        return variances(ACCELERATION_STD, m)
    if ("std" in table) == ("covariance" in table):
        raise RobotFileError(
            f"{where}: give either std, one number or {m}, in SI units, or covariance, {m} rows of "
            f"{m} numbers; zero is exact."
        )
    if "std" in table:
        place = f"{where}, std"
        return variances(number_list(table["std"], m, place, one=True), m, place)
    rows, place = table["covariance"], f"{where}, covariance"
    if not isinstance(rows, list) or len(rows) != m:
        raise RobotFileError(f"{place}: expected {m} rows of {m} numbers, got {rows!r:.60}.")
    return np.array([number_list(row, m, f"{place}, row {k + 1}") for k, row in enumerate(rows)])


def _mount(table: _Table, where: str) -> Mount:
    """`link` or `frame`, with `xyz` [m] and `rpy` [rad] in it."""
    if ("link" in table) == ("frame" in table):
        raise RobotFileError(
            f"{where}: give the link that it is on, or any frame fixed to one (link: or frame:)."
        )
    frame = required_name(table, "link" if "link" in table else "frame", where)
    keys = [key for key in ("xyz", "rpy") if key in table]
    place = {key: number_list(table[key], 3, f"{where}, {key}") for key in keys}
    return Mount.from_xyz_rpy(frame, **place)


def _cells(table: _Table, where: str) -> tuple[Array, Array]:
    """Normals and points (n, 3) of a skin: one `normal`, or `cells` with `normal` and `xyz`."""
    if ("normal" in table) == ("cells" in table):
        raise RobotFileError(f"{where}: give either a normal, or cells with normal and xyz each.")
    if "normal" in table:
        return number_list(table["normal"], 3, f"{where}, normal")[np.newaxis], np.zeros((1, 3))
    entries = table["cells"]
    if not isinstance(entries, list) or not entries:
        raise RobotFileError(f"{where}, cells: expected a list of cells, got {entries!r:.60}.")
    normals, points = np.zeros((2, len(entries), 3))
    for k, entry in enumerate(entries):
        place = f"{where}, cells, {k + 1}"
        cell = section(entry, ("normal", "xyz"), place)
        normals[k] = number_list(cell.get("normal"), 3, f"{place}, normal")
        points[k] = number_list(cell.get("xyz"), 3, f"{place}, xyz")
    return normals, points
