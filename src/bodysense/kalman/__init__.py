"""Kalman filters, a particle filter and a smoother for systems with unknown parameters."""

from bodysense.kalman.filters import CDKF, EKF, FILTERS, SRCDKF, SREKF, SRUKF, UKF, state_filter
from bodysense.kalman.forms import Correction, FilterPrediction, StateFilter
from bodysense.kalman.model import Belief, CovarianceBelief, RootBelief, StateModel
from bodysense.kalman.particle import ParticleFilter, run_particles
from bodysense.kalman.run import FilterRun, History, Restarts, Smoothed, run_filter, smooth

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
    "FilterPrediction",
    "FilterRun",
    "History",
    "ParticleFilter",
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
