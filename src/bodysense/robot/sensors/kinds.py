"""`SENSORS`: all kinds of sensors, by the word for them in files."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bodysense.robot.sensors.accelerometer import Accelerometer
from bodysense.robot.sensors.angular_accelerometer import AngularAccelerometer
from bodysense.robot.sensors.directed_contact import DirectedContact
from bodysense.robot.sensors.encoder import Encoder
from bodysense.robot.sensors.external_wrench import ExternalWrench
from bodysense.robot.sensors.force_torque import ForceTorque
from bodysense.robot.sensors.gyroscope import Gyroscope
from bodysense.robot.sensors.joint_acceleration import JointAcceleration
from bodysense.robot.sensors.joint_torque import JointTorque
from bodysense.robot.sensors.joint_velocity import JointVelocity
from bodysense.robot.sensors.orientation import Orientation
from bodysense.robot.sensors.sensor import Sensor
from bodysense.robot.sensors.skin_patch import SkinPatch

SENSORS: Mapping[str, type[Sensor]] = MappingProxyType(
    {
        kind.kind: kind
        for kind in (
            Encoder,
            JointVelocity,
            JointAcceleration,
            JointTorque,
            Gyroscope,
            Accelerometer,
            AngularAccelerometer,
            Orientation,
            ForceTorque,
            ExternalWrench,
            SkinPatch,
            DirectedContact,
        )
    }
)
