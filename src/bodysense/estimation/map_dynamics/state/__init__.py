"""Positions and velocities estimated together with the dynamics: a sample, a track, a window."""

from bodysense.estimation.map_dynamics.state.estimator import StateAndDynamics
from bodysense.estimation.map_dynamics.state.posterior import StatePosterior
from bodysense.estimation.map_dynamics.state.prior import StatePrior, theta_covariance
from bodysense.estimation.map_dynamics.state.tracking import StateSmoother, StateTracker

__all__ = [
    "StateAndDynamics",
    "StatePosterior",
    "StatePrior",
    "StateSmoother",
    "StateTracker",
    "theta_covariance",
]
