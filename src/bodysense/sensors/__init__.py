"""Sensors mounted on a robot: where they sit, what they read, how well."""

from bodysense.sensors.calibration import WrenchCalibration, calibrate_force_torque
from bodysense.sensors.link_motion import LinkMotion
from bodysense.sensors.motion_sensors import (
    Accelerometer,
    AngularAccelerometer,
    Encoder,
    Gyroscope,
    JointAcceleration,
    JointTorque,
    JointVelocity,
    Orientation,
)
from bodysense.sensors.sensor import Measurement, Mount, Sensor, variances
from bodysense.sensors.sensor_file import SENSORS, load_sensors, parse_sensors
from bodysense.sensors.static_poses import StaticPoses, static_poses
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
    "LinkMotion",
    "Measurement",
    "Mount",
    "Orientation",
    "Sensor",
    "SkinPatch",
    "StaticPoses",
    "UrdfSensors",
    "WrenchCalibration",
    "calibrate_force_torque",
    "load_sensors",
    "parse_sensors",
    "static_poses",
    "urdf_sensors",
    "variances",
]
