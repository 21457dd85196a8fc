"""Robots: descriptions, parameters, regressors and what of them is identifiable."""

from bodysense.robot.actuators import Actuators
from bodysense.robot.base_parameters import BaseParameters, base_parameters
from bodysense.robot.builtin import builtin_names
from bodysense.robot.collisions import Closest, Collisions, NearPairs
from bodysense.robot.controller import Controller
from bodysense.robot.controller_design import suggested_controller
from bodysense.robot.dynamics import forward_dynamics, inverse_dynamics, mass_matrix
from bodysense.robot.energy import energy_regressor, power_regressor, work, work_regressor
from bodysense.robot.example_robots import example_robot_names
from bodysense.robot.friction import (
    Friction,
    FrictionModel,
    friction_model,
    friction_models,
    register_friction_model,
)
from bodysense.robot.hull import Hull
from bodysense.robot.inspection import Inspection, inspect_robot
from bodysense.robot.layout import ParameterLayout
from bodysense.robot.load import load_robot
from bodysense.robot.mjcf_writer import mjcf_notes, write_mjcf
from bodysense.robot.payload import with_payload
from bodysense.robot.regressors import contact_map, gravity_regressor, torque_regressor
from bodysense.robot.robot import Robot
from bodysense.robot.sensors import Mount, Sensor, load_sensors, parse_sensors, urdf_sensors
from bodysense.robot.shapes import LinkHulls, link_hulls
from bodysense.robot.sidecar_writer import actuator_text, write_actuators
from bodysense.robot.source import Source
from bodysense.robot.urdf_fresh import urdf_notes
from bodysense.robot.urdf_writer import write_urdf
from bodysense.robot.workspace import Workspace, WorkspaceMargins

__all__ = [
    "Actuators",
    "BaseParameters",
    "Closest",
    "Collisions",
    "Controller",
    "Friction",
    "FrictionModel",
    "Hull",
    "Inspection",
    "LinkHulls",
    "Mount",
    "NearPairs",
    "ParameterLayout",
    "Robot",
    "Sensor",
    "Source",
    "Workspace",
    "WorkspaceMargins",
    "actuator_text",
    "base_parameters",
    "builtin_names",
    "contact_map",
    "energy_regressor",
    "example_robot_names",
    "forward_dynamics",
    "friction_model",
    "friction_models",
    "gravity_regressor",
    "inspect_robot",
    "inverse_dynamics",
    "link_hulls",
    "load_robot",
    "load_sensors",
    "mass_matrix",
    "mjcf_notes",
    "parse_sensors",
    "power_regressor",
    "register_friction_model",
    "suggested_controller",
    "torque_regressor",
    "urdf_notes",
    "urdf_sensors",
    "with_payload",
    "work",
    "work_regressor",
    "write_actuators",
    "write_mjcf",
    "write_urdf",
]
