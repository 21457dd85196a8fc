"""`JointAcceleration`: reads the acceleration of a joint, y = q̈."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bodysense.robot.sensors.joint_sensor import ONE, JointSensor
from bodysense.robot.sensors.measurement import Measurement

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class JointAcceleration(JointSensor):
    """The acceleration of a joint, measured or known: a constant zero holds the joint still."""

    kind: ClassVar[str] = "joint_acceleration"
    components: ClassVar[tuple[str, ...]] = ("a",)
    units: ClassVar[tuple[str, ...]] = ("rad/s²",)
    sliding_units: ClassVar[tuple[str, ...]] = ("m/s²",)
    quantity: ClassVar[str] = "a"

    def measurement(self, robot: Robot) -> Measurement:
        """Coefficients of the reading."""
        self.joint_index(robot)  # refuses a joint of another robot
        return Measurement(1, joint=self.joint, joint_acceleration=ONE)
