"""Sensors of the motion of a link: gyroscope, accelerometers, orientation.

| kind                  | reads, in the sensor's axes                                              |
|-----------------------|--------------------------------------------------------------------------|
| gyroscope             | y = Rᵀ omega                                                             |
| accelerometer         | y = Rᵀ (a_linear + omega_dot × p + omega × (v_linear + omega × p))       |
| angular_accelerometer | y = Rᵀ omega_dot                                                         |
| orientation           | R_world_sensor(y) = R_world_link R Exp(noise)                            |

R = R_link_sensor, p the sensor's origin; a, omega_dot, v, omega: proper spatial acceleration and
twist of the link in its frame. The last term of an accelerometer turns the spatial acceleration
into the classical one of a point; at rest it reads -Rᵀ g.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.sensors.measurement import Measurement, centripetal
from bodysense.sensors.sensor import LinkPlacement, Mount, Sensor
from bodysense.spatial.arrays import Array
from bodysense.spatial.se3 import log_quaternion

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot

_QUATERNION_LENGTHS = (0.9, 1.1)
"""Of quaternions that are rotations up to rounding; others are counters, zeros or averages."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LinkSensor(Sensor):
    """A sensor with a frame of its own, fixed to a link.

    Attributes:
        mount: where it sits.
    """

    mount: Mount

    @property
    def place(self) -> str:
        return f"frame {self.mount.frame}"

    def placement(self, robot: Robot) -> LinkPlacement:
        """Its place on a link of this robot."""
        return self.mount.locate(robot, self.who)


class Gyroscope(LinkSensor):
    """Three axes of angular velocity [rad/s]."""

    kind, components, units = "gyroscope", ("x", "y", "z"), ("rad/s",) * 3

    def measurement(self, robot: Robot) -> Measurement:
        place = self.placement(robot)
        return Measurement(3, link=place.link, linear=place.motion[3:])


class Accelerometer(LinkSensor):
    """Three axes of proper acceleration [m/s²]."""

    kind, components, units = "accelerometer", ("x", "y", "z"), ("m/s²",) * 3

    def measurement(self, robot: Robot) -> Measurement:
        place = self.placement(robot)
        Q = centripetal(place.R, place.p)
        return Measurement(3, link=place.link, acceleration=place.motion[:3], quadratic=Q)


class AngularAccelerometer(LinkSensor):
    """Three axes of angular acceleration [rad/s²]."""

    kind, components, units = "angular_accelerometer", ("x", "y", "z"), ("rad/s²",) * 3

    def measurement(self, robot: Robot) -> Measurement:
        place = self.placement(robot)
        return Measurement(3, link=place.link, acceleration=place.motion[3:])


class Orientation(LinkSensor):
    """The orientation of the mount in the world, as an IMU with a filter gives it.

    The channels name the quaternion x, y, z, w of R_world_sensor in this order, w last, wherever
    they stand in a log; q and -q are the same orientation. The reading that counts is its rotation
    vector. The noise and a bias are rotation vectors in the sensor's frame, so that the covariance
    is (3, 3) in rad².
    """

    kind, components, units = "orientation", ("x", "y", "z", "w"), ("",) * 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.constant is not None and abs(float(np.sum(self.constant**2)) - 1.0) > 1e-3:
            raise ShapeError(
                f"the constant reading of {self.who} is no unit quaternion x, y, z, w: the "
                "identity is [0, 0, 0, 1]."
            )
        ends = [channel.rpartition(".")[2].lower() for channel in self.channels]
        if sorted(ends) == sorted(self.components) and ends != list(self.components):
            raise ShapeError(
                f"channels of {self.who} are {', '.join(self.channels)}: give them as x, y, z, w, "
                "with w last."
            )

    @classmethod
    def readings(cls, n_channels: int) -> int:
        """Three, as many as a rotation has degrees of freedom."""
        return 3

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        return tuple((axis, "rad") for axis in "xyz")

    def reading(self, values: ArrayLike) -> Array:
        """(..., 3) rotation vectors [rad] of R_world_sensor, from quaternions (..., 4).

        Quaternions are normalised; one whose length is far from 1 counts as absent.
        """
        quaternion = super().reading(values)
        length = np.linalg.norm(quaternion, axis=-1, keepdims=True)
        valid = (length > _QUATERNION_LENGTHS[0]) & (length < _QUATERNION_LENGTHS[1])
        return log_quaternion(np.where(valid, quaternion, np.nan))

    def measurement(self, robot: Robot) -> Measurement:
        place = self.placement(robot)
        return Measurement(3, link=place.link, rotation=place.R)
