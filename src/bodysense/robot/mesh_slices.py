"""Slices of a mesh: a bent link fills less in pieces than its one convex hull."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError

from bodysense.robot.hull import principal_box
from bodysense.spatial.arrays import Array

_SLICES = 4
_WORTH = 0.9  # a mesh is sliced where its slices fill less than this part of its hull


def sliced(points: Array, triangles: NDArray[np.intp]) -> list[Array]:
    """Points of a mesh, as a whole or slice by slice, whichever hulls describe it well.

    The mesh is cut at equal distances across its longest axis. The hull of a slice is that of the
    corners in it and of the points where edges are cut, so that no part of the surface is lost.

    Args:
        points: (n, 3) corners of the mesh [m].
        triangles: (k, 3) corners of every triangle.

    Returns:
        One cloud (m, 3), or one a slice.
    """
    if points.shape[0] < 4 or triangles.shape[0] == 0:
        return [points]
    _, half, axes = principal_box(points)
    heights = points @ axes[:, int(np.argmax(half))]
    cuts = np.linspace(heights.min(), heights.max(), _SLICES + 1)
    edges = np.vstack([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    crossings = [_crossings(points, heights, edges, cut) for cut in cuts]
    slices = []
    for k in range(_SLICES):
        inside = (heights >= cuts[k]) & (heights <= cuts[k + 1])
        cloud = np.vstack([points[inside], crossings[k], crossings[k + 1]])
        if cloud.shape[0]:
            slices.append(cloud)
    try:
        whole = ConvexHull(points)
        hulls = [ConvexHull(cloud) for cloud in slices]
    except QhullError:  # flat: a hull of it will be given a thickness
        return [points]
    if sum(hull.volume for hull in hulls) < _WORTH * whole.volume:
        return [_corners(hull) for hull in hulls]
    return [_corners(whole)]


def _corners(hull: ConvexHull) -> Array:
    """(m, 3) the points that matter, in their order."""
    corners: Array = hull.points[np.sort(hull.vertices)]
    return corners


def _crossings(points: Array, heights: Array, edges: NDArray[np.intp], cut: float) -> Array:
    """(m, 3) where edges cross a plane."""
    low, high = heights[edges[:, 0]], heights[edges[:, 1]]
    cross = (low - cut) * (high - cut) < 0.0
    first, second = points[edges[cross, 0]], points[edges[cross, 1]]
    part = (cut - low[cross]) / (high[cross] - low[cross])
    found: Array = first + part[:, None] * (second - first)
    return found
