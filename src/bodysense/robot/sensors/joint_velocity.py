"""`JointVelocity`: reads the velocity of a joint, y = q̇."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bodysense.robot.sensors.joint_sensor import ONE, JointSensor
from bodysense.robot.sensors.measurement import Measurement

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class JointVelocity(JointSensor):
    """The velocity of a joint: a tachometer, or a differentiated encoder."""

    kind: ClassVar[str] = "joint_velocity"
    components: ClassVar[tuple[str, ...]] = ("v",)
    units: ClassVar[tuple[str, ...]] = ("rad/s",)
    sliding_units: ClassVar[tuple[str, ...]] = ("m/s",)
    quantity: ClassVar[str] = "v"

    def measurement(self, robot: Robot) -> Measurement:
        """Coefficients of the reading."""
        self.joint_index(robot)  # refuses a joint of another robot
        return Measurement(1, joint=self.joint, velocity=ONE)
