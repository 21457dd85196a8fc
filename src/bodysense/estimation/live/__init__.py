"""Estimates from a stream while it comes."""

from bodysense.estimation.live.estimator import LiveEstimator
from bodysense.estimation.live.loop import LiveRun, estimate_live

__all__ = ["LiveEstimator", "LiveRun", "estimate_live"]
