"""What the robot feels: accelerations, torques and wrenches from whatever sensors it has."""

from bodysense.estimation.map_dynamics.assumptions import Assumptions
from bodysense.estimation.map_dynamics.belief import Belief
from bodysense.estimation.map_dynamics.consistency import Consistency, consistency
from bodysense.estimation.map_dynamics.estimation_file import load_estimation, parse_estimation
from bodysense.estimation.map_dynamics.estimation_setup import EstimationSetup
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log_estimate import LogChunk, LogEstimate, estimate_log
from bodysense.estimation.map_dynamics.observability import Observability, observability
from bodysense.estimation.map_dynamics.stream import EstimatorStream, Sample
from bodysense.estimation.posterior import Posterior

__all__ = [
    "Assumptions",
    "Belief",
    "Consistency",
    "EstimationSetup",
    "EstimatorStream",
    "LogChunk",
    "LogEstimate",
    "MapDynamics",
    "Observability",
    "Posterior",
    "Sample",
    "consistency",
    "estimate_log",
    "load_estimation",
    "observability",
    "parse_estimation",
]
