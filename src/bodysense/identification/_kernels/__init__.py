"""Compiled inner loops of the identifiers."""
