"""Shapes of links: hulls, collisions, the workspace."""
