"""Logs: what was recorded, its readers, writers and filters."""

from bodysense.logs.layout import ChannelColumn, LogLayout, parse_layout, read_layout
from bodysense.logs.log import UNITS, Log, RowFault
from bodysense.logs.motors import MotorSide
from bodysense.logs.read import read_log
from bodysense.logs.write import write_log

__all__ = [
    "UNITS",
    "ChannelColumn",
    "Log",
    "LogLayout",
    "MotorSide",
    "RowFault",
    "parse_layout",
    "read_layout",
    "read_log",
    "write_log",
]
