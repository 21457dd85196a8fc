"""Positions and velocities estimated together with the dynamics: a sample, a track, a window."""
