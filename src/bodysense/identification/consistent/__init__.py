"""Solvers whose links are always physically consistent."""
