from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bodysense.errors import InconsistentInertiaError, RobotFileError
from bodysense.robot import inverse_dynamics, load_robot, torque_regressor
from bodysense.robot.friction import Friction
from bodysense.robot.io.actuator_writer import write_actuators
from bodysense.robot.io.dh import load_dh
from bodysense.robot.io.urdf import load_urdf, urdf_bytes, write_urdf
from bodysense.robot.io.urdf_fresh import urdf_notes
from bodysense.robot.robot import Robot
from bodysense.spatial import exp_so3
from bodysense.spatial.pseudo_inertia import pi_from_mass_com_inertia, random_pi

SCARA = Path(__file__).parents[2] / "examples" / "robots" / "scara.yaml"

BALL = pin.Inertia(1.0, np.array([0.1, 0.0, 0.0]), 0.01 * np.eye(3))

# Siblings out of order, several joints a body, an anchor beside the origin, sites, a turned and
# fixed body, limits of one side, gravity of a robot on a wall.
MJCF = """<mujoco model="wall">
  <compiler angle="radian"/>
  <option gravity="9.81 0 0"/>
  <worldbody>
    <site name="camera" pos="1 0 0"/>
    <body name="torso" pos="0 0 1" quat="0.5 0.5 0.5 -0.5">
      <joint name="lift" type="slide" axis="0 0 1" range="-0.1 0.4" damping="3"/>
      <inertial pos="0 0 0.1" mass="5" diaginertia="0.1 0.2 0.15"/>
      <body name="right" pos="0 -0.2 0.3">
        <joint name="r1" axis="1 0 0" armature="0.02"/>
        <joint name="r2" axis="0 1 0" pos="0 0 0.05" frictionloss="0.5"/>
        <inertial pos="0.1 0 0" mass="1" diaginertia="0.01 0.02 0.015"/>
        <site name="right_hand" pos="0.3 0 0"/>
      </body>
      <body name="left" pos="0 0.2 0.3">
        <joint name="l1" axis="1 0 1" pos="0.01 0 0" range="-1 2"/>
        <inertial pos="0.1 0 0" mass="1" diaginertia="0.01 0.02 0.015"/>
        <body name="tool" pos="0.3 0 0">
          <inertial pos="0 0 0" mass="0.5" diaginertia="0.001 0.001 0.001"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>"""


def tilted(robot_of, name: str, gravity: list[float]) -> Robot:
    """The robot with gravity in another direction, and its base placed and turned."""
    robot = robot_of(name)
    model = robot.model.copy()
    model.gravity.linear = np.array(gravity) * 9.81 / np.linalg.norm(gravity)
    model.jointPlacements[1] = pin.SE3(exp_so3(np.array([0.3, -0.8, 1.1])), np.array([1.0, 2, 3]))
    return Robot.from_pinocchio(model)


@pytest.fixture
def any_robot(robot_of, tmp_path: Path):
    """A robot by name that was not read from a URDF file."""

    def build(name: str) -> Robot:
        if name == "mjcf":
            pytest.importorskip("mujoco")
            path = tmp_path / "wall.xml"
            path.write_text(MJCF)
            return load_robot(path)
        if name == "standard-dh":
            return load_dh(SCARA)
        if name.startswith("tilted-"):
            return tilted(robot_of, name.removeprefix("tilted-"), [1.0, -2.0, 0.5])
        if name == "overhead":
            return tilted(robot_of, "serial", [0.0, 0.0, 1.0])
        return robot_of(name)

    return build


ROBOTS = (
    "tx40",
    "tx40-coupled",
    "tx40-three",
    "rv2sq",
    "serial",
    "branched",
    "floating",
    "mjcf",
    "standard-dh",
    "tilted-tx40",
    "tilted-branched",
    "tilted-floating",
    "overhead",
)


def require_same_theta(found: Robot, expected: Robot) -> None:
    """1e-12 of the size of a link's mass, first moment and inertia; all else to the last bit."""
    assert found.layout == expected.layout
    for k in range(expected.layout.n_links):
        for part in (slice(0, 1), slice(1, 4), slice(4, 10)):
            wanted = expected.pi(k)[part]
            size = np.abs(wanted).max()
            np.testing.assert_allclose(found.pi(k)[part], wanted, rtol=0, atol=1e-12 * size)
    start = expected.layout.n_inertial
    np.testing.assert_array_equal(found.theta[start:], expected.theta[start:])


