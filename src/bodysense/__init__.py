"""bodysense tells a robot what its body is, how it moves and what touches it.

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bodysense.errors import BodysenseError
    from bodysense.estimation import (
        Assumptions,
        EstimationRun,
        EstimationSetup,
        EstimatorStream,
        GaussianPrior,
        LogEstimate,
        MapDynamics,
        Observability,
        Posterior,
        Sample,
        estimate_log,
        load_estimation,
        observability,
    )
    from bodysense.excitation import (
        Design,
        FourierTrajectory,
        HoldTrajectory,
        SampledTrajectory,
        design_motion,
        design_poses,
    )
    from bodysense.identification import (
        Identification,
        IdentificationRun,
        Knowledge,
        Preprocessing,
        Regression,
        examine,
        identify,
    )
    from bodysense.identification.payload.drive_gains import DriveGains
    from bodysense.identification.payload.identify_drive_gains import identify_drive_gains
    from bodysense.identification.payload.identify_payload import identify_payload
    from bodysense.identification.payload.payload import Payload
    from bodysense.logs import Log, read_log, write_log
    from bodysense.report import write_identification_page
    from bodysense.robot import (
        Actuators,
        BaseParameters,
        Controller,
        Friction,
        ParameterLayout,
        Robot,
        base_parameters,
        load_robot,
        register_friction_model,
        suggested_controller,
        with_payload,
        write_actuators,
        write_mjcf,
        write_urdf,
    )
    from bodysense.sensors import Sensor, load_sensors, urdf_sensors
    from bodysense.simulation import Rollout, Sensitivities, rollout, sensitivities

_HOME = {
    "bodysense.errors": ("BodysenseError",),
    "bodysense.estimation": (
        "Assumptions",
        "GaussianPrior",
        "EstimationRun",
        "EstimationSetup",
        "EstimatorStream",
        "LogEstimate",
        "MapDynamics",
        "Observability",
        "Posterior",
        "Sample",
        "estimate_log",
        "load_estimation",
        "observability",
    ),
    "bodysense.excitation": (
        "Design",
        "FourierTrajectory",
        "HoldTrajectory",
        "SampledTrajectory",
        "design_motion",
        "design_poses",
    ),
    "bodysense.identification": (
        "Identification",
        "IdentificationRun",
        "Knowledge",
        "Preprocessing",
        "Regression",
        "examine",
        "identify",
    ),
    "bodysense.identification.payload": (
        "DriveGains",
        "Payload",
        "identify_drive_gains",
        "identify_payload",
    ),
    "bodysense.report": ("write_identification_page",),
    "bodysense.robot": (
        "Actuators",
        "BaseParameters",
        "Controller",
        "Friction",
        "ParameterLayout",
        "Robot",
        "base_parameters",
        "load_robot",
        "register_friction_model",
        "suggested_controller",
        "with_payload",
        "write_actuators",
        "write_mjcf",
        "write_urdf",
    ),
    "bodysense.sensors": ("Sensor", "load_sensors", "urdf_sensors"),
    "bodysense.logs": ("Log", "read_log", "write_log"),
    "bodysense.simulation": ("Rollout", "Sensitivities", "rollout", "sensitivities"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Actuators",
    "Assumptions",
    "BaseParameters",
    "BodysenseError",
    "Controller",
    "Design",
    "DriveGains",
    "EstimationRun",
    "EstimationSetup",
    "EstimatorStream",
    "FourierTrajectory",
    "Friction",
    "GaussianPrior",
    "HoldTrajectory",
    "Identification",
    "IdentificationRun",
    "Knowledge",
    "Log",
    "LogEstimate",
    "MapDynamics",
    "Observability",
    "ParameterLayout",
    "Payload",
    "Posterior",
    "Preprocessing",
    "Regression",
    "Robot",
    "Rollout",
    "Sample",
    "SampledTrajectory",
    "Sensitivities",
    "Sensor",
    "base_parameters",
    "design_motion",
    "design_poses",
    "estimate_log",
    "examine",
    "identify",
    "identify_drive_gains",
    "identify_payload",
    "load_estimation",
    "load_robot",
    "load_sensors",
    "observability",
    "read_log",
    "register_friction_model",
    "rollout",
    "sensitivities",
    "suggested_controller",
    "urdf_sensors",
    "with_payload",
    "write_actuators",
    "write_identification_page",
    "write_log",
    "write_mjcf",
    "write_urdf",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("bodysense")
    if name in _MODULE_OF:
        return getattr(importlib.import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'bodysense' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
