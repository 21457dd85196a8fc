"""Sensors mounted on a robot: where they sit, what they read, how well."""

from bodysense.robot.sensors.accelerometer import Accelerometer
from bodysense.robot.sensors.angular_accelerometer import AngularAccelerometer
from bodysense.robot.sensors.covariance import variances
from bodysense.robot.sensors.directed_contact import DirectedContact
from bodysense.robot.sensors.encoder import Encoder
from bodysense.robot.sensors.external_wrench import ExternalWrench
from bodysense.robot.sensors.force_torque import ForceTorque
from bodysense.robot.sensors.gyroscope import Gyroscope
from bodysense.robot.sensors.joint_acceleration import JointAcceleration
from bodysense.robot.sensors.joint_torque import JointTorque
from bodysense.robot.sensors.joint_velocity import JointVelocity
from bodysense.robot.sensors.kinds import SENSORS
from bodysense.robot.sensors.measurement import Measurement
from bodysense.robot.sensors.mount import Mount
from bodysense.robot.sensors.orientation import Orientation
from bodysense.robot.sensors.sensor import Sensor
from bodysense.robot.sensors.sensor_file import load_sensors, parse_sensors
from bodysense.robot.sensors.skin_patch import SkinPatch
from bodysense.robot.sensors.urdf_sensors import TYPICAL_STD, UrdfSensors, urdf_sensors

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
