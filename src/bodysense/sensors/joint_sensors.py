"""Sensors that read one scalar of one joint: encoder, velocity, acceleration, torque.

| kind               | reads                                                      |
|--------------------|------------------------------------------------------------|
| encoder            | y = q                                                      |
| joint_velocity     | y = q̇                                                      |
| joint_acceleration | y = q̈                                                      |
| joint_torque       | y = tau (side: joint), tau + Ia q̈ + friction(q̇) (drive)    |

tau is what the joint transmits along its axis. The drive, whose torque comes from a current, also
accelerates the rotor and overcomes the friction; Ia and the friction are those of the robot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bodysense.errors import MismatchError, unknown_name
from bodysense.sensors.measurement import Measurement
from bodysense.sensors.sensor import Sensor

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


_ONE = np.ones(1)
_SIDES = ("joint", "drive")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class JointSensor(Sensor):
    """A scalar of a joint; its channel is by default the one that logs have for it.

    Attributes:
        joint: its name.
    """

    coefficient: ClassVar[str]
    """The field of `Measurement` that is one: what it reads."""
    sliding_unit: ClassVar[str]
    """Unit on a prismatic joint."""

    joint: str

    @property
    def place(self) -> str:
        return f"joint {self.joint}"

    def channel_units(self, robot: Robot) -> tuple[str, ...]:
        slides = robot.joint_types[self.joint_index(robot)] == "prismatic"
        return ((self.sliding_unit,) if slides else self.units)[: len(self.channels)]

    def joint_index(self, robot: Robot) -> int:
        """Position of the joint in `robot.joint_names`."""
        return joint_index(robot, self.joint, self.who)

    def measurement(self, robot: Robot) -> Measurement:
        self.joint_index(robot)  # refuses a joint of another robot
        coefficients: dict[str, Any] = {self.coefficient: _ONE}
        return Measurement(1, joint=self.joint, **coefficients)

    def _default_channels(self) -> tuple[str, ...]:
        return (f"{self.components[0]}.{self.joint}",)


def joint_index(robot: Robot, joint: str, who: str) -> int:
    """Position of a joint in `robot.joint_names`; `who` names the sensor in messages."""
    if joint not in robot.joint_names:
        raise unknown_name("joint", joint, robot.joint_names, f"({who}, robot {robot.name!r})")
    return robot.joint_names.index(joint)


class Encoder(JointSensor):
    """The position of a joint."""

    kind, components, units, sliding_unit = "encoder", ("q",), ("rad",), "m"
    coefficient = "position"


class JointVelocity(JointSensor):
    """The velocity of a joint: a tachometer, or a differentiated encoder."""

    kind, components, units, sliding_unit = "joint_velocity", ("v",), ("rad/s",), "m/s"
    coefficient = "velocity"


class JointAcceleration(JointSensor):
    """The acceleration of a joint, measured or known: a constant zero holds the joint still."""

    kind, components, units, sliding_unit = "joint_acceleration", ("a",), ("rad/s²",), "m/s²"
    coefficient = "joint_acceleration"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class JointTorque(JointSensor):
    """The torque of a joint (force, if it slides).

    Attributes:
        side: "joint" for a sensor behind the gear, "drive" for the torque of the motor, reflected
            to the joint.
    """

    kind, components, units, sliding_unit = "joint_torque", ("tau",), ("N·m",), "N"
    coefficient = "torque"

    side: str = "joint"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.side not in _SIDES:
            raise unknown_name("side", self.side, _SIDES, f"({self.who})")

    def measurement(self, robot: Robot) -> Measurement:
        if self.side == "joint":
            return super().measurement(robot)
        j = self.joint_index(robot)
        if robot.layout.coupled:
            raise MismatchError(
                f"{self.who} reads the drive of joint {self.joint!r}, but motors of "
                f"{robot.name!r} move several joints each, so that its torque is not of one joint "
                "alone: give torques of the joints (side: joint)."
            )
        rotor = robot.theta[robot.layout.rotor][j : j + 1]
        return Measurement(
            1, joint=self.joint, torque=_ONE, joint_acceleration=rotor, friction=True
        )
