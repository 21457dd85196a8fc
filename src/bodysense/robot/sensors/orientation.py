"""`Orientation`: reads how its frame is turned in the world, as an IMU with a filter does.

    R_world_sensor(y) = R_world_link R_link_sensor Exp(noise)

The channels hold the unit quaternion x, y, z, w of R_world_sensor. The noise and a bias are
rotation vectors in the sensor's frame, so that the covariance is (3, 3) in rad².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bodysense.errors import ShapeError
from bodysense.robot.sensors.link_sensor import LinkSensor
from bodysense.robot.sensors.measurement import Measurement

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Orientation(LinkSensor):
    """The orientation of the mount in the world, as a quaternion."""

    kind: ClassVar[str] = "orientation"
    components: ClassVar[tuple[str, ...]] = ("x", "y", "z", "w")
    units: ClassVar[tuple[str, ...]] = ("",) * 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.constant is not None and abs(float(np.sum(self.constant**2)) - 1.0) > 1e-3:
            raise ShapeError(
                f"the constant reading of {self.who} is no unit quaternion x, y, z, w: the "
                "identity is [0, 0, 0, 1]."
            )

    @classmethod
    def readings(cls, n_channels: int) -> int:
        """Three, as many as a rotation has degrees of freedom."""
        return 3

    def measurement(self, robot: Robot) -> Measurement:
        """Where the frame is on its link."""
        place = self.mounted(robot)
        return Measurement(3, link=place.link, rotation=place.R)
