"""Signals: what was recorded."""

from bodysense.signals.layout import ChannelColumn, LogLayout, RowRange
from bodysense.signals.layout_file import parse_layout, read_layout
from bodysense.signals.log import UNITS, Log
from bodysense.signals.motors import MotorSide
from bodysense.signals.raw_log import RawLog, RowFault
from bodysense.signals.read import read_log
from bodysense.signals.write import write_log

__all__ = [
    "UNITS",
    "ChannelColumn",
    "Log",
    "LogLayout",
    "MotorSide",
    "RawLog",
    "RowFault",
    "RowRange",
    "parse_layout",
    "read_layout",
    "read_log",
    "write_log",
]
