"""`Accelerometer`: reads the proper acceleration of the point where it sits, in its own axes.

    y = Rᵀ (a_linear + omega_dot × p + omega × (v_linear + omega × p))

a, omega_dot, v, omega: proper spatial acceleration and twist of the link in its frame; the last
term makes the classical acceleration of a point out of the spatial one. At rest y = -Rᵀ g.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bodysense.robot.sensors.link_sensor import LinkSensor
from bodysense.robot.sensors.measurement import Measurement
from bodysense.robot.sensors.quadratic import centripetal

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Accelerometer(LinkSensor):
    """Three axes of proper acceleration [m/s²]."""

    kind: ClassVar[str] = "accelerometer"
    components: ClassVar[tuple[str, ...]] = ("x", "y", "z")
    units: ClassVar[tuple[str, ...]] = ("m/s²",) * 3

    def measurement(self, robot: Robot) -> Measurement:
        """Coefficients of the readings."""
        place = self.mounted(robot)
        return Measurement(
            3,
            link=place.link,
            acceleration=place.motion[:3],
            quadratic=centripetal(place.R, place.p),
        )
