from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import BodysenseError, InconsistentInertiaError, MissingDependencyError
from bodysense.files import FileWriteError
from bodysense.robot.actuators import Actuators
from bodysense.robot.io.dh import load_dh
from bodysense.robot.io.load import load_robot
from bodysense.robot.io.mjcf import load_mjcf
from bodysense.robot.io.mjcf_writer import mjcf_notes, mjcf_text, write_mjcf
from bodysense.robot.layout import INERTIAL_TERMS
from bodysense.robot.robot import Robot
from bodysense.spatial.pseudo_inertia import pi_from_mass_com_inertia, random_pi

mujoco = pytest.importorskip("mujoco")

EXAMPLES = ("panda", "talos_full", "go1")


def _example(name):
    try:
        return load_robot(f"example:{name}")
    except MissingDependencyError as error:
        pytest.skip(str(error))


def _random_parents(rng, n=9):
    """Depth first, as Pinocchio wants it: each hangs on the one before it or on one above that."""
    parents, path = [], [0]
    for k in range(1, n + 1):
        path = path[: int(rng.integers(max(1, len(path) - 2), len(path) + 1))]
        parents.append(path[-1])
        path.append(k)
    return parents


def _random_tree(rng, parents, *, floating=False, massless=()):
    """A tree with joints of both kinds about any axis; parents are counted from 1, 0 the base."""
    model, n = pin.Model(), len(parents)
    model.name = 'random <"&> tree'
    model.gravity.linear = rng.normal(size=3)
    if floating:
        model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root")
        model.appendBodyToJoint(1, _inertia(rng), pin.SE3.Identity())
        model.addBodyFrame("base", 1, pin.SE3.Identity(), 0)
    for k, parent in enumerate(parents, start=1):
        axis = rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        joint = rng.choice([pin.JointModelRevoluteUnaligned, pin.JointModelPrismaticUnaligned])
        i = model.addJoint(
            parent + floating,
            joint(axis),
            _placement(rng),
            f"<joint & {k}>",
            np.array([10.0 * k]),
            np.array([np.inf]),
            np.array([-0.1 * k]),
            np.array([np.inf if k == 2 else 0.2 * k]),
        )
        if k not in massless:
            model.appendBodyToJoint(i, _inertia(rng), pin.SE3.Identity())
        model.addBodyFrame(f'link "{k}"', i, pin.SE3.Identity(), 0)
    return Robot.from_pinocchio(
        model,
        coefficients={"Ia": rng.random(n), "Fv": rng.random(n), "Fc": rng.random(n)},
        allow_inconsistent=bool(massless),
    )


def _inertia(rng):
    return pin.Inertia.FromDynamicParameters(random_pi(rng, 1)[0])


def _placement(rng):
    return pin.SE3(pin.exp3(rng.normal(size=3)), rng.normal(size=3))


def _compiled(robot, folder):
    path = folder / "robot.xml"
    write_mjcf(robot, path)
    return mujoco.MjModel.from_xml_path(str(path))


def _parity(robot, compiled, rng):
    """Largest differences of mass matrix and bias forces, relative to their largest entry.

    MuJoCo's linear velocity of a free joint is in world coordinates: v = J v_mujoco, and its
    derivative adds -w x v to the linear acceleration in base coordinates.
    """
    state = mujoco.MjData(compiled)
    nv = robot.nv
    q, v = rng.uniform(-2.0, 2.0, robot.nq), rng.normal(size=nv)
    J, a, qpos, qvel = np.eye(nv), np.zeros(nv), q.copy(), v.copy()
    if robot.floating_base:
        q[3:7] /= np.linalg.norm(q[3:7])
        R = pin.Quaternion(q[6], q[3], q[4], q[5]).matrix()
        J[:3, :3] = R.T
        a[:3] = -np.cross(v[3:6], v[:3])
        qpos[3:7], qvel[:3] = q[[6, 3, 4, 5]], R @ v[:3]
    state.qpos, state.qvel = qpos, qvel
    mujoco.mj_forward(compiled, state)
    M_mujoco = np.empty((nv, nv))
    for k in range(nv):
        column = np.zeros(nv)
        mujoco.mj_mulM(compiled, state, column, np.eye(nv)[k])
        M_mujoco[:, k] = column
    data = robot.model.createData()
    M = pin.crba(robot.model, data, q)
    M = J.T @ (np.triu(M) + np.triu(M, 1).T) @ J
    bias = J.T @ pin.rnea(robot.model, data, q, v, a)
    return (
        np.abs(M - M_mujoco).max() / np.abs(M).max(),
        np.abs(bias - state.qfrc_bias).max() / np.abs(bias).max(),
    )


