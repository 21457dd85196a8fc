"""Regressors against Pinocchio, iDynTree, finite differences and a model turned round by hand."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from scipy.linalg import null_space, subspace_angles

from bodysense.errors import ShapeError, UnknownNameError
from bodysense.robot import (
    Actuators,
    contact_map,
    gravity_regressor,
    inverse_dynamics,
    load_robot,
    torque_regressor,
)

ROBOTS = [
    "serial",
    "branched",
    "floating",
    "tx40",
    "rv2sq",
    "example:panda",
    "example:talos",
    "example:tiago",
]


@pytest.mark.parametrize("name", ROBOTS)
def test_inertial_columns_are_pinocchios(name, robot_of, states_of, rng):
    robot = robot_of(name)
    q, v, a = states_of(robot, rng, 4)
    data = robot.model.createData()
    Y = torque_regressor(robot, q, v, a)
    assert Y.shape == (4, robot.nv, robot.layout.size)
    for t in range(4):
        expected = pin.computeJointTorqueRegressor(robot.model, data, q[t], v[t], a[t])
        scale = np.abs(expected).max()
        actual = Y[t][:, robot.layout.inertial]
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-11 * scale)


@pytest.mark.parametrize("name", ["serial", "branched", "floating", "tx40", "example:talos"])
def test_drive_columns_stand_on_their_own_joint(name, robot_of, states_of, rng):
    robot = robot_of(name)
    q, v, a = states_of(robot, rng, 3)
    Y = torque_regressor(robot, q, v, a)
    layout, n = robot.layout, robot.n_joints
    first = robot.nv - n
    expected = np.zeros((3, robot.nv, layout.size - layout.n_inertial))
    for j in range(n):
        expected[:, first + j, j] = a[:, first + j]
        phi, _ = robot.friction.model.basis(v[:, first + j], robot.friction.shape[j])
        for k in range(len(layout.friction_terms)):
            expected[:, first + j, n * (1 + k) + j] = phi[:, k]
    np.testing.assert_allclose(Y[:, :, layout.n_inertial :], expected, rtol=1e-14, atol=1e-16)


def test_columns_of_the_coupled_wrist(robot_of, states_of, rng):
    robot = robot_of("tx40-three")
    assert robot.layout.names[robot.layout.coupling] == ("Iam6", "Fvm6", "Fcm6")
    q, v, a = states_of(robot, rng, 20)
    Y = torque_regressor(robot, q, v, a)[:, :, robot.layout.coupling]
    expected = np.zeros((20, 6, 3))
    sign = np.sign(v[:, 4] + v[:, 5])
    assert set(sign) == {-1.0, 1.0}
    expected[:, 4] = np.stack([a[:, 5], v[:, 5], sign], axis=1)
    expected[:, 5] = np.stack([a[:, 4], v[:, 4], sign], axis=1)
    np.testing.assert_allclose(Y, expected, rtol=1e-14, atol=0)


def test_coupled_columns_of_any_row_of_C(robot_of, states_of, rng):
    coupling = np.eye(6)
    coupling[3, [1, 4]] = 0.5, -2.0
    drives = Actuators.from_values(6, coupling=coupling, coupled_terms=("Iam", "Fvm", "Fcm"))
    robot = robot_of("tx40").with_friction("coulomb", coefficients={}, width=[0.1] * 3 + [0.7] * 3)
    robot = robot.with_actuators(drives)
    q, v, a = states_of(robot, rng, 5)
    Y = torque_regressor(robot, q, v, a)[:, :, robot.layout.coupling]
    c = coupling[3]
    shared = np.outer(c, c) - np.diag(c * c)
    np.testing.assert_allclose(Y[:, :, 0], a @ shared, rtol=0, atol=1e-14)
    np.testing.assert_allclose(Y[:, :, 1], v @ shared, rtol=0, atol=1e-14)
    smooth = np.tanh(v @ c / 0.7)  # the width of the motor's own joint
    np.testing.assert_allclose(Y[:, :, 2], np.outer(smooth, c), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["branched", "floating", "tx40-three", "example:talos"])
def test_times_theta_gives_the_torques(name, robot_of, states_of, rng):
    robot = robot_of(name)
    q, v, a = states_of(robot, rng, 80)  # more than there are chunks
    tau = inverse_dynamics(robot, q, v, a)
    Y = torque_regressor(robot, q, v, a)
    np.testing.assert_allclose(Y @ robot.theta, tau, rtol=0, atol=1e-12 * np.abs(tau).max())


@pytest.mark.parametrize("name", ["floating", "tx40-three"])
def test_some_columns(name, robot_of, states_of, rng):
    robot = robot_of(name)
    q, v, a = states_of(robot, rng, 70)
    whole = torque_regressor(robot, q, v, a)
    columns = rng.permutation(robot.layout.size)[:17]
    some = torque_regressor(robot, q, v, a, columns=columns)
    np.testing.assert_array_equal(some, whole[:, :, columns])
    np.testing.assert_array_equal(
        gravity_regressor(robot, q, columns=columns), gravity_regressor(robot, q)[:, :, columns]
    )


def test_no_columns(robot_of, states_of, rng):
    robot = robot_of("tx40")
    motion = states_of(robot, rng, 3)
    none = np.zeros(0, dtype=np.int64)
    assert torque_regressor(robot, *motion, columns=none).shape == (3, 6, 0)


def test_wrong_columns_are_refused(robot_of, states_of, rng):
    robot = robot_of("tx40")
    motion = states_of(robot, rng, 3)
    for columns in ([78], [0, -1], [0.5], [[1, 2]], np.ones(78, dtype=bool)):
        with pytest.raises(ShapeError, match="columns"):
            torque_regressor(robot, *motion, columns=np.array(columns))


@pytest.mark.parametrize("name", ["tx40", "floating", "example:hector"])
def test_no_samples(name, robot_of):
    robot = robot_of(name)
    q, v = np.empty((0, robot.nq)), np.empty((0, robot.nv))
    assert torque_regressor(robot, q, v, v).shape == (0, robot.nv, robot.layout.size)
    assert gravity_regressor(robot, q).shape == (0, robot.nv, robot.layout.size)
    assert contact_map(robot, q, ["universe"]).shape == (0, robot.nv, 6)


def test_a_body_without_joints(robot_of, states_of, rng):
    robot = robot_of("example:hector")
    q, v, a = states_of(robot, rng, 4)
    Y = torque_regressor(robot, q, v, a)
    assert Y.shape == (4, 6, 10)
    data = robot.model.createData()
    for t in range(4):
        expected = pin.computeJointTorqueRegressor(robot.model, data, q[t], v[t], a[t])
        np.testing.assert_allclose(Y[t], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["branched", "floating", "example:tiago"])
def test_gravity_regressor(name, robot_of, states_of, rng):
    robot = robot_of(name)
    q, _, _ = states_of(robot, rng, 4)
    data = robot.model.createData()
    G = gravity_regressor(robot, q)
    inertial = G[:, :, robot.layout.inertial] @ robot.theta[robot.layout.inertial]
    for t in range(4):
        expected = pin.computeGeneralizedGravity(robot.model, data, q[t])
        scale = np.abs(expected).max()
        np.testing.assert_allclose(inertial[t], expected, rtol=0, atol=1e-12 * scale)
    # At rest nothing but an offset is left of the drives.
    drives = G[:, robot.nv - robot.n_joints :, robot.layout.n_inertial :]
    expected = np.zeros_like(drives)
    if "Fo" in robot.layout.friction_terms:
        offset = robot.layout.friction("Fo")
        expected[:, :, offset.start - robot.layout.n_inertial :] = np.eye(robot.n_joints)
    np.testing.assert_array_equal(drives, expected)


def test_bad_motions_are_refused(robot_of, states_of, rng):
    robot = robot_of("floating")
    q, v, a = states_of(robot, rng, 3)
    with pytest.raises(ShapeError, match=r"v of random-12 has shape \(2, 18\)"):
        torque_regressor(robot, q, v[:2], a)
    with pytest.raises(ShapeError, match=r"q has shape \(3, 18\), expected \(any, 19\)"):
        gravity_regressor(robot, q[:, 1:])
    a[0, 0] = np.nan
    with pytest.raises(ShapeError, match="a of random-12 holds nan"):
        torque_regressor(robot, q, v, a)
    q[1, 3:7] *= 2.0
    with pytest.raises(ShapeError, match="unit quaternion"):
        gravity_regressor(robot, q)


# -- another link as the base ----------------------------------------------------------------


def _inertial(rng):
    x, y, z = rng.uniform(-0.1, 0.1, 3)
    i, j, k = rng.uniform(0.15, 0.2, 3)
    return (
        f'<inertial><origin xyz="{x} {y} {z}" rpy="0.1 0.2 0.3"/>'
        f'<mass value="{rng.uniform(1, 3)}"/>'
        f'<inertia ixx="{i}" iyy="{j}" izz="{k}" ixy="0.01" ixz="-0.02" iyz="0.015"/></inertial>'
    )


@pytest.fixture(scope="module")
def urdf():
    """A tree: base - a - b, base - c - d - e, with a prismatic joint at d."""
    rng = np.random.default_rng(11)
    parts = [f'<link name="base">{_inertial(rng)}</link>']
    for pair in ("base a", "a b", "base c", "c d", "d e"):
        parent, child = pair.split()
        xyz, rpy, axis = rng.uniform(-0.5, 0.5, (3, 3))
        axis /= np.linalg.norm(axis)
        kind = "prismatic" if child == "d" else "revolute"
        parts.append(
            f'<link name="{child}">{_inertial(rng)}</link>'
            f'<joint name="to_{child}" type="{kind}"><parent link="{parent}"/>'
            f'<child link="{child}"/><origin xyz="{" ".join(map(repr, map(float, xyz)))}" '
            f'rpy="{" ".join(map(repr, map(float, rpy)))}"/>'
            f'<axis xyz="{" ".join(map(repr, map(float, axis)))}"/>'
            '<limit lower="-3" upper="3" effort="100" velocity="10"/></joint>'
        )
    return f'<robot name="tree">{"".join(parts)}</robot>'


@pytest.fixture(scope="module")
def tree(urdf, tmp_path_factory):
    path = tmp_path_factory.mktemp("tree") / "tree.urdf"
    path.write_text(urdf)
    return load_robot(path, floating_base=True, friction="none")


LINKS = ("base", "a", "b", "c", "d", "e")


@pytest.mark.parametrize("base_link", LINKS)
def test_rows_for_another_base_are_idyntrees(base_link, urdf, tree, states_of, rng):
    idyn = pytest.importorskip("idyntree.bindings")
    loader = idyn.ModelLoader()
    assert loader.loadModelFromString(urdf)
    peer = loader.model()
    computations = idyn.KinDynComputations()
    assert computations.loadRobotModel(peer)
    assert computations.setFloatingBase(base_link)
    assert computations.setFrameVelocityRepresentation(idyn.BODY_FIXED_REPRESENTATION)
    # their order of links, joints and moments of inertia, and where ours stand in it
    moments = [0, 1, 2, 3, 4, 5, 7, 6, 8, 9]  # they have xx, xy, xz, yy, yz, zz
    columns = [10 * peer.getLinkIndex(link) + k for link in tree.link_names for k in moments]
    joints = [peer.getJointIndex(name) for name in tree.joint_names]
    rows = [*range(6), *(6 + j for j in joints)]

    q, v, a = states_of(tree, rng, 3)
    Y = torque_regressor(tree, q, v, a, base_link=base_link)[:, :, tree.layout.inertial]
    data = tree.model.createData()
    body = tree.link_names.index(base_link) + 1
    for t in range(3):
        pin.forwardKinematics(tree.model, data, q[t], v[t], a[t])
        s, ds, dds = np.empty((3, 5))
        s[joints], ds[joints], dds[joints] = q[t, 7:], v[t, 6:], a[t, 6:]
        assert computations.setRobotState(
            data.oMi[body].homogeneous, s, data.v[body].vector, ds, tree.model.gravity.linear
        )
        out = idyn.MatrixDynSize()
        acceleration = idyn.Vector6.FromPython(data.a[body].vector)
        joint_acceleration = idyn.VectorDynSize.FromPython(dds)
        assert computations.inverseDynamicsInertialParametersRegressor(
            acceleration, joint_acceleration, out
        )
        expected = out.toNumPy()[np.ix_(rows, columns)]
        np.testing.assert_allclose(Y[t], expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["floating", "example:talos"])
def test_power_does_not_depend_on_the_base(name, robot_of, states_of, rng):
    robot = robot_of(name)
    q, v, a = states_of(robot, rng, 3)
    tau = torque_regressor(robot, q, v, a) @ robot.theta
    data = robot.model.createData()
    for link in (robot.link_names[0], robot.link_names[1], robot.link_names[-1]):
        moved = torque_regressor(robot, q, v, a, base_link=link) @ robot.theta
        for t in range(3):
            pin.forwardKinematics(robot.model, data, q[t], v[t])
            twist = data.v[robot.link_names.index(link) + 1].vector
            power = moved[t, :6] @ twist + moved[t, 6:] @ v[t, 6:]
            assert power == pytest.approx(tau[t] @ v[t], rel=1e-10)


def test_the_own_base_changes_nothing(robot_of, states_of, rng):
    robot = robot_of("floating")
    motion = states_of(robot, rng, 3)
    own = torque_regressor(robot, *motion, base_link=robot.link_names[0])
    np.testing.assert_allclose(own, torque_regressor(robot, *motion), rtol=0, atol=1e-13)


def test_wrench_on_another_base_moves_the_whole_body(tree, states_of, rng):
    """The wrench on any base is the rate of the whole body's momentum, seen from there."""
    q, v, a = states_of(tree, rng, 3)
    data = tree.model.createData()
    for link in LINKS:
        body = tree.link_names.index(link) + 1
        tau = torque_regressor(tree, q, v, a, base_link=link) @ tree.theta
        for t in range(3):
            pin.computeCentroidalMomentumTimeVariation(tree.model, data, q[t], v[t], a[t])
            weight = pin.computeTotalMass(tree.model) * tree.model.gravity.linear
            rate = data.dhg - pin.Force(weight, np.zeros(3))  # about the centre of mass
            com = pin.centerOfMass(tree.model, data, q[t])
            at_world = pin.SE3(np.eye(3), com).act(rate)
            pin.forwardKinematics(tree.model, data, q[t])
            expected = data.oMi[body].actInv(at_world).vector
            np.testing.assert_allclose(tau[t, :6], expected, rtol=0, atol=1e-9)


