from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from bodysense.robot.shapes.hull import Hull, box_corners
from bodysense.robot.shapes.urdf_shapes import sliced
from bodysense.spatial import Array


def triangulated(*boxes: tuple[list[float], list[float]]) -> tuple[Array, np.ndarray]:
    """Corners and triangles of boxes, given by middle and half lengths."""
    points, triangles = [], []
    for center, half in boxes:
        corners = box_corners(np.array(center), np.array(half))
        triangles.append(ConvexHull(corners).simplices + 8 * len(points))
        points.append(corners)
    return np.vstack(points), np.vstack(triangles).astype(np.intp)


L_SHAPE = triangulated(([0.0, 0.0, 0.5], [0.05, 0.05, 0.5]), ([0.25, 0.0, 0.05], [0.2, 0.05, 0.05]))


def surface(points: Array, triangles: np.ndarray, rng: np.random.Generator) -> Array:
    """Random points on the triangles."""
    weights = rng.dirichlet(np.ones(3), (20, triangles.shape[0]))
    return np.einsum("skc,kcx->skx", weights, points[triangles]).reshape(-1, 3)


def test_a_bent_mesh_is_sliced_and_its_slices_hold_its_surface(rng):
    points, triangles = L_SHAPE
    slices = sliced(points, triangles)
    assert len(slices) == 4
    hulls = [Hull.from_points(cloud) for cloud in slices]
    assert sum(hull.volume for hull in hulls) < 0.6 * ConvexHull(points).volume
    on_it = surface(points, triangles, rng)
    held = np.any([hull.contains(on_it, margin=-1e-9) for hull in hulls], axis=0)
    assert held.all()


def test_what_is_free_beside_a_bent_mesh_stays_free():
    free = [[0.25, 0.0, 0.4]]  # inside its one hull
    points, triangles = L_SHAPE
    assert Hull.from_points(points).contains(free).all()
    assert not np.any(
        [Hull.from_points(cloud).contains(free) for cloud in sliced(points, triangles)]
    )


def test_a_convex_mesh_stays_whole():
    points, triangles = triangulated(([0.0, 0.0, 0.0], [0.1, 0.2, 0.3]))
    (only,) = sliced(points, triangles)
    np.testing.assert_array_equal(only, points)


@pytest.mark.parametrize("flat", [0, 1, 2])
def test_a_flat_mesh_stays_whole(rng, flat):
    points = rng.normal(size=(10, 3))
    points[:, flat:] = 0.0
    (only,) = sliced(points, np.arange(9, dtype=np.intp).reshape(3, 3))
    np.testing.assert_array_equal(only, points)


def test_points_without_triangles_stay_whole(rng):
    points = rng.normal(size=(10, 3))
    (only,) = sliced(points, np.empty((0, 3), dtype=np.intp))
    np.testing.assert_array_equal(only, points)
