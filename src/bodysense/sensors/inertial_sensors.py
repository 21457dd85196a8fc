"""`LinkSensor`: a sensor with a frame of its own, fixed to a link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.sensors.measurement import Measurement, centripetal
from bodysense.sensors.sensor import Mount, Mounted, Sensor
from bodysense.spatial.arrays import Array
from bodysense.spatial.se3 import log_quaternion

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


# `Gyroscope`: reads the angular velocity of a link, in its own axes.
#
# y = R_link_sensorᵀ omega


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Gyroscope(LinkSensor):
    """Three axes of angular velocity [rad/s]."""

    kind: ClassVar[str] = "gyroscope"
    components: ClassVar[tuple[str, ...]] = ("x", "y", "z")
    units: ClassVar[tuple[str, ...]] = ("rad/s",) * 3

    def measurement(self, robot: Robot) -> Measurement:
        """Coefficients of the readings."""
        place = self.mounted(robot)
        return Measurement(3, link=place.link, linear=place.motion[3:])


# `Accelerometer`: reads the proper acceleration of the point where it sits, in its own axes.
#
#     y = Rᵀ (a_linear + omega_dot × p + omega × (v_linear + omega × p))
#
# a, omega_dot, v, omega: proper spatial acceleration and twist of the link in its frame; the last
# term makes the classical acceleration of a point out of the spatial one. At rest y = -Rᵀ g.


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Accelerometer(LinkSensor):
    """Three axes of proper acceleration [m/s²]."""

    kind: ClassVar[str] = "accelerometer"
    components: ClassVar[tuple[str, ...]] = ("x", "y", "z")
    units: ClassVar[tuple[str, ...]] = ("m/s²",) * 3

    def measurement(self, robot: Robot) -> Measurement:
        """Coefficients of the readings."""
        place = self.mounted(robot)
        return Measurement(
            3,
            link=place.link,
            acceleration=place.motion[:3],
            quadratic=centripetal(place.R, place.p),
        )


# `AngularAccelerometer`: reads the angular acceleration of a link, in its own axes.
#
# y = R_link_sensorᵀ omega_dot


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AngularAccelerometer(LinkSensor):
    """Three axes of angular acceleration [rad/s²]."""

    kind: ClassVar[str] = "angular_accelerometer"
    components: ClassVar[tuple[str, ...]] = ("x", "y", "z")
    units: ClassVar[tuple[str, ...]] = ("rad/s²",) * 3

    def measurement(self, robot: Robot) -> Measurement:
        """Coefficients of the readings."""
        place = self.mounted(robot)
        return Measurement(3, link=place.link, acceleration=place.motion[3:])


# `Orientation`: reads how its frame is turned in the world, as an IMU with a filter does.
#
#     R_world_sensor(y) = R_world_link R_link_sensor Exp(noise)
#
# The channels name the quaternion x, y, z, w of R_world_sensor in this order, w last, wherever they
# stand in a log; q and -q are the same orientation. The reading that counts is its rotation vector.
# The noise and a bias are rotation vectors in the sensor's frame, so that the covariance is (3, 3)
# in rad².

_LENGTHS = (0.9, 1.1)
"""Of quaternions that are rotations but for rounding; others are counters, zeros or averages."""


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
        """Of the rotation vector."""
        return tuple((axis, "rad") for axis in "xyz")

    def reading(self, values: ArrayLike) -> Array:
        """(..., 3) rotation vectors [rad] of R_world_sensor, from quaternions (..., 4).

        Quaternions are normalised; one whose length is far from 1 is no orientation, and absent.
        """
        quaternion = super().reading(values)
        length = np.linalg.norm(quaternion, axis=-1, keepdims=True)
        good = (length > _LENGTHS[0]) & (length < _LENGTHS[1])
        return log_quaternion(np.where(good, quaternion, np.nan))

    def measurement(self, robot: Robot) -> Measurement:
        """Where the frame is on its link."""
        place = self.mounted(robot)
        return Measurement(3, link=place.link, rotation=place.R)
