"""What the robot feels: accelerations, torques and wrenches from whatever sensors it has."""

from bodysense.estimation.map_dynamics.consistency import SensorConsistency, consistency
from bodysense.estimation.map_dynamics.em import (
    CovarianceFit,
    InverseWishart,
    estimate_covariances,
)
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log import (
    EstimatedCurves,
    EstimationRun,
    LogChunk,
    LogEstimate,
    LogFiles,
    LogTotals,
    StateLogEstimate,
    StateTotals,
    estimate_log,
    prepare_log,
    solve_log,
)
from bodysense.estimation.map_dynamics.observability import Observability, observability
from bodysense.estimation.map_dynamics.priors import Assumptions, GaussianPrior
from bodysense.estimation.map_dynamics.setup import EstimationSetup, StateSetup
from bodysense.estimation.map_dynamics.setup_file import load_estimation, parse_estimation
from bodysense.estimation.map_dynamics.state import (
    StateAndDynamics,
    StatePosterior,
    StatePrior,
    StateSmoother,
    StateTracker,
    theta_covariance,
)
from bodysense.estimation.map_dynamics.stream import EstimatorStream, Sample
from bodysense.estimation.posterior import Posterior

__all__ = [
    "Assumptions",
    "CovarianceFit",
    "EstimatedCurves",
    "EstimationRun",
    "EstimationSetup",
    "EstimatorStream",
    "GaussianPrior",
    "InverseWishart",
    "LogChunk",
    "LogEstimate",
    "LogFiles",
    "LogTotals",
    "MapDynamics",
    "Observability",
    "Posterior",
    "Sample",
    "SensorConsistency",
    "StateAndDynamics",
    "StateLogEstimate",
    "StatePosterior",
    "StatePrior",
    "StateSetup",
    "StateSmoother",
    "StateTotals",
    "StateTracker",
    "consistency",
    "estimate_covariances",
    "estimate_log",
    "load_estimation",
    "observability",
    "parse_estimation",
    "prepare_log",
    "solve_log",
    "theta_covariance",
]
