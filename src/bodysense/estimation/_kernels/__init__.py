"""Compiled code of the estimators."""
