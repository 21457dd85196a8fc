"""Robots: descriptions, parameters, regressors and what of them is identifiable."""

from bodysense.robot.actuators import Actuators, Controller, suggested_controller
from bodysense.robot.base_parameters import BaseParameters, base_parameters
from bodysense.robot.checks.check import RobotCheck, check_robot
from bodysense.robot.dynamics import (
    contact_map,
    energy_regressor,
    forward_dynamics,
    gravity_regressor,
    inverse_dynamics,
    mass_matrix,
    power_regressor,
    torque_regressor,
    work,
    work_regressor,
)
from bodysense.robot.frames import with_payload
from bodysense.robot.friction import (
    Friction,
    FrictionModel,
    friction_model,
    friction_models,
    register_friction_model,
)
from bodysense.robot.inspection import Inspection, inspect_robot
from bodysense.robot.io.actuator_writer import actuator_text, write_actuators
from bodysense.robot.io.joint_values import joint_values, write_joint_values
from bodysense.robot.io.load import builtin_names, example_robot_names, load_robot
from bodysense.robot.io.mjcf_writer import mjcf_notes, write_mjcf
from bodysense.robot.io.urdf import write_urdf
from bodysense.robot.io.urdf_fresh import urdf_notes
from bodysense.robot.layout import ParameterLayout
from bodysense.robot.mounting import gravity_of_mount, with_gravity
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.collisions import Closest, Collisions, NearPairs
from bodysense.robot.shapes.hull import Hull
from bodysense.robot.shapes.link_shapes import LinkHulls, link_hulls
from bodysense.robot.shapes.workspace import Workspace, WorkspaceMargins
from bodysense.robot.source import Source

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
    "NearPairs",
    "ParameterLayout",
    "Robot",
    "RobotCheck",
    "Source",
    "Workspace",
    "WorkspaceMargins",
    "actuator_text",
    "base_parameters",
    "builtin_names",
    "check_robot",
    "contact_map",
    "energy_regressor",
    "example_robot_names",
    "forward_dynamics",
    "friction_model",
    "friction_models",
    "gravity_of_mount",
    "gravity_regressor",
    "inspect_robot",
    "inverse_dynamics",
    "joint_values",
    "link_hulls",
    "load_robot",
    "mass_matrix",
    "mjcf_notes",
    "power_regressor",
    "register_friction_model",
    "suggested_controller",
    "torque_regressor",
    "urdf_notes",
    "with_gravity",
    "with_payload",
    "work",
    "work_regressor",
    "write_actuators",
    "write_joint_values",
    "write_mjcf",
    "write_urdf",
]