@pytest.mark.parametrize("name", ROBOTS)
def test_written_and_read_it_is_the_same_robot(name, any_robot, states_of, rng, tmp_path: Path):
    robot = any_robot(name)
    urdf = write_urdf(robot, tmp_path / "robot.urdf")
    drives = write_actuators(robot, tmp_path / "drives.yaml")
    again = load_robot(urdf, actuators=drives, floating_base=robot.floating_base or None)
    assert again.joint_names == robot.joint_names
    assert again.joint_types == robot.joint_types
    require_same_theta(again, robot)
    q, v, a = states_of(robot, rng, 20)
    for function in (inverse_dynamics, torque_regressor):
        wanted, found = function(robot, q, v, a), function(again, q, v, a)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10 * max(1, np.abs(wanted).max()))


@pytest.mark.parametrize("name", ROBOTS)
def test_limits_are_kept(name, any_robot, tmp_path: Path):
    robot = any_robot(name)
    again = load_urdf(write_urdf(robot, tmp_path / "robot.urdf"), floating_base=robot.floating_base)
    np.testing.assert_array_equal(again.position_limits, robot.position_limits)
    np.testing.assert_array_equal(again.velocity_limit, robot.velocity_limit)
    np.testing.assert_array_equal(again.effort_limit, robot.effort_limit)


@pytest.mark.parametrize("name", ROBOTS)
def test_plain_pinocchio_reads_the_same_dynamics(name, any_robot, rng, tmp_path: Path):
    robot = any_robot(name)
    path = write_urdf(robot, tmp_path / "robot.urdf")
    own_root = b'type="floating"' in path.read_bytes()
    free = (pin.JointModelFreeFlyer(),) if robot.floating_base and not own_root else ()
    model = pin.buildModelFromUrdf(str(path), *free)
    v, a, dq = rng.normal(size=(3, robot.nv))
    q = pin.integrate(robot.model, pin.neutral(robot.model), dq)
    q_plain = pin.integrate(model, pin.neutral(model), dq)  # cosine and sine where continuous
    model.armature = robot.model.armature  # Pinocchio does not read it from a URDF
    wanted = pin.rnea(robot.model, robot.model.createData(), q, v, a)
    found = pin.rnea(model, model.createData(), q_plain, v, a)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["tx40", "branched", "mjcf"])
def test_friction_and_rotors_are_in_the_file_itself(name, any_robot, tmp_path: Path):
    robot = any_robot(name)
    path = write_urdf(robot, tmp_path / "robot.urdf")
    require_same_theta(load_urdf(path, friction=robot.friction.model.name), robot)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    quarters=st.lists(st.integers(-2, 2), min_size=9, max_size=9),
    off=st.sampled_from([0.0, 1e-15, 1e-9, 1e-7, 1e-3]),
    names=st.permutations(["a", "b", "aa", "B", "é", "10", "9"]),
)
def test_any_rotation_and_any_order_of_names(tmp_path: Path, seed, quarters, off, names):
    """Right angles, where roll and yaw meet, and angles beside them; siblings in any order."""
    rng = np.random.default_rng(seed)
    model = pin.Model()
    parents = [0, 1, 1, 1, 2, 2, 0]
    for k, (name, parent) in enumerate(zip(names, parents, strict=True)):
        x, y, z = np.array(quarters[k % 3 * 3 : k % 3 * 3 + 3]) * np.pi / 2
        R = pin.rpy.rpyToMatrix(x, y, z) @ exp_so3(off * rng.normal(size=3))
        joint = pin.JointModelRZ() if k % 2 else pin.JointModelPX()
        model.addJoint(parent, joint, pin.SE3(R, rng.normal(size=3)), name)
    theta = random_pi(rng, 7)
    for i in range(1, 8):
        model.appendBodyToJoint(
            i, pin.Inertia.FromDynamicParameters(theta[i - 1]), pin.SE3.Identity()
        )
    robot = Robot.from_pinocchio(model)
    again = load_urdf(write_urdf(robot, tmp_path / "robot.urdf"))
    assert again.joint_names == robot.joint_names
    for i in range(1, 8):
        placed, wanted = again.model.jointPlacements[i], robot.model.jointPlacements[i]
        np.testing.assert_allclose(placed.homogeneous, wanted.homogeneous, rtol=0, atol=4e-15)
    require_same_theta(again, robot)


