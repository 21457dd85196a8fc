"""`LinkSensor`: a sensor with a frame of its own, fixed to a link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bodysense.robot.sensors.mount import Mount, Mounted
from bodysense.robot.sensors.sensor import Sensor

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LinkSensor(Sensor):
    """A sensor on a link.

    Attributes:
        mount: where it sits.
    """

    mount: Mount

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return f"frame {self.mount.frame}"

    def mounted(self, robot: Robot) -> Mounted:
        """Its place on a link of this robot."""
        return self.mount.on(robot, self.who)
