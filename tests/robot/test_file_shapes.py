from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from bodysense.robot.shapes.file_shapes import (
    _cylinder_points,
    _slice_mesh,
    _sphere_points,
    file_shapes,
)
from bodysense.robot.shapes.hull import Hull, box_corners
from bodysense.robot.source import Source
from bodysense.spatial import Array

TETRAHEDRON = """solid t
facet normal 0 0 -1
outer loop
vertex 0 0 0
vertex 0 1 0
vertex 1 0 0
endloop
endfacet
facet normal 0 -1 0
outer loop
vertex 0 0 0
vertex 1 0 0
vertex 0 0 1
endloop
endfacet
facet normal -1 0 0
outer loop
vertex 0 0 0
vertex 0 0 1
vertex 0 1 0
endloop
endfacet
facet normal 1 1 1
outer loop
vertex 1 0 0
vertex 0 1 0
vertex 0 0 1
endloop
endfacet
endsolid t
"""


def source(folder: Path, geometry: str, origin: str = "") -> Source:
    text = (
        f'<robot name="r"><link name="a"><collision>{origin}<geometry>{geometry}</geometry>'
        "</collision></link></robot>"
    )
    return Source("urdf", str(folder / "robot.urdf"), text.encode())


def hull_of(where: Source, package_dirs: tuple[str, ...] = ()) -> Hull:
    points, problems = file_shapes(where, "collision", package_dirs)
    assert problems == {}
    return Hull.from_points(np.vstack(points["a"]))


def problem_of(where: Source) -> str:
    points, problems = file_shapes(where, "collision")
    assert points == {}
    return problems["a"]


def test_a_box_is_placed_by_its_origin(tmp_path):
    origin = '<origin xyz="1 2 3" rpy="0 0 1.5707963267948966"/>'
    hull = hull_of(source(tmp_path, '<box size="0.2 0.4 0.6"/>', origin))
    np.testing.assert_allclose(hull.vertices.min(axis=0), [0.8, 1.9, 2.7], atol=1e-12)
    np.testing.assert_allclose(hull.vertices.max(axis=0), [1.2, 2.1, 3.3], atol=1e-12)


def test_the_points_of_a_sphere_hold_it_closely(rng):
    hull = Hull.from_points(_sphere_points(0.2), most_faces=200)
    assert hull.offsets.min() == pytest.approx(0.2)
    assert np.linalg.norm(hull.vertices, axis=1).max() < 1.12 * 0.2


def test_the_points_of_a_cylinder_hold_it_closely():
    hull = Hull.from_points(_cylinder_points(0.1, 0.5))
    angle = np.linspace(0, 2 * np.pi, 100)
    for height in (-0.25, 0.25):
        rim = np.column_stack([0.1 * np.cos(angle), 0.1 * np.sin(angle), np.full(100, height)])
        assert hull.contains(rim).all()
    assert np.hypot(*hull.vertices[:, :2].T).max() < 1.02 * 0.1
    assert np.abs(hull.vertices[:, 2]).max() == 0.25


def test_the_points_of_a_capsule_reach_beyond_its_ends():
    hull = Hull.from_points(_cylinder_points(0.1, 0.5, rounded=True))
    assert hull.contains([[0, 0, 0.35], [0, 0, -0.35], [0.1, 0, 0.25]]).all()
    assert np.abs(hull.vertices[:, 2]).max() < 0.25 + 1.13 * 0.1


@pytest.mark.parametrize(
    ("filename", "place"),
    [
        ("m/t.stl", "urdf/m/t.stl"),
        ("package://arm/m/t.stl", "arm/m/t.stl"),  # beside the file's folder
        ("package://arm/m/t.stl", "m/t.stl"),  # a package in a folder of another name
    ],
)
def test_meshes_are_found_from_the_file_upward(tmp_path, filename, place):
    mesh = tmp_path / place
    mesh.parent.mkdir(parents=True)
    mesh.write_text(TETRAHEDRON)
    hull = hull_of(source(tmp_path / "urdf", f'<mesh filename="{filename}" scale="1 2 3"/>'))
    assert hull.volume == pytest.approx(1.0)