@pytest.mark.parametrize("name", ["mjcf", "standard-dh", "tx40"])
def test_named_frames_stay_where_they_are(name, any_robot, tmp_path: Path):
    robot = any_robot(name)
    again = load_urdf(write_urdf(robot, tmp_path / "robot.urdf"))
    found = {
        frame.name: (again.joint_names[frame.parentJoint - 1], frame.placement)
        for frame in again.model.frames
        if frame.type == pin.FrameType.BODY and frame.parentJoint
    }
    compared = 0
    for frame in robot.model.frames:
        if frame.type in (pin.FrameType.BODY, pin.FrameType.OP_FRAME) and frame.parentJoint:
            moved = frame.name in robot.link_names and not frame.placement.isIdentity(1e-12)
            joint, placement = found[frame.name + "_frame" * moved]
            assert joint == robot.joint_names[frame.parentJoint - 1]
            np.testing.assert_allclose(
                placement.homogeneous, frame.placement.homogeneous, rtol=0, atol=1e-14
            )
            compared += 1
    assert compared >= robot.n_joints - 1  # the massless link of the MJCF file has no frame


def test_the_base_of_the_tx40_is_raised(tmp_path: Path):
    text = urdf_bytes(load_robot("tx40")).decode()
    assert '<origin xyz="0.0 0.0 0.32" rpy="0.0 0.0 0.0" />' in text
    assert '<link name="base_link" />' in text
    assert "world" not in text
    again = load_urdf(write_urdf(load_robot("tx40"), tmp_path / "tx40.urdf"))
    np.testing.assert_array_equal(again.model.jointPlacements[1].translation, [0, 0, 0.32])


def test_names_are_escaped_and_made_different(tmp_path: Path):
    model = pin.Model()
    model.name = 'a <"&> b'
    for parent, name in enumerate(["<z>", '"&"']):
        i = model.addJoint(parent, pin.JointModelRY(), pin.SE3.Identity(), name)
        model.appendBodyToJoint(i, BALL, pin.SE3.Identity())
        model.addBodyFrame(["base_link", "universe_joint"][parent], i, pin.SE3.Identity(), 0)
    robot = Robot.from_pinocchio(model)
    again = load_urdf(write_urdf(robot, tmp_path / "robot.urdf"))
    assert again.name == 'a <"&> b'
    assert again.joint_names == ("<z>", '"&"')
    assert again.link_names == ("base_link", "universe_joint")
    assert b'<link name="base_link_frame" />' in urdf_bytes(robot)


def test_a_model_of_pinocchio_keeps_the_name_of_its_root(tmp_path: Path):
    path = tmp_path / "arm.urdf"
    path.write_text(
        '<robot name="r"><link name="stand"/><link name="l"><inertial><mass value="1"/><inertia '
        'ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link><joint name="j" '
        'type="continuous"><parent link="stand"/><child link="l"/></joint></robot>'
    )
    robot = Robot.from_pinocchio(pin.buildModelFromUrdf(str(path)))
    text = urdf_bytes(robot).decode()
    assert '<parent link="stand" />' in text
    assert text.count("<link") == 2


def test_a_massless_link_between_joints_has_no_inertial(any_robot):
    text = urdf_bytes(any_robot("mjcf")).decode()
    assert '<link name="r1" />' in text
    assert 'mass value="0' not in text


def test_a_floating_robot_without_joints(tmp_path: Path):
    model = pin.Model()
    model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root")
    inertia = pin.Inertia.FromDynamicParameters(random_pi(np.random.default_rng(0), 1)[0])
    model.appendBodyToJoint(1, inertia, pin.SE3.Identity())
    robot = Robot.from_pinocchio(model)
    path = write_urdf(robot, tmp_path / "ball.urdf")
    drives = write_actuators(robot, tmp_path / "drives.yaml")
    require_same_theta(load_robot(path, floating_base=True, actuators=drives), robot)


