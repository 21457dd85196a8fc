"""Kalman filters, a particle filter and a smoother for systems with unknown parameters."""

from bodysense.kalman.filters import (
    FILTERS,
    Correction,
    CovarianceFilter,
    RootFilter,
    StateFilter,
    StatePrediction,
    state_filter,
)
from bodysense.kalman.kinds import CentralDifferences, Extended, FilterKind, Unscented
from bodysense.kalman.model import CovarianceState, GaussianState, RootState, StateModel
from bodysense.kalman.motion import IntegratorChain
from bodysense.kalman.particle import ParticleFilter, run_particles
from bodysense.kalman.run import FilterRun, History, Restarts, Smoothed, run_filter, smooth

__all__ = [
    "FILTERS",
    "CentralDifferences",
    "Correction",
    "CovarianceFilter",
    "CovarianceState",
    "Extended",
    "FilterKind",
    "FilterRun",
    "GaussianState",
    "History",
    "IntegratorChain",
    "ParticleFilter",
    "Restarts",
    "RootFilter",
    "RootState",
    "Smoothed",
    "StateFilter",
    "StateModel",
    "StatePrediction",
    "Unscented",
    "run_filter",
    "run_particles",
    "smooth",
    "state_filter",
]
