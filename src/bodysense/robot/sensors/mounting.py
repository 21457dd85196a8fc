"""The sensors of a robot, checked: each has a name of its own and a place on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from bodysense.errors import MismatchError, ShapeError
from bodysense.robot.sensors.sensor import Sensor

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


def mounted_sensors(robot: Robot, sensors: Iterable[Sensor]) -> tuple[Sensor, ...]:
    """Return the sensors if all of them fit the robot.

    Raises:
        UnknownNameError: a joint or frame that the robot does not have.
        MismatchError: two sensors of one name, or one that cannot sit where it is.
        ShapeError: something that is not a sensor.
    """
    found: dict[str, Sensor] = {}
    for sensor in sensors:
        if not isinstance(sensor, Sensor):
            raise ShapeError(
                f"{sensor!r:.60} is not a sensor: build one of bodysense.robot.sensors."
            )
        if sensor.name in found:
            raise MismatchError(
                f"two sensors of robot {robot.name!r} are named {sensor.name!r} (a "
                f"{found[sensor.name].kind} and a {sensor.kind}): rename one of them."
            )
        sensor.measurement(robot)  # refuses what it cannot resolve
        found[sensor.name] = sensor
    return tuple(found.values())
