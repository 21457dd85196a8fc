from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from bodysense.errors import ShapeError
from bodysense.robot.shapes.hull import MOST_FACES, THINNEST, Hull, box_corners, principal_box
from bodysense.spatial import Array, exp_so3


def is_combination(point: Array, vertices: Array) -> bool:
    """Whether a point is a convex combination of vertices, by a linear programme."""
    A = np.vstack([vertices.T, np.ones(vertices.shape[0])])
    found = linprog(np.zeros(vertices.shape[0]), A_eq=A, b_eq=np.append(point, 1.0))
    return bool(found.status == 0)


def test_a_box_has_eight_corners_and_six_sides():
    hull = Hull.from_box((-1.0, 0.0, 2.0), (1.0, 0.5, 3.0))
    assert hull.vertices.shape == (8, 3)
    assert hull.normals.shape == (6, 3)
    assert hull.volume == pytest.approx(1.0)
    assert hull.excess == 0.0
    np.testing.assert_array_equal(hull.vertices.min(axis=0), [-1.0, 0.0, 2.0])
    np.testing.assert_array_equal(hull.vertices.max(axis=0), [1.0, 0.5, 3.0])


@given(st.integers(0, 10_000), st.integers(1, 300))
def test_a_hull_contains_its_points_and_its_vertices_lie_on_three_sides(seed: int, n: int):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 3)) * rng.uniform(0.001, 1.0, 3)
    hull = Hull.from_points(points)
    assert hull.contains(points, margin=-1e-10).all()
    assert hull.normals.shape[0] <= MOST_FACES
    np.testing.assert_allclose(np.linalg.norm(hull.normals, axis=1), 1.0, atol=1e-12)
    heights = hull.vertices @ hull.normals.T - hull.offsets
    assert heights.max() < 1e-9
    assert ((heights > -1e-6).sum(axis=1) >= 3).all()


def test_inside_is_what_a_linear_programme_says(rng):
    hull = Hull.from_points(rng.normal(size=(20, 3)))
    points = rng.normal(size=(60, 3))
    inside = hull.contains(points)
    assert 5 < inside.sum() < 55
    for point, found in zip(points, inside, strict=True):
        assert found == is_combination(point, hull.vertices)


def test_a_margin_shrinks_the_hull():
    hull = Hull.from_box((0, 0, 0), (1, 1, 1))
    points = [[0.5, 0.5, 0.95], [0.5, 0.5, 0.85]]
    np.testing.assert_array_equal(hull.contains(points, margin=0.1), [False, True])


@pytest.mark.parametrize("sides", [40, 100, 200])
def test_many_sides_become_few_that_hold_the_rest(rng, sides):
    points = rng.normal(size=(800, 3))
    points *= 0.1 / np.linalg.norm(points, axis=1, keepdims=True)
    hull = Hull.from_points(points, most_faces=sides, tolerance=1e-4)
    exact = ConvexHull(points)
    assert exact.equations.shape[0] > 1000
    assert hull.normals.shape[0] <= sides
    assert hull.contains(points).all()
    # No side of the exact hull is pushed out by more than the hull tells, and one is by just that.
    pushed = (hull.vertices @ exact.equations[:, :3].T + exact.equations[:, 3]).max()
    assert pushed == pytest.approx(hull.excess, abs=1e-9)
    # The best possible on a sphere of radius r, r θ²/2 with sides as hexagons of angle θ.
    best = 0.1 * (8.0 * np.pi / (3.0 * np.sqrt(3.0))) / sides / 2.0
    assert best < hull.excess < 3.0 * best


def test_no_more_sides_are_taken_than_the_tolerance_needs(rng):
    points = rng.normal(size=(800, 3))
    points *= 0.1 / np.linalg.norm(points, axis=1, keepdims=True)
    hull = Hull.from_points(points, tolerance=0.02)
    assert hull.excess <= 0.02
    assert hull.normals.shape[0] < 40


@pytest.mark.parametrize("dimensions", [0, 1, 2])
def test_points_rods_and_plates_get_a_thickness(rng, dimensions):
    R, origin = exp_so3(rng.normal(size=3)), rng.normal(size=3)
    points = rng.uniform(-0.2, 0.2, (30, dimensions)) @ R[:, :dimensions].T + origin
    hull = Hull.from_points(points)
    assert hull.contains(points).all()
    for axis in rng.normal(size=(50, 3)):
        along = hull.vertices @ (axis / np.linalg.norm(axis))
        assert np.ptp(along) >= THINNEST - 1e-9
    # It is thin where the points are flat.
    off = (hull.vertices - origin) @ R[:, dimensions:]
    assert np.linalg.norm(off, axis=1).max() <= 0.5 * THINNEST * np.sqrt(3 - dimensions) + 1e-9


def test_a_moved_hull_holds_the_moved_points(rng):
    points = rng.normal(size=(40, 3))
    T = pin.SE3(exp_so3(rng.normal(size=3)), rng.normal(size=3))
    hull = Hull.from_points(points)
    moved = hull.transform(T)
    test = rng.normal(size=(200, 3))
    np.testing.assert_array_equal(
        moved.contains(test @ T.rotation.T + T.translation), hull.contains(test)
    )
    assert moved.volume == pytest.approx(hull.volume)


def test_the_principal_box_of_a_turned_box_is_that_box(rng):
    R, center = exp_so3(rng.normal(size=3)), rng.normal(size=3)
    found_center, half, axes = principal_box(box_corners(center, np.array([0.1, 0.3, 0.2]), R))
    np.testing.assert_allclose(found_center, center, atol=1e-12)
    np.testing.assert_allclose(np.sort(half), [0.1, 0.2, 0.3], atol=1e-12)
    np.testing.assert_allclose(np.sort(np.abs(axes.T @ R), axis=1)[:, 2], 1.0, atol=1e-12)


def test_a_hull_cannot_be_written_to():
    hull = Hull.from_box((0, 0, 0), (1, 1, 1))
    with pytest.raises(ValueError, match="read-only"):
        hull.vertices[0, 0] = 5.0


def test_no_points_are_refused():
    with pytest.raises(ShapeError, match="one point at least"):
        Hull.from_points(np.empty((0, 3)))


def test_points_that_are_not_finite_are_refused():
    with pytest.raises(ShapeError, match="points of a hull holds nan"):
        Hull.from_points([[0.0, np.nan, 0.0]])


def test_too_few_sides_are_refused():
    with pytest.raises(ShapeError, match="most_faces is 5"):
        Hull.from_points(np.eye(3), most_faces=5)


def test_an_empty_box_is_refused():
    with pytest.raises(ShapeError, match="swap its corners"):
        Hull.from_box((0, 0, 1), (1, 1, 0))
