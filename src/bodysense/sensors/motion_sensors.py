"""Sensors of motion, of a joint or a link, and of the torque of a joint.

| kind                  | reads, those of links in the sensor's axes                               |
|-----------------------|--------------------------------------------------------------------------|
| encoder               | y = q                                                                    |
| joint_velocity        | y = q̇                                                                    |
| joint_acceleration    | y = q̈                                                                    |
| joint_torque          | y = tau (side: joint), tau + Ia q̈ + friction(q̇) (drive)                  |
| gyroscope             | y = Rᵀ omega                                                             |
| accelerometer         | y = Rᵀ (a_linear + omega_dot × p + omega × (v_linear + omega × p))       |
| angular_accelerometer | y = Rᵀ omega_dot                                                         |
| orientation           | R_world_sensor(y) = R_world_link R Exp(noise)                            |

tau is what the joint transmits along its axis. The drive, whose torque comes from a current, also
accelerates the rotor and overcomes the friction; Ia and the friction are those of the robot.

R = R_link_sensor, p the sensor's origin; a, omega_dot, v, omega: proper spatial acceleration and
twist of the link in its frame. The last term of an accelerometer turns the spatial acceleration
into the classical one of a point; at rest it reads -Rᵀ g.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.sensors.sensor import LinkPlacement, Measurement, Mount, Sensor
from bodysense.spatial.arrays import Array
from bodysense.spatial.se3 import log_quaternion, skew

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot

_ONE = np.ones(1)
_SIDES = ("joint", "drive")
_QUATERNION_LENGTHS = (0.9, 1.1)
"""Of quaternions that are rotations up to rounding; others are counters, zeros or averages."""


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
        Q = _centripetal(place.R, place.p)
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


def _centripetal(R: Array, p: Array) -> Array:
    """(3, 6, 6) Q with vᵀ Q v = Rᵀ (omega × (v_linear + omega × p)), symmetric."""
    product = np.zeros((3, 6, 6))  # of the twist on the left and that on the right
    crosses = skew(np.eye(3))  # e_i ×
    for i in range(3):
        product[:, 3 + i, :3] = R.T @ crosses[i]
        product[:, 3 + i, 3:] = -R.T @ crosses[i] @ skew(p)
    return np.asarray(0.5 * (product + product.swapaxes(1, 2)))
