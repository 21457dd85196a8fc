"""Simulation: closed-loop rollouts of robots, in batches, and their sensitivities."""

from bodysense.simulation.rollout import INTEGRATORS, Rollout, rollout
from bodysense.simulation.sensitivities import Sensitivities, sensitivities

__all__ = ["INTEGRATORS", "Rollout", "Sensitivities", "rollout", "sensitivities"]