# -- parity with MuJoCo ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tx40", "tx40-coupled", "rv2sq", *EXAMPLES])
def test_dynamics_of_known_robots(tmp_path, name):
    robot = _example(name) if name in EXAMPLES else load_robot(name)
    compiled = _compiled(robot, tmp_path)
    rng = np.random.default_rng(0)
    for _ in range(3):
        assert max(_parity(robot, compiled, rng)) < 1e-12


@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_dynamics_of_random_trees(tmp_path, seed, floating):
    rng = np.random.default_rng(seed)
    robot = _random_tree(rng, _random_parents(rng), floating=floating)
    compiled = _compiled(robot, tmp_path)
    for _ in range(3):
        assert max(_parity(robot, compiled, rng)) < 1e-12


def test_capsules_weigh_nothing_and_touch_nothing(tmp_path):
    robot = load_robot("tx40")
    compiled = _compiled(robot, tmp_path)
    assert compiled.ngeom > 0
    assert not compiled.geom_contype.any()
    assert not compiled.geom_conaffinity.any()
    np.testing.assert_array_equal(compiled.body_mass[1:], [robot.pi(k)[0] for k in range(6)])


# -- there and back ----------------------------------------------------------------------------


def _assert_same(robot, again):
    assert again.name == robot.name
    assert again.layout == robot.layout
    pi, pi_again = (r.theta[r.layout.inertial].reshape(-1, 10) for r in (robot, again))
    assert (np.abs(pi_again - pi) / np.abs(pi).max(axis=1, keepdims=True)).max() < 1e-12
    n = robot.layout.n_inertial
    np.testing.assert_array_equal(again.theta[n:], robot.theta[n:])
    np.testing.assert_array_equal(again.effort_limit, robot.effort_limit)
    np.testing.assert_array_equal(again.position_limits, robot.position_limits)
    np.testing.assert_array_equal(again.model.gravity.linear, robot.model.gravity.linear)


@pytest.mark.parametrize("name", ["tx40", "rv2sq", *EXAMPLES])
def test_round_trip_of_known_robots(tmp_path, name):
    robot = _example(name) if name in EXAMPLES else load_robot(name)
    write_mjcf(robot, tmp_path / "robot.xml")
    _assert_same(robot, load_mjcf(tmp_path / "robot.xml"))


@pytest.mark.parametrize("floating", [False, True])
def test_round_trip_of_a_random_tree(tmp_path, floating):
    rng = np.random.default_rng(5)
    robot = _random_tree(rng, _random_parents(rng), floating=floating)
    write_mjcf(robot, tmp_path / "robot.xml")
    _assert_same(robot, load_mjcf(tmp_path / "robot.xml"))


def test_robot_frames_become_sites(tmp_path):
    robot = _example("panda")
    write_mjcf(robot, tmp_path / "robot.xml")
    again = load_mjcf(tmp_path / "robot.xml")
    q = np.random.default_rng(1).uniform(-1.0, 1.0, robot.nq)
    data, data_again = robot.model.createData(), again.model.createData()
    pin.framesForwardKinematics(robot.model, data, q)
    pin.framesForwardKinematics(again.model, data_again, q)
    bodies = [frame for frame in robot.model.frames if frame.type == pin.FrameType.BODY]
    assert len(bodies) > robot.n_joints
    for frame in bodies:
        here = data.oMf[robot.model.getFrameId(frame.name, frame.type)]
        there = data_again.oMf[again.model.getFrameId(frame.name)]
        np.testing.assert_allclose(here.homogeneous, there.homogeneous, rtol=0, atol=1e-13)


