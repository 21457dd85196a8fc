"""Signals: what was recorded."""

from bodysense.logs.layout import ChannelColumn, LogLayout, MotorSide, RowRange
from bodysense.logs.layout_file import parse_layout, read_layout
from bodysense.logs.log import UNITS, Log, RowFault
from bodysense.logs.read import read_log
from bodysense.logs.write import write_log

__all__ = [
    "UNITS",
    "ChannelColumn",
    "Log",
    "LogLayout",
    "MotorSide",
    "RowFault",
    "RowRange",
    "parse_layout",
    "read_layout",
    "read_log",
    "write_log",
]
