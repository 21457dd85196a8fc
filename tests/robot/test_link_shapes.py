from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import RobotFileError, UnknownNameError
from bodysense.robot import Collisions, Robot, link_hulls, load_robot
from bodysense.robot.frames import LinkPoses
from bodysense.robot.shapes.hull import box_corners
from bodysense.robot.shapes.link_shapes import _link_box
from bodysense.spatial import Array, exp_so3


def vertices_by_pinocchio(robot: Robot, kind: pin.GeometryType) -> dict[str, Array]:
    """Corners of meshes and boxes in the frames of their links, placed by Pinocchio's own reader.

    By the name of the joint that moves them, since it numbers joints in its own way.
    """
    path = Path(robot.source.path)
    share = next(p.parent for p in path.parents if p.name == "example-robot-data")
    root = [pin.JointModelFreeFlyer()] if robot.floating_base else []
    model = pin.buildModelFromUrdf(str(path), *root)
    geometry = pin.buildGeomFromUrdf(model, str(path), kind, package_dirs=[str(share)])
    clouds: dict[str, list[Array]] = {}
    for shape in geometry.geometryObjects:
        if hasattr(shape.geometry, "vertices"):
            points = np.array(shape.geometry.vertices())
        elif hasattr(shape.geometry, "halfSide"):
            signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
            points = signs * shape.geometry.halfSide
        else:
            continue
        T = shape.placement
        clouds.setdefault(model.names[shape.parentJoint], []).append(
            points @ T.rotation.T + T.translation
        )
    return {name: np.vstack(found) for name, found in clouds.items()}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("example:panda", "collision"),
        ("example:ur5", "collision"),
        ("example:talos", "collision"),  # floating, branched, with links on fixed joints
    ],
)
def test_hulls_hold_the_meshes_that_pinocchio_places(robot_of, name, kind):
    robot = robot_of(name)
    hulls = link_hulls(robot, kind if name != "example:talos" else "auto")
    oracle = vertices_by_pinocchio(robot, getattr(pin, kind.upper()))
    compared = 0
    for k, link in enumerate(robot.link_names):
        joint = robot.model.names[k + 1]
        if joint in oracle:
            compared += 1
            hull, points = hulls[link], oracle[joint]
            assert hull.contains(points, margin=-1e-6).all(), link
            # Nor is it larger than they are, but for what it tells and the union of hulls.
            slack = 3.0 * max(0.005, hull.excess)
            assert (hull.vertices.min(axis=0) > points.min(axis=0) - slack).all(), link
            assert (hull.vertices.max(axis=0) < points.max(axis=0) + slack).all(), link
    assert compared >= robot.n_joints - 1


def test_pieces_hold_the_meshes_too(robot_of):
    robot = robot_of("example:ur5")
    hulls = link_hulls(robot, "visual")
    oracle = vertices_by_pinocchio(robot, pin.VISUAL)
    for k in range(robot.layout.n_links):
        bodies = [body for body in hulls.bodies if body.joint == k]
        points = oracle[robot.model.names[k + 1]]
        assert len(bodies[0].pieces) == (4 if k in (1, 2) else 1)  # upper arm and forearm are bent
        held = [piece.contains(points, margin=-1e-6) for body in bodies for piece in body.pieces]
        assert np.any(held, axis=0).all()


@pytest.mark.parametrize("name", ["tx40", "example:panda", "example:solo12", "serial", "floating"])
@pytest.mark.parametrize("shapes", ["auto", "boxes"])
def test_every_link_of_every_robot_has_a_hull(robot_of, name, shapes):
    robot = robot_of(name)
    hulls = link_hulls(robot, shapes)
    assert tuple(hulls) == robot.link_names
    assert len(hulls) == len(robot.link_names)
    assert all(hull.volume > 0.0 for hull in hulls.values())


def test_the_bodies_of_a_fixed_base_are_told_apart(robot_of):
    hulls = link_hulls(robot_of("example:panda"))
    assert [body.name for body in hulls.bodies if body.joint == -1] == ["panda_link0"]
    assert [body.name for body in hulls.bodies if body.joint == 6] == ["panda_link7", "panda_hand"]
    assert {body.shape for body in hulls.bodies} == {"collision"}