def test_the_null_space_does_not_depend_on_the_base(tree, states_of, rng):
    """Paper 003: the combinations that the base wrench tells apart are the same for all bases."""
    motion = states_of(tree, rng, 60)
    spaces = []
    for link in LINKS:
        Y = torque_regressor(tree, *motion, base_link=link)[:, :6].reshape(-1, tree.layout.size)
        Y = Y[:, tree.layout.inertial]
        spaces.append(null_space(Y, rcond=1e-10))
    # Behind a revolute joint there are 7 combinations more; behind a prismatic one 4, mass and
    # first moments: the moments of inertia of a link that does not turn add to its parent's.
    assert spaces[0].shape == (60, 60 - (10 + 4 * 7 + 4))
    for other in spaces[1:]:
        assert other.shape == spaces[0].shape
        assert subspace_angles(spaces[0], other).max() < 1e-7


def test_joint_torques_tell_no_more_than_the_base_wrench(tree, states_of, rng):
    """Ayusawa, Venture and Nakamura: what joint torques identify, the base wrench does too."""
    motion = states_of(tree, rng, 60)
    Y = torque_regressor(tree, *motion)[:, :, tree.layout.inertial]
    unseen = null_space(Y[:, :6].reshape(-1, 60), rcond=1e-10)
    joints = Y[:, 6:].reshape(-1, 60)
    assert np.abs(joints @ unseen).max() < 1e-10 * np.abs(joints).max()
    # and strictly less: the total mass does not show in the joints of a floating robot
    assert null_space(joints, rcond=1e-10).shape[1] > unseen.shape[1]


