"""Sensors mounted on a robot: where they sit, what they read, how well."""

from bodysense.sensors.inertial_sensors import (
    Accelerometer,
    AngularAccelerometer,
    Gyroscope,
    Orientation,
)
from bodysense.sensors.joint_sensors import Encoder, JointAcceleration, JointTorque, JointVelocity
from bodysense.sensors.measurement import Measurement
from bodysense.sensors.sensor import Mount, Sensor, variances
from bodysense.sensors.sensor_file import SENSORS, load_sensors, parse_sensors
from bodysense.sensors.urdf_sensors import TYPICAL_STD, UrdfSensors, urdf_sensors
from bodysense.sensors.wrench_sensors import DirectedContact, ExternalWrench, ForceTorque, SkinPatch

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