def test_frames_of_standard_dh(tmp_path):
    (tmp_path / "arm.yaml").write_text("""
convention: standard
joints: [{name: j, type: revolute, theta: 0, d: 0.1, a: 0.2, alpha: 0.3}]
links: [{name: l, pi: [1, 0, 0, 0, 1, 0, 1, 0, 0, 1]}]
""")
    robot = load_dh(tmp_path / "arm.yaml")
    compiled = _compiled(robot, tmp_path)
    assert compiled.body(1).name == compiled.site(0).name == "l"
    np.testing.assert_allclose(compiled.site_pos[0], [0.2, 0.0, 0.1], rtol=1e-15)


# -- massless links ----------------------------------------------------------------------------


@pytest.mark.parametrize("floating", [False, True])
def test_massless_links_become_joints_of_the_next_body(tmp_path, floating):
    rng = np.random.default_rng(6)
    robot = _random_tree(rng, [0, 1, 2, 3, 1, 5], floating=floating, massless=(2, 5))
    compiled = _compiled(robot, tmp_path)
    assert compiled.nbody == 5 + floating
    assert [compiled.body(f'link "{k}"').jntnum[0] for k in (1, 3, 4, 6)] == [1, 2, 1, 2]
    for _ in range(3):
        assert max(_parity(robot, compiled, rng)) < 1e-12


def _chain(rng, massless):
    model = pin.Model()
    for k in range(massless + 1):
        i = model.addJoint(k, pin.JointModelRY(), _placement(rng), f"j{k}")
        if k == massless:
            model.appendBodyToJoint(i, _inertia(rng), pin.SE3.Identity())
    return Robot.from_pinocchio(model)


def test_a_chain_of_massless_links(tmp_path):
    rng = np.random.default_rng(7)
    robot = _chain(rng, 5).with_parameter_values({f"Ia{k}": 0.1 for k in range(1, 7)})
    assert max(_parity(robot, _compiled(robot, tmp_path), rng)) < 1e-12
    again = load_mjcf(tmp_path / "robot.xml")
    assert again.layout == robot.layout
    np.testing.assert_allclose(again.theta, robot.theta, rtol=1e-12, atol=1e-15)
    with pytest.raises(InconsistentInertiaError, match=r"'j6' .* 6 massless links precede it"):
        mjcf_text(_chain(rng, 6))


@pytest.mark.parametrize("massless", [1, 3])  # one that carries two links, one that carries none
def test_massless_links_that_cannot_be_folded(tmp_path, massless):
    robot = _random_tree(np.random.default_rng(8), [0, 1, 1], massless=(massless,))
    name = f'link "{massless}"'
    with pytest.raises(InconsistentInertiaError, match=f"'{name}'.*the body is massless"):
        write_mjcf(robot, tmp_path / "robot.xml")
    assert not (tmp_path / "robot.xml").exists()


# -- what cannot be written --------------------------------------------------------------------


def test_inconsistent_links_are_named(tmp_path):
    robot = load_robot("tx40").with_parameter_values({"M3": -1.0})
    with pytest.raises(
        InconsistentInertiaError, match=r"link 'link3' of robot 'TX40' .*mass is -1"
    ):
        write_mjcf(robot, tmp_path / "robot.xml")
    robot = load_robot("tx40").with_parameter_values({"ZZ2": 9.0})
    with pytest.raises(InconsistentInertiaError, match=r"'link2'.*principal moments"):
        write_mjcf(robot, tmp_path / "robot.xml")