def test_unknown_base_links(robot_of, tree, states_of, rng):
    motion = states_of(tree, rng, 1)
    with pytest.raises(UnknownNameError, match="unknown link 'bas': did you mean 'base'"):
        torque_regressor(tree, *motion, base_link="bas")
    fixed = robot_of("tx40")
    with pytest.raises(UnknownNameError, match="floating_base=True"):
        torque_regressor(fixed, *states_of(fixed, rng, 1), base_link="link1")


# -- contacts --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["branched", "floating", "example:talos"])
def test_contact_map_is_the_work_of_wrenches(name, robot_of, states_of, rng):
    """Gᵀ v is the twist of each frame, here by finite differences of its pose."""
    robot = robot_of(name)
    q, v, _ = states_of(robot, rng, 2)
    frames = ["link3", "link9"] if name != "example:talos" else ["left_sole_link", "imu_link"]
    G = contact_map(robot, q, frames)
    assert G.shape == (2, robot.nv, 12)
    data = robot.model.createData()
    h = 1e-5
    for t in range(2):
        for k, frame in enumerate(frames):
            index = robot.model.getFrameId(frame, pin.FrameType.BODY)
            ahead, back = (
                _pose(robot, data, pin.integrate(robot.model, q[t], step * v[t]), index)
                for step in (h, -h)
            )
            twist = pin.log6(back.inverse() * ahead).vector / (2 * h)
            actual = G[t, :, 6 * k : 6 * k + 6].T @ v[t]
            scale = np.abs(twist).max()
            np.testing.assert_allclose(actual, twist, rtol=0, atol=1e-7 * scale)
            J = pin.computeFrameJacobian(robot.model, data, q[t], index, pin.LOCAL)
            np.testing.assert_allclose(G[t, :, 6 * k : 6 * k + 6], J.T, rtol=0, atol=1e-12)