def test_a_rod_comes_back(tmp_path: Path):
    model = pin.Model()
    model.addJoint(0, pin.JointModelRY(), pin.SE3.Identity(), "j")
    rod = pi_from_mass_com_inertia(0.3, [0.7, 0.1, 0.3], np.diag([0.02, 0.02, 0.0]))
    model.appendBodyToJoint(1, pin.Inertia.FromDynamicParameters(rod), pin.SE3.Identity())
    robot = Robot.from_pinocchio(model)
    require_same_theta(load_urdf(write_urdf(robot, tmp_path / "rod.urdf")), robot)


def test_notes_say_what_is_left_out(robot_of, any_robot):
    assert urdf_notes(robot_of("tx40-coupled")) == (
        "the motor of joint6 also moves joint5; left out, with Fvm6, Fcm6",
        "left out: gear ratios, drive gains, controller, acceleration limits",
    )
    lugre = robot_of("rv2sq").with_friction("lugre", width=0.25)
    assert urdf_notes(lugre)[:2] == (
        "the friction law 'lugre': readers take 'coulomb' unless told otherwise",
        "shape of the friction law left out: width, vs, delta, sigma0, sigma1",
    )
    assert urdf_notes(any_robot("tilted-tx40")) == ()
    text = urdf_bytes(robot_of("tx40-coupled")).decode()
    assert "- the motor of joint6 also moves joint5; left out, with Fvm6, Fcm6\n" in text


def test_gravity_of_another_size_is_noted(robot_of):
    model = robot_of("serial").model.copy()
    model.gravity.linear = np.array([0.0, 0.0, -1.62])
    robot = Robot.from_pinocchio(model)
    assert urdf_notes(robot) == ("gravity of 1.62 m/s²: readers of URDF take 9.81",)
    assert "gravity of 1.62 m/s²" in urdf_bytes(robot).decode()


def test_limits_without_room_are_left_out(robot_of, tmp_path: Path):
    model = robot_of("serial").model.copy()
    model.lowerPositionLimit[2], model.upperPositionLimit[2] = 1.0, -1.0
    robot = Robot.from_pinocchio(model)
    name = robot.joint_names[2]
    assert urdf_notes(robot) == (f"position limits of {name} left out: they leave no room",)
    again = load_urdf(write_urdf(robot, tmp_path / "robot.urdf"))
    assert np.isinf([limits[2] for limits in again.position_limits]).all()


def test_negative_friction_is_written_and_noted(robot_of, tmp_path: Path):
    robot = robot_of("tx40").with_parameter_values({"Fv3": -0.5})
    assert "damping of joint3 is negative: simulators may fail" in urdf_notes(robot)
    again = load_urdf(write_urdf(robot, tmp_path / "robot.urdf"))
    assert again.parameter("Fv3") == -0.5


def test_a_negative_rotor_inertia_is_refused_with_a_remedy(robot_of, tmp_path: Path):
    robot = robot_of("tx40").with_parameter_values({"Ia4": -0.25})
    with pytest.raises(InconsistentInertiaError, match=r"'joint4' is -0.25.*\(pc-wls\)"):
        write_urdf(robot, tmp_path / "robot.urdf")
    assert not list(tmp_path.iterdir())


def test_a_link_that_cannot_exist_is_refused(robot_of):
    with pytest.raises(InconsistentInertiaError, match="link 'link2'"):
        urdf_bytes(robot_of("tx40").with_parameter_values({"XX2": -1.0}))


@pytest.mark.parametrize("bad", ["\x07", " j", ""], ids=["control character", "blank", "empty"])
def test_a_name_that_xml_cannot_hold_is_refused(bad):
    model = pin.Model()
    model.addJoint(0, pin.JointModelRY(), pin.SE3.Identity(), "j")
    model.appendBodyToJoint(1, BALL, pin.SE3.Identity())
    model.addBodyFrame(bad, 1, pin.SE3.Identity(), 0)
    robot = Robot.from_pinocchio(model)
    with pytest.raises(RobotFileError, match=r"link name .*rename it"):
        urdf_bytes(robot)


def test_a_name_of_a_robot_that_xml_cannot_hold_is_refused():
    model = pin.Model()
    model.name = "a\x00"
    model.addJoint(0, pin.JointModelRY(), pin.SE3.Identity(), "j")
    model.appendBodyToJoint(1, BALL, pin.SE3.Identity())
    with pytest.raises(RobotFileError, match="its name has characters"):
        urdf_bytes(Robot.from_pinocchio(model, friction=Friction.from_model("viscous", 1)))
