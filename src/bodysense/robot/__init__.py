"""Robots: descriptions, parameters, regressors and what of them is identifiable."""

from bodysense.robot.actuators import Actuators
from bodysense.robot.base_parameters import BaseParameters, base_parameters
from bodysense.robot.controller import Controller
from bodysense.robot.dynamics import forward_dynamics, inverse_dynamics, mass_matrix
from bodysense.robot.energy import energy_regressor, power_regressor, work_regressor
from bodysense.robot.friction import (
    Friction,
    FrictionModel,
    friction_model,
    friction_models,
    register_friction_model,
)
from bodysense.robot.layout import ParameterLayout
from bodysense.robot.load import load_robot
from bodysense.robot.mjcf_writer import write_mjcf
from bodysense.robot.regressors import contact_map, gravity_regressor, torque_regressor
from bodysense.robot.robot import Robot, Source
from bodysense.robot.urdf_writer import write_urdf

__all__ = [
    "Actuators",
    "BaseParameters",
    "Controller",
    "Friction",
    "FrictionModel",
    "ParameterLayout",
    "Robot",
    "Source",
    "base_parameters",
    "contact_map",
    "energy_regressor",
    "forward_dynamics",
    "friction_model",
    "friction_models",
    "gravity_regressor",
    "inverse_dynamics",
    "load_robot",
    "mass_matrix",
    "power_regressor",
    "register_friction_model",
    "torque_regressor",
    "work_regressor",
    "write_mjcf",
    "write_urdf",
]
