"""What the robot feels: accelerations, torques and wrenches from whatever sensors it has."""

from bodysense.estimation.contact.detector import DetectionSettings
from bodysense.estimation.contact.estimator_evidence import EstimatorContacts
from bodysense.estimation.contact.momentum_evidence import MomentumContacts
from bodysense.estimation.contact.ongoing import ContactState, OngoingContact
from bodysense.estimation.contact.online import ContactDetector
from bodysense.estimation.map_dynamics.base_motion import RootTwist, StandingFeet, root_twist
from bodysense.estimation.map_dynamics.consistency import SensorConsistency, consistency
from bodysense.estimation.map_dynamics.em.em import CovarianceFit, estimate_covariances
from bodysense.estimation.map_dynamics.em.variances import InverseWishart
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.estimate import LogChunk, LogEstimate
from bodysense.estimation.map_dynamics.log.files import EstimatedCurves, LogFiles
from bodysense.estimation.map_dynamics.log.prepare import prepare_log
from bodysense.estimation.map_dynamics.log.run import EstimationRun, estimate_log, solve_log
from bodysense.estimation.map_dynamics.log.state_estimate import StateLogEstimate
from bodysense.estimation.map_dynamics.log.totals import LogTotals, StateTotals
from bodysense.estimation.map_dynamics.observability import Observability, observability
from bodysense.estimation.map_dynamics.priors import Assumptions, GaussianPrior
from bodysense.estimation.map_dynamics.setup import AttachedBody, EstimationSetup, StateSetup
from bodysense.estimation.map_dynamics.setup_file import load_estimation, parse_estimation
from bodysense.estimation.map_dynamics.state.estimator import StateAndDynamics
from bodysense.estimation.map_dynamics.state.posterior import StatePosterior
from bodysense.estimation.map_dynamics.state.prior import StatePrior, theta_covariance
from bodysense.estimation.map_dynamics.state.tracking import StateSmoother, StateTracker
from bodysense.estimation.map_dynamics.stream import EstimatorStream, Sample
from bodysense.estimation.momentum.estimate import AssumedContact, LinkScores, MomentumEstimate
from bodysense.estimation.momentum.motionless import MotionlessRows, motionless_rows
from bodysense.estimation.momentum.observer import MomentumObserver
from bodysense.estimation.momentum.stream import MomentumStream
from bodysense.estimation.posterior import Posterior
from bodysense.estimation.wrench_frame import FrameWrench, wrench_in

__all__ = [
    "AssumedContact",
    "Assumptions",
    "AttachedBody",
    "ContactDetector",
    "ContactState",
    "CovarianceFit",
    "DetectionSettings",
    "EstimatedCurves",
    "EstimationRun",
    "EstimationSetup",
    "EstimatorContacts",
    "EstimatorStream",
    "FrameWrench",
    "GaussianPrior",
    "InverseWishart",
    "LinkScores",
    "LogChunk",
    "LogEstimate",
    "LogFiles",
    "LogTotals",
    "MapDynamics",
    "MomentumContacts",
    "MomentumEstimate",
    "MomentumObserver",
    "MomentumStream",
    "MotionlessRows",
    "Observability",
    "OngoingContact",
    "Posterior",
    "RootTwist",
    "Sample",
    "SensorConsistency",
    "StandingFeet",
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
    "motionless_rows",
    "observability",
    "parse_estimation",
    "prepare_log",
    "root_twist",
    "solve_log",
    "theta_covariance",
    "wrench_in",
]
