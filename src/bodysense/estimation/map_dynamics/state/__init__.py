"""Positions and velocities estimated together with the dynamics: a moment, a track, a window."""

from bodysense.estimation.map_dynamics.state.estimator import StateAndDynamics
from bodysense.estimation.map_dynamics.state.nuisances import theta_covariance
from bodysense.estimation.map_dynamics.state.posterior import StatePosterior
from bodysense.estimation.map_dynamics.state.prior import StateBelief
from bodysense.estimation.map_dynamics.state.smoothing import StateSmoother
from bodysense.estimation.map_dynamics.state.tracker import StateTracker

__all__ = [
    "StateAndDynamics",
    "StateBelief",
    "StatePosterior",
    "StateSmoother",
    "StateTracker",
    "theta_covariance",
]