ARM = """<robot name="arm">
<link name="base"><visual><geometry><box size="0.2 0.2 0.2"/></geometry></visual></link>
<link name="upper"><inertial><mass value="2"/><origin xyz="0 0 0.2"/>
  <inertia ixx="0.02" iyy="0.02" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial>
  {upper}</link>
<link name="tool"><visual><origin xyz="0 0 0.1"/>
  <geometry><box size="0.02 0.02 0.02"/></geometry></visual></link>
<joint name="turn" type="continuous"><parent link="base"/><child link="upper"/>
  <origin xyz="0 0 0.1"/><axis xyz="0 1 0"/></joint>
<joint name="hold" type="fixed"><parent link="upper"/><child link="tool"/>
  <origin xyz="0 0 0.4"/></joint>
</robot>"""


def arm(folder: Path, upper: str) -> Robot:
    path = folder / "arm.urdf"
    path.write_text(ARM.format(upper=upper))
    return load_robot(str(path))


BOX = '<collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision>'
MESH = '<{0}><geometry><mesh filename="package://arm/m.stl"/></geometry></{0}>'


def test_auto_takes_collision_else_visual_shapes_body_by_body(tmp_path):
    hulls = link_hulls(arm(tmp_path, BOX))
    assert [(body.name, body.shape) for body in hulls.bodies] == [
        ("base", "visual"),
        ("upper", "collision"),
        ("tool", "visual"),
    ]
    assert hulls.notes == ()
    np.testing.assert_allclose(hulls["upper"].vertices.max(axis=0), [0.05, 0.05, 0.51])
    np.testing.assert_allclose(hulls["upper"].vertices.min(axis=0), [-0.05, -0.05, -0.05])


def test_auto_takes_a_box_where_a_mesh_is_missing_and_says_so(tmp_path):
    robot = arm(tmp_path, MESH.format("collision"))
    hulls = link_hulls(robot)
    assert [(body.name, body.shape) for body in hulls.bodies if body.joint == 0] == [
        ("tool", "visual"),
        ("upper", "boxes"),
    ]
    assert "'package://arm/m.stl' is not found" in hulls.notes[0]
    assert hulls.notes[1] == "boxes from inertia and kinematics stand for upper"
    assert hulls["upper"].contains([[0.0, 0.0, 0.2], [0.0, 0.0, 0.51]]).all()


def test_auto_takes_the_visual_shape_where_the_collision_mesh_is_missing(tmp_path):
    hulls = link_hulls(arm(tmp_path, MESH.format("collision") + BOX.replace("collision", "visual")))
    assert [body.shape for body in hulls.bodies] == ["visual", "visual", "visual"]
    assert len(hulls.notes) == 1
    assert "is not found" in hulls.notes[0]


@pytest.mark.parametrize("kind", ["collision", "visual"])
def test_a_missing_mesh_is_refused_where_it_is_asked_for(tmp_path, kind):
    with pytest.raises(RobotFileError, match=r"'package://arm/m.stl' is not found.*package_dirs"):
        link_hulls(arm(tmp_path, MESH.format(kind)), kind)


def test_a_link_without_the_shape_asked_for_is_refused(tmp_path):
    with pytest.raises(RobotFileError, match=r"no collision shape for link 'upper'.*auto"):
        link_hulls(arm(tmp_path, ""), "collision")


def test_a_robot_without_shapes_has_boxes_alone(robot_of):
    hulls = link_hulls(robot_of("tx40"))
    assert {body.shape for body in hulls.bodies} == {"boxes"}
    with pytest.raises(RobotFileError, match=r'tx40.yaml holds no visual shapes.*"boxes"'):
        link_hulls(robot_of("tx40"), "visual")
    with pytest.raises(RobotFileError, match=r"'random-12' holds no collision shapes"):
        link_hulls(robot_of("serial"), "collision")


def test_unknown_shapes_are_refused(robot_of):
    with pytest.raises(UnknownNameError, match=r"unknown shapes 'box': did you mean 'boxes'"):
        link_hulls(robot_of("tx40"), "box")


def test_an_unknown_link_is_refused(robot_of):
    hulls = link_hulls(robot_of("tx40"))
    with pytest.raises(UnknownNameError, match="unknown link 'link9'"):
        hulls["link9"]
    assert "link9" not in hulls


@pytest.mark.parametrize(("count", "pieces"), [(5, 5), (20, 1)])
def test_a_few_shapes_are_pieces_and_many_are_one_hull(tmp_path, count, pieces):
    balls = "".join(
        f'<collision><origin xyz="{k * 0.05} {k % 2} 0"/><geometry><sphere radius="0.01"/>'
        "</geometry></collision>"
        for k in range(count)
    )
    body = next(b for b in link_hulls(arm(tmp_path, balls)).bodies if b.name == "upper")
    assert len(body.pieces) == pieces


