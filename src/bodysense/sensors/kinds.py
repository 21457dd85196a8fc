"""`SENSORS`: all kinds of sensors, by the word for them in files."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bodysense.sensors.contact_sensors import DirectedContact, SkinPatch
from bodysense.sensors.force_torque import ExternalWrench, ForceTorque
from bodysense.sensors.inertial_sensors import (
    Accelerometer,
    AngularAccelerometer,
    Gyroscope,
    Orientation,
)
from bodysense.sensors.joint_sensors import Encoder, JointAcceleration, JointTorque, JointVelocity
from bodysense.sensors.sensor import Sensor

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
