"""Sensors mounted on a robot: where they sit, what they read, how well."""

from bodysense.sensors.contact_sensors import DirectedContact, SkinPatch
from bodysense.sensors.force_torque import ExternalWrench, ForceTorque
from bodysense.sensors.inertial_sensors import (
    Accelerometer,
    AngularAccelerometer,
    Gyroscope,
    Orientation,
)
from bodysense.sensors.joint_sensors import Encoder, JointAcceleration, JointTorque, JointVelocity
from bodysense.sensors.kinds import SENSORS
from bodysense.sensors.measurement import Measurement
from bodysense.sensors.mount import Mount
from bodysense.sensors.sensor import Sensor, variances
from bodysense.sensors.sensor_file import load_sensors, parse_sensors
from bodysense.sensors.urdf_sensors import TYPICAL_STD, UrdfSensors, urdf_sensors

__all__ = [
    "SENSORS",
    "TYPICAL_STD",
    "Accelerometer",
    "AngularAccelerometer",
    "DirectedContact",
    "Encoder",
    "ExternalWrench",
    "ForceTorque",
    "Gyroscope",
    "JointAcceleration",
    "JointTorque",
    "JointVelocity",
    "Measurement",
    "Mount",
    "Orientation",
    "Sensor",
    "SkinPatch",
    "UrdfSensors",
    "load_sensors",
    "parse_sensors",
    "urdf_sensors",
    "variances",
]