def test_a_plate_is_written_and_a_point_is_not(tmp_path):
    pi = load_robot("tx40").pi("link2")
    com, mass = pi[1:4] / pi[0], pi[0]
    plate = pi_from_mass_com_inertia(mass, com, np.diag([0.1, 0.2, 0.3]))
    point = pi_from_mass_com_inertia(mass, com, np.zeros((3, 3)))
    names = [f"{term}2" for term in INERTIAL_TERMS]
    robot = load_robot("tx40").with_parameter_values(dict(zip(names, plate, strict=True)))
    rng = np.random.default_rng(9)
    assert max(_parity(robot, _compiled(robot, tmp_path), rng)) < 1e-10
    robot = load_robot("tx40").with_parameter_values(dict(zip(names, point, strict=True)))
    with pytest.raises(InconsistentInertiaError, match=r"'link2'.*no volume"):
        mjcf_text(robot)


def test_negative_rotor_inertia():
    robot = load_robot("tx40").with_parameter_values({"Ia2": -0.1})
    with pytest.raises(InconsistentInertiaError, match=r"joint 'joint2' is -0\.1"):
        mjcf_text(robot)


def test_the_name_of_the_world():
    model = pin.Model()
    model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "world")
    model.appendBodyToJoint(1, _inertia(np.random.default_rng(9)), pin.SE3.Identity())
    with pytest.raises(BodysenseError, match="called 'world'"):
        mjcf_text(Robot.from_pinocchio(model))


def test_no_folder_to_write_to(tmp_path):
    with pytest.raises(FileWriteError, match="does not exist"):
        write_mjcf(load_robot("tx40"), tmp_path / "nowhere" / "robot.xml")


def test_notes_name_what_is_lost(tmp_path):
    robot = load_robot("tx40-coupled", friction="stribeck")
    notes = mjcf_notes(robot)
    assert notes == (
        "friction 'stribeck': Fs left out",
        "the motor of joint6 also moves joint5; left out, with Fvm6, Fcm6",
        "left out: gear ratios, drive gains, controller, acceleration limits",
        "left out: velocity limits",
    )
    text = write_mjcf(robot, tmp_path / "robot.xml").read_text()
    assert all(note in text for note in notes)


def test_nothing_lost_nothing_noted():
    model = pin.Model()
    model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "j")
    model.appendBodyToJoint(1, _inertia(np.random.default_rng(9)), pin.SE3.Identity())
    robot = Robot.from_pinocchio(model)
    assert mjcf_notes(robot) == ()
    assert "<!--" not in mjcf_text(robot)


def test_negative_parameters_are_written_and_noted():
    robot = load_robot("tx40").with_parameter_values({"Fv2": -0.5, "Fc3": -0.25})
    text, notes = mjcf_text(robot), mjcf_notes(robot)
    assert "damping of joint2 is negative: simulators may fail" in notes
    assert "frictionloss of joint3 is negative: simulators may fail" in notes
    joints = {joint.get("name"): joint for joint in ET.fromstring(text).iter("joint")}
    assert joints["joint2"].get("damping") == "-0.5"
    assert joints["joint3"].get("frictionloss") == "-0.25"


def test_limits_without_room_are_noted(tmp_path):
    model = pin.Model()
    zero = np.zeros(1)
    model.addJoint(
        0, pin.JointModelRX(), pin.SE3.Identity(), "j", zero + 1, zero + np.inf, zero, zero
    )
    model.appendBodyToJoint(1, _inertia(np.random.default_rng(9)), pin.SE3.Identity())
    robot = Robot.from_pinocchio(model)
    assert mjcf_notes(robot) == ("position limits of j left out: they leave no room",)
    assert not _compiled(robot, tmp_path).jnt_limited.any()


def test_a_note_cannot_end_the_comment_it_stands_in():
    robot = load_robot("tx40")
    model = robot.model.copy()
    model.names[1] = "a--><b"
    odd = Robot.from_pinocchio(model, coefficients={"Fv": -1.0}, actuators=Actuators.from_values(6))
    assert "damping of a--><b is negative: simulators may fail" in mjcf_notes(odd)
    assert ET.fromstring(mjcf_text(odd)).find("worldbody/body/joint").get("name") == "a--><b"
