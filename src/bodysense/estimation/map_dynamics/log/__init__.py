"""Estimates from recordings: channels and times of a log, its estimates, and files of them."""

from bodysense.estimation.map_dynamics.log.estimate import LogChunk, LogEstimate
from bodysense.estimation.map_dynamics.log.files import LogFiles, StateTotals
from bodysense.estimation.map_dynamics.log.pipeline import estimate_log
from bodysense.estimation.map_dynamics.log.recording import Recording
from bodysense.estimation.map_dynamics.log.state_estimate import StateLogEstimate
from bodysense.estimation.map_dynamics.log.totals import LogSeen, LogTotals

__all__ = [
    "LogChunk",
    "LogEstimate",
    "LogFiles",
    "LogSeen",
    "LogTotals",
    "Recording",
    "StateLogEstimate",
    "StateTotals",
    "estimate_log",
]
