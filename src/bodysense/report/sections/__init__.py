"""Curves that reports gather while a log is solved."""
