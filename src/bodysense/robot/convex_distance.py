"""Distances between bodies made of convex pieces, for many relative poses.

Boxes round the pieces give lower bounds; coal's GJK and EPA measure what may be within reach.
"""

from __future__ import annotations

from dataclasses import dataclass

import coal
import numpy as np
from numpy.typing import NDArray

from bodysense.robot.hull import Hull, principal_box
from bodysense.spatial.arrays import Array

Box = tuple[Array, Array, Array]
"""Middle (3,), half lengths (3,) and axes as columns (3, 3) of a box [m]."""


@dataclass(frozen=True, eq=False)
class ConvexPieces:
    """A body as coal sees it: the box round it all, its pieces, and the boxes round these."""

    box: Box
    pieces: tuple[coal.Convex, ...]
    boxes: tuple[Box, ...]

    @classmethod
    def of(cls, hull: Hull, pieces: tuple[Hull, ...]) -> ConvexPieces:
        """Hand a body's hulls to coal."""
        return cls(
            principal_box(hull.vertices),
            tuple(_convex(piece) for piece in pieces),
            tuple(principal_box(piece.vertices) for piece in pieces),
        )


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured of a pair of bodies, in the frame of the first one's link.

    Attributes:
        sample: (m,) which poses.
        distance: (m,) [m], negative inside each other.
        normal: (m, 3) unit vector from the first body to the second.
        first: (m, 3) closest point of the first body [m].
        second: (m, 3) closest point of the second body [m].
    """

    sample: NDArray[np.intp]
    distance: Array
    normal: Array
    first: Array
    second: Array

    def only(self, chosen: NDArray[np.bool_]) -> Measured:
        """Some of it."""
        return Measured(
            self.sample[chosen],
            self.distance[chosen],
            self.normal[chosen],
            self.first[chosen],
            self.second[chosen],
        )


def pair_distances(
    a: ConvexPieces, b: ConvexPieces, R_a_b: Array, p_a_b: Array, reach: float
) -> tuple[Measured, Array]:
    """Measure two bodies wherever they may be within reach.

    The distance of bodies is that of their closest pieces. Those whose boxes are closest are
    measured first, all others only where their boxes are closer than what was found.

    Args:
        a: the first body.
        b: the second one.
        R_a_b: (n_t, 3, 3) of their links.
        p_a_b: (n_t, 3) of their links [m].
        reach: [m].

    Returns:
        What is within reach, and a lower bound of the distance (n_t,) [m]: the distance itself
        within reach, and no less than the reach beyond.
    """
    bound = lower_bound(a.box, b.box, R_a_b, p_a_b)
    t = np.flatnonzero(bound < reach)
    R, p = R_a_b[t], p_a_b[t]
    couples = [(i, k) for i in range(len(a.pieces)) for k in range(len(b.pieces))]
    if len(couples) == 1:
        bounds = bound[None, t]
    else:
        bounds = np.array([lower_bound(a.boxes[i], b.boxes[k], R, p) for i, k in couples])
    best = Measured(t, np.full(t.size, np.inf), *np.zeros((3, t.size, 3)))
    likely = np.argmin(bounds, axis=0)
    for first in (True, False):
        for c, (i, k) in enumerate(couples):
            chosen = (likely == c) == first
            todo = np.flatnonzero(chosen & (bounds[c] < np.minimum(best.distance, reach)))
            if todo.size:
                bounds[c, todo] = _measure(a.pieces[i], b.pieces[k], R, p, todo, best)
    bound[t] = bounds.min(axis=0)
    return best.only(best.distance < reach), bound


def lower_bound(a: Box, b: Box, R_a_b: Array, p_a_b: Array) -> Array:
    """(n_t,) a lower bound of the distance of what is in two boxes [m], negative where they meet.

    The widest gap between the boxes along the line of their middles and their own axes.
    """
    center_a, half_a, axes_a = a
    center_b, half_b, axes_b = b
    turned = axes_a.T @ R_a_b @ axes_b  # axes of B in those of A
    shift = (R_a_b @ center_b + p_a_b - center_a) @ axes_a
    size = np.abs(turned)
    gaps = np.abs(shift) - half_a - size @ half_b
    others = np.abs((shift[:, None, :] @ turned)[:, 0]) - half_b - half_a @ size
    length = np.linalg.norm(shift, axis=1)
    line = shift / np.maximum(length, 1e-12)[:, None]
    along = np.abs(line) @ half_a + np.abs((line[:, None, :] @ turned)[:, 0]) @ half_b
    bound: Array = np.maximum(np.maximum(gaps.max(axis=1), others.max(axis=1)), length - along)
    return bound


def _measure(
    first: coal.Convex,
    second: coal.Convex,
    R_a_b: Array,
    p_a_b: Array,
    todo: NDArray[np.intp],
    best: Measured,
) -> Array:
    """Measure two pieces in some poses, (m,) [m], and keep in `best` what is closer."""
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.enable_signed_distance = True
    # Gradients need the closest points, and these need more digits than the distance does.
    request.gjk_tolerance = request.epa_tolerance = 1.0e-9
    request.gjk_max_iterations = request.epa_max_iterations = 512
    at_a, at_b = coal.Transform3s(), coal.Transform3s()
    measure = coal.ComputeDistance(first, second)
    found = np.empty(todo.size)
    for m, i in enumerate(todo):
        at_b.setTransform(R_a_b[i], p_a_b[i])
        result.clear()
        found[m] = distance = measure(at_a, at_b, request, result)
        if distance < best.distance[i]:
            best.distance[i] = distance
            best.normal[i] = result.normal
            best.first[i] = result.getNearestPoint1()
            best.second[i] = result.getNearestPoint2()
    return found


def _convex(hull: Hull) -> coal.Convex:
    points = coal.StdVec_Vec3s()
    for vertex in hull.vertices:
        points.append(vertex)
    return coal.Convex.convexHull(points, True, None)
