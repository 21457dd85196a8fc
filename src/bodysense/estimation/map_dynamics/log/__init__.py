"""Estimates from recordings: channels and times of a log, its estimates, and files of them."""

from bodysense.estimation.map_dynamics.log.estimate import LogChunk, LogEstimate, estimate_log
from bodysense.estimation.map_dynamics.log.files import LogFiles
from bodysense.estimation.map_dynamics.log.recording import Recording
from bodysense.estimation.map_dynamics.log.totals import LogTotals

__all__ = ["LogChunk", "LogEstimate", "LogFiles", "LogTotals", "Recording", "estimate_log"]
