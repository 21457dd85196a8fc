"""`Encoder`: reads the position of a joint, y = q."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bodysense.robot.sensors.joint_sensor import ONE, JointSensor
from bodysense.robot.sensors.measurement import Measurement

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Encoder(JointSensor):
    """The position of a joint."""

    kind: ClassVar[str] = "encoder"
    components: ClassVar[tuple[str, ...]] = ("q",)
    units: ClassVar[tuple[str, ...]] = ("rad",)
    sliding_units: ClassVar[tuple[str, ...]] = ("m",)
    quantity: ClassVar[str] = "q"

    def measurement(self, robot: Robot) -> Measurement:
        """Coefficients of the reading."""
        self.joint_index(robot)  # refuses a joint of another robot
        return Measurement(1, joint=self.joint, position=ONE)
