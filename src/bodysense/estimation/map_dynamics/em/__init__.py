"""Covariances of sensors and model from a log, by expectation maximisation (EM)."""
