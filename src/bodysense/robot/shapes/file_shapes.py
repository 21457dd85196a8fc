"""The shapes of robot files, <collision>, <visual> and geoms, as points whose hulls they fill."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import coal
import numpy as np
import pinocchio as pin
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError

from bodysense.errors import RobotFileError, listing
from bodysense.robot.io.mjcf import body_name, compile_mjcf
from bodysense.robot.io.urdf_elements import UrdfDescription
from bodysense.robot.io.urdf_xml import Element
from bodysense.robot.shapes.hull import box_corners, principal_box
from bodysense.robot.source import Source
from bodysense.spatial.arrays import Array, read_only

if TYPE_CHECKING:
    import mujoco

# Tuning: numbers that trade the tightness of hulls for time.
_SLICES = 4  # of a mesh: a bent link fills less in slices than its one convex hull
_SLICED_VOLUME = 0.9  # part of the hull's volume; a mesh is sliced where its slices fill less
_PRISM_CORNERS = 16  # round a cylinder
_SPHERE_CORNERS = 64  # of the polyhedron round a sphere

_SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER, _BOX, _MESH = range(2, 8)  # mjtGeom


def _slice_mesh(points: Array, triangles: NDArray[np.intp]) -> list[Array]:
    """Points (m, 3) of a mesh, as a whole or slice by slice, whichever hulls describe it well.

    The mesh, with corners (n, 3) [m] and triangles (k, 3) of them, is cut at equal distances across
    its longest axis. The hull of a slice is that of the corners in it and of the points where edges
    are cut, so that no part of the surface is lost.
    """
    if points.shape[0] < 4 or triangles.shape[0] == 0:
        return [points]
    try:
        whole = ConvexHull(points)
        hulls = [ConvexHull(cloud) for cloud in _slices(points, triangles)]
    except QhullError:  # flat: a hull of it will be given a thickness
        return [points]
    volume = sum(hull.volume for hull in hulls)
    return [_corners(h) for h in (hulls if volume < _SLICED_VOLUME * whole.volume else [whole])]


def _slices(points: Array, triangles: NDArray[np.intp]) -> list[Array]:
    """Points (m, 3) of the slices that are not empty."""
    _, half, axes = principal_box(points)
    heights = points @ axes[:, int(np.argmax(half))]
    cuts = np.linspace(heights.min(), heights.max(), _SLICES + 1)
    edges = np.vstack([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    crossings = [_crossings(points, heights, edges, cut) for cut in cuts]
    slices = []
    for k in range(_SLICES):
        inside = (heights >= cuts[k]) & (heights <= cuts[k + 1])
        slices.append(np.vstack([points[inside], crossings[k], crossings[k + 1]]))
    return [cloud for cloud in slices if cloud.shape[0]]


def _corners(hull: ConvexHull) -> Array:
    """(m, 3) corners of a hull, in the order of the points."""
    corners: Array = hull.points[np.sort(hull.vertices)]
    return corners


def _crossings(points: Array, heights: Array, edges: NDArray[np.intp], cut: float) -> Array:
    """(m, 3) where edges cross a plane."""
    low, high = heights[edges[:, 0]], heights[edges[:, 1]]
    cross = (low - cut) * (high - cut) < 0.0
    first, second = points[edges[cross, 0]], points[edges[cross, 1]]
    part = (cut - low[cross]) / (high[cross] - low[cross])
    result: Array = first + part[:, None] * (second - first)
    return result


def file_shapes(
    source: Source,
    kind: str,
    package_dirs: Sequence[str] = (),
    skip: Collection[str] = (),
    *,
    sliced: bool = True,
) -> tuple[dict[str, list[Array]], dict[str, str]]:
    """Shapes of a kind, "collision" or "visual", of the bodies of a URDF or MJCF file.

    In MJCF, geoms that touch others (contype or conaffinity) are the former, the rest the latter;
    planes and height fields have no hull. Packages of meshes lie in `package_dirs`. Unless
    `sliced`, a mesh of a URDF file is one piece, which is read much faster.

    Returns:
        Of every body that has a shape, (n, 3) points of each of its pieces, in the frame of the
        body [m], whose hulls hold the piece; and of every body whose shape cannot be read, why.
    """
    if source.format == "mjcf":
        return _mjcf_shapes(source, kind), {}
    points: dict[str, list[Array]] = {}
    problems: dict[str, str] = {}
    for name, link in UrdfDescription.from_bytes(source.data, source.path).links.items():
        if name in skip:
            continue
        try:
            elements = link.element.all(kind)
            clouds = [
                cloud for e in elements for cloud in _pieces(e, package_dirs, sliced) if cloud.size
            ]
        except RobotFileError as error:
            problems[name] = str(error)
            continue
        if clouds:
            points[name] = clouds
    return points, problems


def _pieces(element: Element, package_dirs: Sequence[str], sliced: bool) -> list[Array]:
    """Points (n, 3) of the pieces of one <collision> or <visual>, in the frame of its link."""
    xyz, rpy = element.origin()
    geometry = element.required_child("geometry")
    if len(geometry.children) != 1:
        geometry.fail(f"it holds {len(geometry.children)} shapes; give one.")
    shape = geometry.children[0]
    if shape.tag == "box":
        clouds = [box_corners(np.zeros(3), 0.5 * np.abs(shape.vector("size")))]
    elif shape.tag == "sphere":
        clouds = [_sphere_points(shape.number("radius"))]
    elif shape.tag in ("cylinder", "capsule"):
        radius, length = (shape.number(key) for key in ("radius", "length"))
        clouds = [_cylinder_points(radius, length, rounded=shape.tag == "capsule")]
    elif shape.tag == "mesh":
        clouds = _mesh_pieces(shape, package_dirs, sliced)
    else:
        shape.fail(
            f"<{shape.tag}> is no shape of URDF; valid: box, cylinder, capsule, sphere, mesh. "
            'Or take shapes="boxes".'
        )
    R = pin.rpy.rpyToMatrix(*rpy)
    return [cloud @ R.T + xyz for cloud in clouds]


def _cylinder_points(radius: float, length: float, *, rounded: bool = False) -> Array:
    """Corners of a prism round a cylinder along z, or of what holds a capsule [m]."""
    if rounded:
        ball, up = _sphere_points(radius), np.array([0.0, 0.0, 0.5 * length])
        return np.vstack([ball - up, ball + up])
    angle = np.arange(_PRISM_CORNERS) * (2.0 * np.pi / _PRISM_CORNERS)
    outer = abs(radius) / np.cos(np.pi / _PRISM_CORNERS)
    ring = np.column_stack([outer * np.cos(angle), outer * np.sin(angle), np.zeros(_PRISM_CORNERS)])
    up = np.array([0.0, 0.0, 0.5 * length])
    return np.vstack([ring - up, ring + up])


@cache
def _ball() -> Array:
    """Corners of a polyhedron round the unit sphere."""
    k = np.arange(_SPHERE_CORNERS) + 0.5
    height, angle = 1.0 - 2.0 * k / _SPHERE_CORNERS, np.pi * (1.0 + np.sqrt(5.0)) * k
    across = np.sqrt(1.0 - height**2)
    points = np.column_stack([across * np.cos(angle), across * np.sin(angle), height])
    inside = np.min(-ConvexHull(points).equations[:, 3])
    return read_only(points / inside)


def _sphere_points(radius: float) -> Array:
    """Corners of a polyhedron round a sphere [m], a tenth of its radius outside at most."""
    return abs(radius) * _ball()


def _mesh_pieces(mesh: Element, package_dirs: Sequence[str], sliced: bool) -> list[Array]:
    name = mesh.text("filename")
    scale = mesh.vector("scale") if "scale" in mesh.attributes else np.ones(3)
    path = mesh_file(mesh, package_dirs)
    if path is None:
        places = list(_places(name, Path(mesh.where), package_dirs))
        mesh.fail(
            f"the mesh {name!r} is not found (looked for {listing(places, 3)}): name the folder "
            'that holds its package in package_dirs, or take shapes="boxes".'
        )
    try:
        model = coal.MeshLoader(coal.BV_AABB).load(str(path), scale)  # the fastest to build
        points = np.array(model.vertices(), dtype=np.float64).reshape(-1, 3)
        sides = [model.tri_indices(k) for k in range(model.num_tris if sliced else 0)]
    except (ValueError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        mesh.fail(f'the mesh {path} cannot be read ({reason}): repair it, or take shapes="boxes".')
    if not np.isfinite(points).all():
        mesh.fail(f"the mesh {path} holds numbers that are not finite: repair it.")
    if not sliced:
        return [points]
    triangles = np.array([(side[0], side[1], side[2]) for side in sides], dtype=np.intp)
    return _slice_mesh(points, triangles.reshape(-1, 3))


def mesh_file(mesh: Element, package_dirs: Sequence[str]) -> Path | None:
    """The file of a <mesh>; none where it is not found."""
    places = _places(mesh.text("filename"), Path(mesh.where), package_dirs)
    return next((place for place in places if os.path.isfile(place)), None)


def package_found(mesh: Element, package_dirs: Sequence[str]) -> bool:
    """Whether there is a folder of the package of a <mesh>; true where it is in none."""
    scheme, separator, rest = mesh.text("filename").partition("://")
    if not separator or scheme == "file":
        return True
    package = rest.partition("/")[0]
    places = _places(f"package://{package}/", Path(mesh.where), package_dirs)
    return any(place.name == package and os.path.isdir(place) for place in places)


def _places(name: str, urdf: Path, package_dirs: Sequence[str]) -> Iterator[Path]:
    """Where a mesh may lie, the likeliest place first."""
    folder = Path(os.path.abspath(urdf)).parent
    scheme, separator, rest = name.partition("://")
    if not separator:
        yield folder / name
        yield from (Path(place) / name for place in package_dirs)
        return
    if scheme == "file":
        yield Path(rest)
        return
    package, _, below = rest.partition("/")
    shares = [f"{prefix}/share" for prefix in _listed("AMENT_PREFIX_PATH")]
    upward = [str(place) for place in folder.parents]
    for place in (*package_dirs, *upward, *_listed("ROS_PACKAGE_PATH"), *shares):
        yield Path(place) / package / below
        if Path(place).name == package:
            yield Path(place) / below
    # A package in a folder of another name, as a clone may be.
    yield from (place / below for place in folder.parents)


def _listed(variable: str) -> list[str]:
    return [place for place in os.environ.get(variable, "").split(os.pathsep) if place]


def _mjcf_shapes(source: Source, kind: str) -> dict[str, list[Array]]:
    compiled, _ = compile_mjcf(source.path)
    clouds: dict[str, list[Array]] = {}
    for g in range(compiled.ngeom):
        collides = bool(compiled.geom_contype[g] or compiled.geom_conaffinity[g])
        pieces = _geom_points(compiled, g) if collides == (kind == "collision") else []
        if pieces:
            R = pin.Quaternion(*compiled.geom_quat[g]).matrix()
            name = body_name(compiled, int(compiled.geom_bodyid[g]))
            placed = [piece @ R.T + compiled.geom_pos[g] for piece in pieces]
            clouds.setdefault(name, []).extend(placed)
    return clouds


def _geom_points(compiled: mujoco.MjModel, g: int) -> list[Array]:
    """Points of the pieces of a geom in its own frame; none of what has no hull."""
    shape, size = int(compiled.geom_type[g]), np.array(compiled.geom_size[g])
    if shape == _SPHERE:
        return [_sphere_points(size[0])]
    if shape in (_CAPSULE, _CYLINDER):
        return [_cylinder_points(size[0], 2.0 * size[1], rounded=shape == _CAPSULE)]
    if shape == _ELLIPSOID:
        return [_sphere_points(1.0) * size]
    if shape == _BOX:
        return [box_corners(np.zeros(3), size)]
    if shape != _MESH:
        return []
    mesh = int(compiled.geom_dataid[g])
    first, face = int(compiled.mesh_vertadr[mesh]), int(compiled.mesh_faceadr[mesh])
    points = compiled.mesh_vert[first : first + int(compiled.mesh_vertnum[mesh])]
    sides = compiled.mesh_face[face : face + int(compiled.mesh_facenum[mesh])]
    return _slice_mesh(np.array(points, dtype=np.float64), np.array(sides, dtype=np.intp))