def test_a_mesh_may_be_named_by_its_place(tmp_path):
    (tmp_path / "t.stl").write_text(TETRAHEDRON)
    hull = hull_of(source(Path("/nowhere"), f'<mesh filename="file://{tmp_path}/t.stl"/>'))
    assert hull.volume == pytest.approx(1 / 6)


@pytest.mark.parametrize("of_package", [True, False])
def test_package_dirs_name_the_folder_of_packages_or_the_package(tmp_path, of_package):
    mesh = tmp_path / "far" / "arm" / "t.stl"
    mesh.parent.mkdir(parents=True)
    mesh.write_text(TETRAHEDRON)
    where = source(tmp_path / "here", '<mesh filename="package://arm/t.stl"/>')
    folder = tmp_path / "far" / "arm" if of_package else tmp_path / "far"
    assert hull_of(where, package_dirs=(str(folder),)).volume == pytest.approx(1 / 6)


@pytest.mark.parametrize("variable", ["ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH"])
def test_packages_are_found_where_ros_looks_for_them(tmp_path, monkeypatch, variable):
    share = "share/" if variable.startswith("AMENT") else ""
    mesh = tmp_path / f"ros/{share}arm/t.stl"
    mesh.parent.mkdir(parents=True)
    mesh.write_text(TETRAHEDRON)
    where = source(tmp_path / "here", '<mesh filename="package://arm/t.stl"/>')
    assert "package_dirs" in problem_of(where)
    monkeypatch.setenv(variable, f"/nowhere:{tmp_path}/ros")
    assert hull_of(where).volume == pytest.approx(1 / 6)


def test_a_missing_mesh_is_named_with_the_remedy(tmp_path):
    text = problem_of(source(tmp_path, '<mesh filename="package://arm/t.stl"/>'))
    for part in ("robot.urdf, line 1", "'package://arm/t.stl'", "package_dirs", 'shapes="boxes"'):
        assert part in text


def test_a_broken_mesh_is_named_with_the_remedy(tmp_path):
    (tmp_path / "t.stl").write_text("no mesh at all")
    text = problem_of(source(tmp_path, '<mesh filename="t.stl"/>'))
    assert "t.stl cannot be read" in text
    assert 'shapes="boxes"' in text


def test_an_unknown_shape_is_named_with_the_valid_ones(tmp_path):
    text = problem_of(source(tmp_path, '<cone radius="1" length="2"/>'))
    assert "<cone> is no shape of URDF; valid: box" in text


def test_two_shapes_in_one_geometry_are_told(tmp_path):
    text = problem_of(source(tmp_path, '<sphere radius="1"/><sphere radius="2"/>'))
    assert "it holds 2 shapes; give one" in text


def test_links_that_are_known_are_not_read(tmp_path):
    where = source(tmp_path, '<mesh filename="missing.stl"/>')
    assert file_shapes(where, "collision", skip=["a"]) == ({}, {})


def test_numbers_that_are_none_are_told(tmp_path):
    text = problem_of(source(tmp_path, '<sphere radius="big"/>'))
    assert "radius='big' is not a finite number" in text


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
    slices = _slice_mesh(points, triangles)
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
        [Hull.from_points(cloud).contains(free) for cloud in _slice_mesh(points, triangles)]
    )


def test_a_convex_mesh_stays_whole():
    points, triangles = triangulated(([0.0, 0.0, 0.0], [0.1, 0.2, 0.3]))
    (only,) = _slice_mesh(points, triangles)
    np.testing.assert_array_equal(only, points)


@pytest.mark.parametrize("flat", [0, 1, 2])
def test_a_flat_mesh_stays_whole(rng, flat):
    points = rng.normal(size=(10, 3))
    points[:, flat:] = 0.0
    (only,) = _slice_mesh(points, np.arange(9, dtype=np.intp).reshape(3, 3))
    np.testing.assert_array_equal(only, points)


def test_points_without_triangles_stay_whole(rng):
    points = rng.normal(size=(10, 3))
    (only,) = _slice_mesh(points, np.empty((0, 3), dtype=np.intp))
    np.testing.assert_array_equal(only, points)
