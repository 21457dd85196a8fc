"""`JointSensor`: a sensor that reads one number of one joint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bodysense.errors import MismatchError, unknown_name
from bodysense.sensors.measurement import Measurement
from bodysense.sensors.sensor import Sensor

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


ONE = np.ones(1)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class JointSensor(Sensor):
    """A scalar of a joint; its channel is by default the one that logs have for it.

    Attributes:
        joint: its name.
    """

    quantity: ClassVar[str]
    """Start of the channel's name: q, v, a or tau."""
    sliding_units: ClassVar[tuple[str, ...]]
    """Units on a joint that slides."""

    joint: str

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return f"joint {self.joint}"

    def channel_units(self, robot: Robot) -> tuple[str, ...]:
        """Unit of the channel, which a joint that slides has other than one that turns."""
        slides = robot.joint_types[self.joint_index(robot)] == "prismatic"
        return (self.sliding_units if slides else self.units)[: len(self.channels)]

    def joint_index(self, robot: Robot) -> int:
        """Place of the joint among those with one axis."""
        return joint_index(robot, self.joint, self.who)

    def _default_channels(self) -> tuple[str, ...]:
        return (f"{self.quantity}.{self.joint}",)


def joint_index(robot: Robot, joint: str, who: str) -> int:
    """Place of a joint in `robot.joint_names`; `who` names the sensor in messages."""
    if joint not in robot.joint_names:
        raise unknown_name("joint", joint, robot.joint_names, f"({who}, robot {robot.name!r})")
    return robot.joint_names.index(joint)


# `Encoder`: reads the position of a joint, y = q.


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


# `JointVelocity`: reads the velocity of a joint, y = q̇.


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


# `JointAcceleration`: reads the acceleration of a joint, y = q̈.


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


# `JointTorque`: reads the torque of a joint, behind the gear or at the drive.
#
#     joint side:  y = tau
#     drive side:  y = tau + Ia q̈ + friction(q̇)
#
# tau is what the joint transmits along its axis. The drive, whose torque comes from a current, also
# accelerates the rotor and overcomes the friction; Ia and the friction are those of the robot.

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
