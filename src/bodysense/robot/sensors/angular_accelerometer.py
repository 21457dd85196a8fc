"""`AngularAccelerometer`: reads the angular acceleration of a link, in its own axes.

y = R_link_sensorᵀ omega_dot
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bodysense.robot.sensors.link_sensor import LinkSensor
from bodysense.robot.sensors.measurement import Measurement

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AngularAccelerometer(LinkSensor):
    """Three axes of angular acceleration [rad/s²]."""

    kind: ClassVar[str] = "angular_accelerometer"
    components: ClassVar[tuple[str, ...]] = ("x", "y", "z")
    units: ClassVar[tuple[str, ...]] = ("rad/s²",) * 3

    def measurement(self, robot: Robot) -> Measurement:
        """Coefficients of the readings."""
        place = self.mounted(robot)
        return Measurement(3, link=place.link, acceleration=place.motion[3:])
