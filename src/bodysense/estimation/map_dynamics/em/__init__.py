"""Covariances of sensors and model from a log, by expectation maximisation (EM)."""

from bodysense.estimation.map_dynamics.em.em import estimate_covariances
from bodysense.estimation.map_dynamics.em.result import CovarianceFit
from bodysense.estimation.map_dynamics.em.variances import InverseWishart

__all__ = ["CovarianceFit", "InverseWishart", "estimate_covariances"]
