"""Signals: what was recorded."""

from bodysense.signals.log import UNITS, Log

__all__ = ["UNITS", "Log"]