def _pose(robot, data, q, index):
    pin.framesForwardKinematics(robot.model, data, q)
    return data.oMf[index].copy()


def test_contact_map_balances_the_equations_of_motion(robot_of, states_of, rng):
    """M a + h = tau + G f, with f the wrench of the environment: what rnea subtracts."""
    robot = robot_of("floating").with_friction("none", coefficients={})
    q, v, a = states_of(robot, rng, 1)
    wrench = rng.normal(size=6)
    outside = pin.StdVec_Force()
    body = robot.link_names.index("link5") + 1
    for i in range(robot.model.njoints):
        outside.append(pin.Force(wrench) if i == body else pin.Force.Zero())
    data = robot.model.createData()
    tau = pin.rnea(robot.model, data, q[0], v[0], a[0], outside)
    G = contact_map(robot, q, ["link5"])
    left = inverse_dynamics(robot, q, v, a)[0]
    np.testing.assert_allclose(left, tau + G[0] @ wrench, rtol=0, atol=1e-10)


def test_unknown_frames(robot_of, states_of, rng):
    robot = robot_of("floating")
    q, _, _ = states_of(robot, rng, 1)
    with pytest.raises(UnknownNameError, match="unknown frame 'lnk5': did you mean 'link5'"):
        contact_map(robot, q, ["link4", "lnk5"])
    with pytest.raises(ShapeError, match="q has shape"):
        contact_map(robot, q[0], ["link4"])
