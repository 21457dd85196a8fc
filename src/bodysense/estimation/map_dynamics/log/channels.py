"""Which channels of a log hold positions of joints, and readings of sensors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import MismatchError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.listing import listing
from bodysense.robot.sensors.encoder import Encoder
from bodysense.robot.sensors.joint_acceleration import JointAcceleration
from bodysense.robot.sensors.sensor import Sensor
from bodysense.signals.channels import units_of
from bodysense.signals.raw_log import RawLog
from bodysense.spatial.arrays import Array

_SHOWN = 12  # names in a message


def joint_positions(problem: MapDynamics, log: RawLog) -> Array:
    """(n_t, n_joints) as recorded: of encoders among the sensors, else of channels q.<joint>.

    Raises:
        MismatchError: joints without a position, as in the log of another robot.
    """
    names = problem.robot.joint_names
    channel = {name: f"q.{name}" for name in names}
    for sensor in problem.sensors:
        if isinstance(sensor, Encoder) and sensor.channels:
            channel[sensor.joint] = sensor.channels[0]
    missing = [name for name in names if channel[name] not in log.channels]
    if missing:
        there = [name.removeprefix("q.") for name in log.channels if name.startswith("q.")]
        raise MismatchError(
            f"{log.source} has no positions of {listing(missing, _SHOWN)}; it has them of "
            f"{listing(there, _SHOWN)}. Is it the log of another robot? Otherwise name the "
            "channels q.<joint> in the layout file, or give encoders with `channels:` in the "
            "sensors file."
        )
    q = [np.where(np.isfinite(x), x, np.nan) for x in (log.channels[channel[n]] for n in names)]
    return np.stack(q, axis=1) if q else np.zeros((log.t.size, 0))


def sensor_readings(
    problem: MapDynamics, log: RawLog, rows: NDArray[np.int64], ddq: Array
) -> Array:
    """(T, m) readings of all sensors at some rows of a log.

    Args:
        problem: the estimator.
        log: the recording.
        rows: (T,) of it.
        ddq: (T, n_joints) accelerations of joints by differentiation, for sensors of these that
            have no channel.

    Raises:
        MismatchError: channels that are missing, or in other units.
    """
    absent = {
        sensor.name: [name for name in sensor.channels if name not in log.channels]
        for sensor in problem.sensors
        if not isinstance(sensor, JointAcceleration)
    }
    missing = [f"{channel} of {name}" for name, names in absent.items() for channel in names]
    if missing:
        raise MismatchError(
            f"{log.source} lacks channels of sensors: {listing(missing, _SHOWN)}. It has "
            f"{listing(list(log.channels), _SHOWN)}. Name them in the layout file, say "
            "`channels:` in the sensors file, or leave the sensors out."
        )
    readings = np.full((rows.size, problem.layout.size), np.nan)
    for sensor in problem.sensors:
        where = problem.layout.slices[sensor.name]
        known = all(name in log.channels for name in sensor.channels)
        if isinstance(sensor, JointAcceleration) and not known:
            readings[:, where] = ddq[:, [sensor.joint_index(problem.robot)]]
            continue
        _require_units(problem, sensor, log)
        columns = [log.channels[name][rows] for name in sensor.channels]
        values = np.stack(columns, axis=1) if columns else np.zeros((rows.size, 0))
        readings[:, where] = sensor.reading(np.where(np.isfinite(values), values, np.nan))
    return readings


def _require_units(problem: MapDynamics, sensor: Sensor, log: RawLog) -> None:
    """Refuse channels of another unit; one without a unit is taken to be right.

    A log that states none has the usual unit of a channel, which is that of a joint that turns.
    """
    wanted = sensor.channel_units(problem.robot)
    for channel, unit in zip(sensor.channels, wanted, strict=True):
        found, known = log.units.get(channel, ""), units_of(channel)
        usual = unit in known and found == known[0]
        if found and unit and found != unit and not usual:
            raise MismatchError(
                f"channel {channel!r} of {log.source} is in {found}, and {sensor.who} reads "
                f"{unit}: is it the right channel? Otherwise correct its unit in the layout file."
            )
