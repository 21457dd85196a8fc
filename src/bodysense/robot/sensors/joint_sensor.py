"""`JointSensor`: a sensor that reads one number of one joint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bodysense.errors import unknown_name
from bodysense.robot.sensors.sensor import Sensor

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