def test_a_small_body_is_one_piece(tmp_path):
    balls = "".join(
        f'<collision><origin xyz="{k * 0.04} 0 0"/><geometry><sphere radius="0.01"/>'
        "</geometry></collision>"
        for k in range(2)
    )
    body = next(b for b in link_hulls(arm(tmp_path, balls)).bodies if b.name == "upper")
    assert len(body.pieces) == 1


def one_joint(robot_of, mass: float, com: list[float], inertia: np.ndarray) -> Robot:
    return robot_of("tx40").with_link(5, mass=mass, com=com, inertia=inertia)


def test_a_uniform_box_is_found_back(robot_of, rng):
    sides, com, R = np.array([0.2, 0.1, 0.3]), [0.02, -0.01, 0.1], exp_so3(rng.normal(size=3))
    mass = 2000.0 * float(np.prod(sides))
    inertia = mass / 12.0 * R @ np.diag((sides**2).sum() - sides**2) @ R.T
    hull = _link_box(one_joint(robot_of, mass, com, inertia), 5)
    corners = box_corners(np.array(com), 0.5 * sides, R)
    assert hull.contains(corners, margin=-1e-9).all()
    # All other corners belong to the bar at the joint, no wider than the box's middle side.
    others = [v for v in hull.vertices if np.abs(corners - v).max(axis=1).min() > 1e-9]
    assert np.abs(others).max() <= 0.06 + 1e-12
    for corner in corners:
        outside = np.linalg.norm(hull.vertices - corner, axis=1).min() > 1e-9
        assert not outside or (np.abs(corner) < 0.06).all()


def test_an_inertia_too_large_for_the_mass_gives_no_huge_box(robot_of):
    hull = _link_box(one_joint(robot_of, 1.0, [0.0, 0.0, 0.05], np.eye(3)), 5)
    assert hull.volume < 1.0 / 300.0 * 1.2


@pytest.mark.parametrize("name", ["tx40", "example:panda", "example:ur5", "example:solo12"])
def test_boxes_hold_centre_of_mass_and_joints(robot_of, name):
    robot = robot_of(name)
    base = int(robot.floating_base)
    for k in range(robot.layout.n_links):
        hull = _link_box(robot, k - base)
        pi = robot.pi(k)
        ends = [np.zeros(3)]
        for i in range(1, robot.model.njoints):
            if robot.model.parents[i] == k + 1:
                ends.append(robot.model.jointPlacements[i].translation)
        assert hull.contains(ends, margin=0.009).all()
        if pi[0] > 0.0:
            assert hull.contains([pi[1:4] / pi[0]]).all()


def test_a_link_without_mass_has_a_bar_to_the_next_joint():
    robot = load_robot("example:panda")
    theta = robot.theta.copy()
    theta[robot.layout.link(2)] = 0.0
    hull = _link_box(robot.with_parameters(theta), 2)
    end = robot.model.jointPlacements[4].translation
    assert hull.contains([np.zeros(3), end], margin=0.009).all()
    assert np.ptp(hull.vertices @ np.array([0.0, 0.0, 1.0])) == pytest.approx(0.02 + abs(end[2]))


mujoco = pytest.importorskip("mujoco")

ARM_MJCF_SHAPES = """
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
    path.write_text(ARM_MJCF_SHAPES)
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
    compiled = mujoco.MjModel.from_xml_string(ARM_MJCF_SHAPES)
    data = mujoco.MjData(compiled)
    data.qpos[:] = [0.4, -0.7]
    mujoco.mj_forward(compiled, data)
    poses = LinkPoses.from_robot(robot, data.qpos[None])
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
    path.write_text(ARM_MJCF_SHAPES)
    bodies = {body.name: body for body in link_hulls(load_robot(str(path)), "collision").bodies}
    assert set(bodies) == {"world", "lower", "upper", "tip"}
    assert not bodies["lower"].hull.contains([[0.2, 0.0, 0.0]]).any()


def test_the_world_is_an_obstacle(robot):
    collisions = Collisions.from_robot(robot)
    assert ("world", "upper") in collisions.pairs
    away, into = [np.pi, -0.5], [0.0, -0.5]
    np.testing.assert_array_equal(collisions.in_collision([away, into]), [False, True])
