from __future__ import annotations

import numpy as np
import pytest

from bodysense.robot import Collisions, Robot, link_hulls, load_robot
from bodysense.robot.frames import link_poses
from bodysense.spatial import Array

mujoco = pytest.importorskip("mujoco")

ARM = """
<mujoco model="arm">
  <asset>
    <mesh name="wedge" vertex="0 0 0  0.3 0 0  0 0.2 0  0 0 0.1"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <geom name="post" type="box" size="0.1 0.1 0.5" pos="0.4 0 0.5"/>
    <body name="lower" pos="0 0 0.2">
      <joint name="a" type="hinge" axis="0 0 1" pos="0.01 0.02 0.03"/>
      <geom type="cylinder" size="0.05 0.1" pos="0 0 0.1" mass="1"/>
      <geom type="sphere" size="0.3" contype="0" conaffinity="0" mass="1"/>
      <body name="upper" pos="0 0 0.25" euler="0 30 0">
        <joint name="b" type="hinge" axis="0 1 0"/>
        <geom type="mesh" mesh="wedge" mass="1"/>
        <body name="tip" pos="0.3 0 0" euler="20 0 0">
          <geom type="ellipsoid" size="0.05 0.03 0.02" mass="0.2"/>
          <geom type="capsule" size="0.02 0.05" pos="0 0 0.1" mass="0.1"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.fixture
def robot(tmp_path) -> Robot:
    path = tmp_path / "arm.xml"
    path.write_text(ARM)
    return load_robot(str(path))


def support(compiled: mujoco.MjModel, data: mujoco.MjData, geom: int, n: Array) -> float:
    """How far a geom reaches along n in the world, by closed forms."""
    R, p = data.geom_xmat[geom].reshape(3, 3), data.geom_xpos[geom]
    local, size = R.T @ n, compiled.geom_size[geom]
    kind = mujoco.mjtGeom(compiled.geom_type[geom])
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        reach = size[0]
    elif kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        reach = size[0] + size[1] * abs(local[2])
    elif kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        reach = size[0] * np.hypot(local[0], local[1]) + size[1] * abs(local[2])
    elif kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
        reach = np.linalg.norm(size * local)
    else:
        mesh = compiled.geom_dataid[geom]
        first = compiled.mesh_vertadr[mesh]
        vertices = compiled.mesh_vert[first : first + compiled.mesh_vertnum[mesh]]
        reach = (vertices @ local).max()
    return float(n @ p + reach)


def test_hulls_hold_the_geoms_where_mujoco_puts_them(robot, rng):
    hulls = link_hulls(robot, "collision")
    compiled = mujoco.MjModel.from_xml_string(ARM)
    data = mujoco.MjData(compiled)
    data.qpos[:] = [0.4, -0.7]
    mujoco.mj_forward(compiled, data)
    poses = link_poses(robot, data.qpos[None])
    chains = {"lower": {"lower"}, "upper": {"upper", "tip"}}
    for row, (link, bodies) in enumerate(chains.items(), start=1):
        geoms = [
            g
            for g in range(compiled.ngeom)
            if compiled.body(compiled.geom_bodyid[g]).name in bodies and compiled.geom_contype[g]
        ]
        for n in rng.normal(size=(100, 3)):
            n /= np.linalg.norm(n)
            vertices = hulls[link].vertices @ poses.R[row, 0].T + poses.p[row, 0]
            reach = max(support(compiled, data, g, n) for g in geoms)
            assert reach - 1e-6 < (vertices @ n).max() < reach + 0.01


def test_geoms_that_touch_nothing_are_visual(tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text(ARM)
    bodies = {body.name: body for body in link_hulls(load_robot(str(path)), "collision").bodies}
    assert set(bodies) == {"world", "lower", "upper", "tip"}
    assert not bodies["lower"].hull.contains([[0.2, 0.0, 0.0]]).any()


def test_the_world_is_an_obstacle(robot):
    collisions = Collisions.from_robot(robot)
    assert ("world", "upper") in collisions.pairs
    away, into = [np.pi, -0.5], [0.0, -0.5]
    np.testing.assert_array_equal(collisions.in_collision([away, into]), [False, True])
