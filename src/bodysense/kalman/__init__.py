"""Kalman filters, a particle filter and a smoother for systems with unknown parameters."""

from bodysense.kalman.belief import Belief, CovarianceBelief, RootBelief
from bodysense.kalman.cdkf import CDKF
from bodysense.kalman.ekf import EKF
from bodysense.kalman.filter_run import FilterRun, Restarts
from bodysense.kalman.filters import FILTERS, state_filter
from bodysense.kalman.history import History
from bodysense.kalman.model import StateModel
from bodysense.kalman.particle import ParticleFilter, run_particles
from bodysense.kalman.run import run_filter
from bodysense.kalman.smoother import Smoothed, smooth
from bodysense.kalman.srcdkf import SRCDKF
from bodysense.kalman.srekf import SREKF
from bodysense.kalman.srukf import SRUKF
from bodysense.kalman.state_filter import Correction, Prediction, StateFilter
from bodysense.kalman.ukf import UKF

__all__ = [
    "CDKF",
    "EKF",
    "FILTERS",
    "SRCDKF",
    "SREKF",
    "SRUKF",
    "UKF",
    "Belief",
    "Correction",
    "CovarianceBelief",
    "FilterRun",
    "History",
    "ParticleFilter",
    "Prediction",
    "Restarts",
    "RootBelief",
    "Smoothed",
    "StateFilter",
    "StateModel",
    "run_filter",
    "run_particles",
    "smooth",
    "state_filter",
]
