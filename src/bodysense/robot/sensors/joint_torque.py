"""`JointTorque`: reads the torque of a joint, behind the gear or at the drive.

    joint side:  y = tau
    drive side:  y = tau + Ia q̈ + friction(q̇)

tau is what the joint transmits along its axis. The drive, whose torque comes from a current, also
accelerates the rotor and overcomes the friction; Ia and the friction are those of the robot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bodysense.errors import MismatchError, unknown_name
from bodysense.robot.sensors.joint_sensor import ONE, JointSensor
from bodysense.robot.sensors.measurement import Measurement

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot

SIDES = ("joint", "drive")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class JointTorque(JointSensor):
    """The torque of a joint (force, if it slides).

    Attributes:
        side: "joint" for a sensor behind the gear, "drive" for the torque of the motor, reflected
            to the joint.
    """

    kind: ClassVar[str] = "joint_torque"
    components: ClassVar[tuple[str, ...]] = ("tau",)
    units: ClassVar[tuple[str, ...]] = ("N·m",)
    sliding_units: ClassVar[tuple[str, ...]] = ("N",)
    quantity: ClassVar[str] = "tau"

    side: str = "joint"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.side not in SIDES:
            raise unknown_name("side", self.side, SIDES, f"({self.who})")

    def measurement(self, robot: Robot) -> Measurement:
        """Coefficients of the reading."""
        joint = self.joint_index(robot)
        if self.side == "joint":
            return Measurement(1, joint=self.joint, torque=ONE)
        if robot.layout.coupled:
            raise MismatchError(
                f"{self.who} reads the drive of joint {self.joint!r}, but motors of "
                f"{robot.name!r} move several joints each, so that its torque is not of one joint "
                "alone: give torques of the joints (side: joint)."
            )
        rotor = robot.theta[robot.layout.rotor][joint : joint + 1]
        return Measurement(1, joint=self.joint, torque=ONE, joint_acceleration=rotor, friction=True)
