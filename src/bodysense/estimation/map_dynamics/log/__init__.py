"""Estimates from recordings: channels and times of a log, its estimates, and files of them."""

from bodysense.estimation.map_dynamics.log.estimate import LogChunk, LogEstimate
from bodysense.estimation.map_dynamics.log.files import EstimatedCurves, LogFiles
from bodysense.estimation.map_dynamics.log.prepare import prepare_log
from bodysense.estimation.map_dynamics.log.run import EstimationRun, estimate_log, solve_log
from bodysense.estimation.map_dynamics.log.state_estimate import StateLogEstimate
from bodysense.estimation.map_dynamics.log.totals import LogTotals, StateTotals

__all__ = [
    "EstimatedCurves",
    "EstimationRun",
    "LogChunk",
    "LogEstimate",
    "LogFiles",
    "LogTotals",
    "StateLogEstimate",
    "StateTotals",
    "estimate_log",
    "prepare_log",
    "solve_log",
]
