"""Convex hulls: the outer shape of a link as corners and as flat sides.

    hull = { p : normals p <= offsets } = the convex combinations of the vertices

A mesh may have thousands of sides. A hull has a hundred at most: it is then an outer approximation,
made of the most important sides of the exact hull, so that it contains every point of the mesh.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import ConvexHull, HalfspaceIntersection, QhullError

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import Array, as_array, read_only

MOST_FACES = 100
"""Largest number of sides that a hull keeps."""

THINNEST = 1.0e-3
"""Smallest thickness of a hull in any direction [m]: plates, rods and points are given it."""


@dataclass(frozen=True, eq=False)
class Hull:
    """A convex polyhedron with volume; build one with `from_points` or `from_box`.

    Attributes:
        vertices: (k, 3) corners [m].
        normals: (f, 3) outward unit normals of the sides.
        offsets: (f,) [m], with ``normals @ p <= offsets`` inside.
        excess: how far a side of the exact hull may be pushed outward here [m]; 0 where the hull
            is exact.
    """

    vertices: Array
    normals: Array
    offsets: Array
    excess: float = 0.0

    @classmethod
    def from_points(
        cls, points: ArrayLike, *, most_faces: int = MOST_FACES, tolerance: float = 1.0e-3
    ) -> Hull:
        """The convex hull of points, at most `most_faces` sides of it.

        Where the exact hull has more sides, those that would be pushed out farthest are taken one
        after the other, until none is pushed out by more than the tolerance, or their number is
        reached; `excess` tells how far it came. The result always contains all points.

        Args:
            points: (n, 3) [m], one at least; flat sets get a thickness of a millimetre.
            most_faces: 12 or more.
            tolerance: how far a side may be pushed out [m].

        Raises:
            ShapeError: no points, too few sides, or numbers that are not finite.
        """
        cloud = as_array(points, (None, 3), "points of a hull")
        if cloud.shape[0] == 0:
            raise ShapeError("a hull needs one point at least: give the corners of a body.")
        if most_faces < 12:
            raise ShapeError(f"most_faces is {most_faces}: give 12 or more.")
        cloud, axes = _with_thickness(cloud)
        try:
            exact = ConvexHull(cloud)
        except QhullError as error:
            reason = str(error).strip().splitlines()[0]
            raise ShapeError(
                f"no hull of {cloud.shape[0]} points of size {np.ptp(cloud, axis=0)} m ({reason}): "
                "check their unit."
            ) from error
        corners = cloud[exact.vertices]
        normals = _distinct(exact.equations)
        if normals.shape[0] <= most_faces:
            return cls._from_sides(corners, normals)
        return cls._around(corners, normals, axes, most_faces, tolerance)

    @classmethod
    def from_box(cls, lower: ArrayLike, upper: ArrayLike) -> Hull:
        """The box between two corners (3,) [m].

        Raises:
            ShapeError: a lower bound above its upper one.
        """
        low, high = as_array(lower, (3,), "lower"), as_array(upper, (3,), "upper")
        if (low > high).any():
            raise ShapeError(f"the box from {low} to {high} is empty: swap its corners.")
        return cls.from_points(box_corners(0.5 * (low + high), 0.5 * (high - low)))

    @classmethod
    def _from_sides(cls, corners: Array, normals: Array, excess: float = 0.0) -> Hull:
        offsets = (corners @ normals.T).max(axis=0)  # once more, for Qhull rounds
        return cls(read_only(corners), read_only(normals), read_only(offsets), excess)

    @classmethod
    def _around(
        cls, corners: Array, normals: Array, axes: Array, most_faces: int, tolerance: float
    ) -> Hull:
        """The polyhedron of those sides of the exact hull that matter most."""
        offsets = (corners @ normals.T).max(axis=0)
        first = np.vstack([axes.T, -axes.T])  # a box to begin with
        sides = np.column_stack([first, -(corners @ first.T).max(axis=0)])
        outer = HalfspaceIntersection(sides, corners.mean(axis=0), incremental=True)
        taken = [*first]
        while True:
            pushed = (outer.intersections @ normals.T - offsets).max(axis=0)
            worst = int(np.argmax(pushed))
            if pushed[worst] <= tolerance or len(taken) == most_faces:
                break
            taken.append(normals[worst])
            outer.add_halfspaces(np.append(normals[worst], -offsets[worst])[None])
        vertices = outer.intersections[np.isfinite(outer.intersections).all(axis=1)]
        vertices = vertices[np.unique(np.round(vertices, 9), axis=0, return_index=True)[1]]
        outer.close()
        return cls._from_sides(vertices, np.array(taken), float(max(pushed[worst], 0.0)))

    @cached_property
    def volume(self) -> float:
        """[m³]."""
        return float(ConvexHull(self.vertices).volume)

    def contains(self, points: ArrayLike, *, margin: float = 0.0) -> NDArray[np.bool_]:
        """Which of the points (n, 3) are inside, by the margin [m] at least (n,)."""
        cloud = as_array(points, (None, 3), "points")
        inside: NDArray[np.bool_] = np.all(
            cloud @ self.normals.T <= self.offsets - margin + 1e-12, axis=1
        )
        return inside

    def transform(self, T_new_old: pin.SE3) -> Hull:
        """The same hull in other coordinates."""
        R, p = T_new_old.rotation, T_new_old.translation
        normals = self.normals @ R.T
        return Hull(
            read_only(self.vertices @ R.T + p),
            read_only(normals),
            read_only(self.offsets + normals @ p),
            self.excess,
        )


def box_corners(center: Array, half: Array, axes: Array | None = None) -> Array:
    """(8, 3) corners of a box: its middle (3,), half lengths (3,), axes as columns (3, 3)."""
    signs = np.array([(x, y, z) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
    along = signs * half
    return center + (along if axes is None else along @ axes.T)


def principal_box(points: Array) -> tuple[Array, Array, Array]:
    """A box along the principal axes of points (n, 3): middle, half lengths, axes as columns."""
    mean = points.mean(axis=0)
    axes: Array = np.linalg.eigh((points - mean).T @ (points - mean))[1]
    along = (points - mean) @ axes
    low, high = along.min(axis=0), along.max(axis=0)
    return mean + axes @ (0.5 * (low + high)), 0.5 * (high - low), axes


def _with_thickness(points: Array) -> tuple[Array, Array]:
    """The points, doubled along the principal directions in which they are flat; and these."""
    _, half, axes = principal_box(points)
    for k in range(3):
        if 2.0 * half[k] < THINNEST:
            shift = 0.5 * THINNEST * axes[:, k]
            points = np.vstack([points - shift, points + shift])
    return points, axes


def _distinct(equations: Array) -> Array:
    """(f, 3) normals of Qhull's triangles, those of one side only once."""
    first = np.unique(np.round(equations, 7), axis=0, return_index=True)[1]
    normals = equations[np.sort(first), :3]
    unit: Array = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    return unit
