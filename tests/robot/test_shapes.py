from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import RobotFileError, UnknownNameError
from bodysense.robot import Robot, link_hulls, load_robot
from bodysense.spatial import Array


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
