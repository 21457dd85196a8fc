"""Compiled inner loops of the filters."""
