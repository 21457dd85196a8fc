"""bodysense tells a robot what its body is, how it moves and what touches it.

The names below are loaded when they are first used, so that importing the package costs nothing:
at run time the imports do not happen, they say where each name is at home.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING

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
    from bodysense.robot import base_parameters as base_parameters
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


@cache
def _homes() -> dict[str, str]:
    """The module of every name, from the imports above."""
    import ast
    import pkgutil

    source = ast.parse(pkgutil.get_data(__name__, "__init__.py") or b"")
    imports = (node for node in ast.walk(source) if isinstance(node, ast.ImportFrom))
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}
    return {name: home for name, home in homes.items() if home.startswith(f"{__name__}.")}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("bodysense")
    if name == "__all__":
        return sorted(_homes())
    if name in _homes():
        return getattr(importlib.import_module(_homes()[name]), name)
    raise AttributeError(f"module 'bodysense' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_homes(), "__version__"])
