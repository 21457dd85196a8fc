"""Dynamics, regressors and energy of a robot."""
