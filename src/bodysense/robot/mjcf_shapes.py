"""The shapes of an MJCF file: geoms as MuJoCo compiles them, as points whose hull they fill.

Geoms that touch others (contype or conaffinity) are "collision" shapes, the rest "visual" ones.
Planes and height fields have no hull and are left out.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from bodysense.robot.hull import box_corners
from bodysense.robot.mesh_slices import sliced
from bodysense.robot.mjcf import compile_mjcf
from bodysense.robot.mjcf_model import body_name
from bodysense.robot.source import Source
from bodysense.robot.urdf_shapes import FileShapes, cylinder_points, round_points
from bodysense.spatial.arrays import Array

_SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER, _BOX, _MESH = range(2, 8)  # mjtGeom


def mjcf_shapes(source: Source, kind: str) -> FileShapes:
    """Points of every body that has geoms of a kind, "collision" or "visual"."""
    compiled, _ = compile_mjcf(source.path)
    clouds: dict[str, list[Array]] = {}
    for g in range(compiled.ngeom):
        touches = bool(compiled.geom_contype[g] or compiled.geom_conaffinity[g])
        shape, size = int(compiled.geom_type[g]), np.array(compiled.geom_size[g])
        if touches != (kind == "collision"):
            continue
        if shape == _SPHERE:
            pieces = [round_points(size[0])]
        elif shape == _CAPSULE:
            pieces = [cylinder_points(size[0], 2.0 * size[1], rounded=True)]
        elif shape == _ELLIPSOID:
            pieces = [round_points(1.0) * size]
        elif shape == _CYLINDER:
            pieces = [cylinder_points(size[0], 2.0 * size[1])]
        elif shape == _BOX:
            pieces = [box_corners(np.zeros(3), size)]
        elif shape == _MESH:
            mesh = int(compiled.geom_dataid[g])
            first = int(compiled.mesh_vertadr[mesh])
            last = first + int(compiled.mesh_vertnum[mesh])
            points = np.array(compiled.mesh_vert[first:last], dtype=np.float64)
            face = int(compiled.mesh_faceadr[mesh])
            sides = compiled.mesh_face[face : face + int(compiled.mesh_facenum[mesh])]
            pieces = sliced(points, np.array(sides, dtype=np.intp))
        else:
            continue
        R = pin.Quaternion(*compiled.geom_quat[g]).matrix()
        name = body_name(compiled, int(compiled.geom_bodyid[g]))
        clouds.setdefault(name, []).extend(piece @ R.T + compiled.geom_pos[g] for piece in pieces)
    return FileShapes(clouds, {})
