"""bodysense tells a robot what its body is, how it moves and what touches it.

Names are imported when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bodysense.lazy import import_on_use

if TYPE_CHECKING:
    from bodysense.errors import BodysenseError as BodysenseError
    from bodysense.estimation import Assumptions as Assumptions
    from bodysense.estimation import EstimationRun as EstimationRun
    from bodysense.estimation import EstimationSetup as EstimationSetup
    from bodysense.estimation import EstimatorStream as EstimatorStream
    from bodysense.estimation import GaussianPrior as GaussianPrior
    from bodysense.estimation import LogEstimate as LogEstimate
    from bodysense.estimation import MapDynamics as MapDynamics
    from bodysense.estimation import Observability as Observability
    from bodysense.estimation import Posterior as Posterior
    from bodysense.estimation import Sample as Sample
    from bodysense.estimation import estimate_log as estimate_log
    from bodysense.estimation import load_estimation as load_estimation
    from bodysense.estimation import observability as observability
    from bodysense.excitation import Design as Design
    from bodysense.excitation import FourierTrajectory as FourierTrajectory
    from bodysense.excitation import HoldTrajectory as HoldTrajectory
    from bodysense.excitation import SampledTrajectory as SampledTrajectory
    from bodysense.excitation import design_motion as design_motion
    from bodysense.excitation import design_poses as design_poses
    from bodysense.identification import Identification as Identification
    from bodysense.identification import IdentificationRun as IdentificationRun
    from bodysense.identification import Knowledge as Knowledge
    from bodysense.identification import Preprocessing as Preprocessing
    from bodysense.identification import Regression as Regression
    from bodysense.identification import examine as examine
    from bodysense.identification import identify as identify
    from bodysense.identification.payload.drive_gains import DriveGains as DriveGains
    from bodysense.identification.payload.identify_drive_gains import (
        identify_drive_gains as identify_drive_gains,
    )
    from bodysense.identification.payload.identify_payload import (
        identify_payload as identify_payload,
    )
    from bodysense.identification.payload.payload import Payload as Payload
    from bodysense.logs import Log as Log
    from bodysense.logs import read_log as read_log
    from bodysense.logs import write_log as write_log
    from bodysense.report import write_identification_page as write_identification_page
    from bodysense.robot import Actuators as Actuators
    from bodysense.robot import BaseParameters as BaseParameters
    from bodysense.robot import Controller as Controller
    from bodysense.robot import Friction as Friction
    from bodysense.robot import ParameterLayout as ParameterLayout
    from bodysense.robot import Robot as Robot
    from bodysense.robot import RobotCheck as RobotCheck
    from bodysense.robot import base_parameters as base_parameters
    from bodysense.robot import check_robot as check_robot
    from bodysense.robot import load_robot as load_robot
    from bodysense.robot import register_friction_model as register_friction_model
    from bodysense.robot import suggested_controller as suggested_controller
    from bodysense.robot import with_payload as with_payload
    from bodysense.robot import write_actuators as write_actuators
    from bodysense.robot import write_mjcf as write_mjcf
    from bodysense.robot import write_urdf as write_urdf
    from bodysense.sensors import Sensor as Sensor
    from bodysense.sensors import load_sensors as load_sensors
    from bodysense.sensors import urdf_sensors as urdf_sensors
    from bodysense.simulation import Rollout as Rollout
    from bodysense.simulation import Sensitivities as Sensitivities
    from bodysense.simulation import rollout as rollout
    from bodysense.simulation import sensitivities as sensitivities

_HOMES = {
    "Actuators": "robot",
    "Assumptions": "estimation",
    "BaseParameters": "robot",
    "BodysenseError": "errors",
    "Controller": "robot",
    "Design": "excitation",
    "DriveGains": "identification.payload.drive_gains",
    "EstimationRun": "estimation",
    "EstimationSetup": "estimation",
    "EstimatorStream": "estimation",
    "FourierTrajectory": "excitation",
    "Friction": "robot",
    "GaussianPrior": "estimation",
    "HoldTrajectory": "excitation",
    "Identification": "identification",
    "IdentificationRun": "identification",
    "Knowledge": "identification",
    "Log": "logs",
    "LogEstimate": "estimation",
    "MapDynamics": "estimation",
    "Observability": "estimation",
    "ParameterLayout": "robot",
    "Payload": "identification.payload.payload",
    "Posterior": "estimation",
    "Preprocessing": "identification",
    "Regression": "identification",
    "Robot": "robot",
    "RobotCheck": "robot",
    "Rollout": "simulation",
    "Sample": "estimation",
    "SampledTrajectory": "excitation",
    "Sensitivities": "simulation",
    "Sensor": "sensors",
    "base_parameters": "robot",
    "check_robot": "robot",
    "design_motion": "excitation",
    "design_poses": "excitation",
    "estimate_log": "estimation",
    "examine": "identification",
    "identify": "identification",
    "identify_drive_gains": "identification.payload.identify_drive_gains",
    "identify_payload": "identification.payload.identify_payload",
    "load_estimation": "estimation",
    "load_robot": "robot",
    "load_sensors": "sensors",
    "observability": "estimation",
    "read_log": "logs",
    "register_friction_model": "robot",
    "rollout": "simulation",
    "sensitivities": "simulation",
    "suggested_controller": "robot",
    "urdf_sensors": "sensors",
    "with_payload": "robot",
    "write_actuators": "robot",
    "write_identification_page": "report",
    "write_log": "logs",
    "write_mjcf": "robot",
    "write_urdf": "robot",
}
"""Module of each name, which is imported when the name is first used."""

_import, _names = import_on_use(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("bodysense")
    return _import(name)


def __dir__() -> list[str]:
    return [*_names(), "__version__"]
