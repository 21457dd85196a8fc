from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import RobotFileError, UnsupportedJointError
from bodysense.robot import Actuators, Friction, Robot
from bodysense.robot.model import (
    has_floating_base,
    kernel_tree,
    normalise_model,
    one_axis_joints,
    require_distinct,
)

CONTINUOUS = """
<robot name="spinner">
  <link name="foot"/>
  <link name="wheel"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="tool"><inertial><origin xyz="0.1 0.2 0.3"/><mass value="2"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="tip"/>
  <joint name="spin" type="continuous"><parent link="foot"/><child link="wheel"/>
    <origin xyz="1 2 3" rpy="0.1 0.2 0.3"/><axis xyz="0.36 0.48 0.8"/>
    <limit effort="5" velocity="6"/></joint>
  <joint name="flip" type="continuous"><parent link="wheel"/><child link="tool"/>
    <axis xyz="0 -1 0"/></joint>
  <joint name="end" type="fixed"><parent link="tool"/><child link="tip"/>
    <origin xyz="0 0 0.5" rpy="1 0 0"/></joint>
</robot>
"""


def turned(model: pin.Model, new: pin.Model, q):
    """Return the caller's coordinates for the coordinates q of the normalised model."""
    out = pin.neutral(model)
    for i in range(1, model.njoints):
        k = new.getJointId(model.names[i])
        here, there = new.joints[k].idx_q, model.joints[i].idx_q
        if model.joints[i].nq == 2:
            out[there : there + 2] = np.cos(q[here]), np.sin(q[here])
        else:
            n = model.joints[i].nq
            out[there : there + n] = q[here : here + n]
    return out


def order(model: pin.Model, new: pin.Model):
    """Places in the caller's v of the entries of the normalised model's v."""
    joints = [model.joints[model.getJointId(name)] for name in new.names[1:]]
    return [k for joint in joints for k in range(joint.idx_v, joint.idx_v + joint.nv)]


def random_q(model: pin.Model, rng):
    q = rng.uniform(-3.0, 3.0, model.nq)
    if has_floating_base(model):
        q[3:7] = rng.normal(size=4)
        q[3:7] /= np.linalg.norm(q[3:7])
    return q


def test_continuous_joints_become_revolute(rng):
    model = pin.buildModelFromXML(CONTINUOUS)
    assert model.nq == 4
    new = normalise_model(model)
    assert new.nq == new.nv == 2
    assert [new.joints[i].shortname() for i in (1, 2)] == ["JointModelRevoluteUnaligned"] * 2
    np.testing.assert_array_equal(new.lowerPositionLimit, [-np.inf, -np.inf])
    np.testing.assert_array_equal(new.upperPositionLimit, [np.inf, np.inf])
    np.testing.assert_array_equal(new.effortLimit, model.effortLimit)
    np.testing.assert_array_equal(new.velocityLimit, model.velocityLimit)
    axes = Robot.from_pinocchio(model).tree.axis
    np.testing.assert_allclose(axes, [[0.36, 0.48, 0.8], [0, -1, 0]], rtol=1e-15)
    q, v, a = rng.normal(size=(3, 2))
    data, new_data = model.createData(), new.createData()
    expected = pin.rnea(model, data, turned(model, new, q), v, a)
    np.testing.assert_allclose(pin.rnea(new, new_data, q, v, a), expected, rtol=1e-12)


@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
@pytest.mark.parametrize("branched", [False, True], ids=["serial", "branched"])
def test_motion_and_torques_stay_the_same(branched, floating, random_model, rng):
    model = random_model(rng, 11, branched=branched, floating=floating)
    before = model.saveToString()
    new = normalise_model(model)
    assert model.saveToString() == before
    assert new.nv == model.nv
    q = random_q(new, rng)
    v, a = rng.normal(size=(2, new.nv))
    places = order(model, new)
    assert sorted(places) == list(range(model.nv))
    old_q, old_v, old_a = turned(model, new, q), np.empty(model.nv), np.empty(model.nv)
    old_v[places], old_a[places] = v, a
    data, new_data = model.createData(), new.createData()
    tau = pin.rnea(model, data, old_q, old_v, old_a)
    scale = np.abs(tau).max()
    np.testing.assert_allclose(
        pin.rnea(new, new_data, q, v, a), tau[places], rtol=0, atol=1e-12 * scale
    )
    # The mass matrix, column by column from rnea, which asks nothing of the numbering.
    weightless = model.copy()
    weightless.gravity.linear = np.zeros(3)
    columns = [
        pin.rnea(weightless, data, old_q, np.zeros(model.nv), np.eye(model.nv)[k]) for k in places
    ]
    M = pin.crba(new, new_data, q)
    M = np.triu(M) + np.triu(M, 1).T
    expected = np.array(columns)[:, places]
    np.testing.assert_allclose(M, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    # Frames are found at the same place of the world.
    pin.framesForwardKinematics(model, data, old_q)
    pin.framesForwardKinematics(new, new_data, q)
    assert new.nframes == model.nframes
    for k, frame in enumerate(model.frames):
        assert (new.frames[k].name, new.frames[k].type) == (frame.name, frame.type)
        np.testing.assert_allclose(
            new_data.oMf[k].homogeneous, data.oMf[k].homogeneous, rtol=0, atol=1e-12
        )
        assert new.names[new.frames[k].parentJoint] == model.names[frame.parentJoint]


def test_subtrees_are_contiguous(random_model, rng):
    model = random_model(rng, 11, branched=True)
    new = normalise_model(model)
    assert list(model.parents) != list(new.parents)
    for i in range(1, new.njoints):
        below = sorted(new.subtrees[i])
        assert below == list(range(i, i + len(below)))
    again = normalise_model(new)
    assert list(again.names) == list(new.names)
    assert list(again.parents) == list(new.parents)


def test_numbers_of_the_joints_are_kept(random_model, rng):
    model = random_model(rng, 11, branched=True, floating=True)
    model.gravity.linear = np.array([1.0, 2.0, 3.0])
    n = model.nv
    model.effortLimit, model.velocityLimit = rng.uniform(1.0, 9.0, (2, n))
    model.upperPositionLimit = rng.uniform(1.0, 2.0, model.nq)
    model.lowerPositionLimit = -model.upperPositionLimit
    new = normalise_model(model)
    places = order(model, new)
    np.testing.assert_array_equal(new.gravity.linear, [1, 2, 3])
    np.testing.assert_array_equal(new.effortLimit, model.effortLimit[places])
    np.testing.assert_array_equal(new.velocityLimit, model.velocityLimit[places])
    np.testing.assert_array_equal(new.armature, model.armature[places])
    for i in range(2, new.njoints):
        old = model.joints[model.getJointId(new.names[i])]
        here = new.joints[i].idx_q
        if old.nq == 1:
            assert new.lowerPositionLimit[here] == model.lowerPositionLimit[old.idx_q]
            assert new.upperPositionLimit[here] == model.upperPositionLimit[old.idx_q]
        else:
            assert new.lowerPositionLimit[here] == -np.inf
            assert new.upperPositionLimit[here] == np.inf
        k = model.getJointId(new.names[i])
        np.testing.assert_array_equal(
            new.inertias[i].toDynamicParameters(), model.inertias[k].toDynamicParameters()
        )
        assert new.jointPlacements[i] == model.jointPlacements[k]


def test_the_result_is_a_model_of_its_own(random_model, rng):
    model = random_model(rng, 5)
    new = normalise_model(model)
    before = model.saveToString()
    new.inertias[1] = pin.Inertia.Zero()
    new.jointPlacements[2] = pin.SE3.Identity()
    new.armature = np.zeros(new.nv)
    new.gravity.linear = np.zeros(3)
    new.frames[1].name = "renamed"
    assert model.saveToString() == before


def two_joints(second: pin.JointModel, parent: int = 1, first: pin.JointModel | None = None):
    model = pin.Model()
    model.name = "odd"
    model.addJoint(0, first or pin.JointModelRX(), pin.SE3.Identity(), "first")
    model.addJoint(parent, second, pin.SE3.Identity(), "second")
    return model


@pytest.mark.parametrize(
    "joint",
    [
        pin.JointModelSpherical(),
        pin.JointModelSphericalZYX(),
        pin.JointModelPlanar(),
        pin.JointModelTranslation(),
        pin.JointModelFreeFlyer(),
        pin.JointModelUniversal(np.array([1.0, 0, 0]), np.array([0, 1.0, 0])),
        pin.JointModelHX(0.1),
        pin.JointModelComposite(pin.JointModelRX()),
    ],
    ids=lambda joint: joint.shortname().removeprefix("JointModel"),
)
def test_other_joints_are_refused(joint):
    model = two_joints(joint)
    before = model.saveToString()
    kind = joint.shortname().removeprefix("JointModel")
    with pytest.raises(UnsupportedJointError, match=f"joint 'second' of robot 'odd' is a {kind}: "):
        normalise_model(model)
    assert model.saveToString() == before


def test_a_second_tree_beside_a_floating_base_is_refused():
    flyer = pin.JointModelFreeFlyer()
    model = two_joints(pin.JointModelRX(), parent=0, first=flyer)
    with pytest.raises(UnsupportedJointError, match="'first', and joint 'second' starts a second"):
        normalise_model(model)
    with pytest.raises(UnsupportedJointError, match="'second' of robot 'odd' is a FreeFlyer"):
        normalise_model(two_joints(flyer, parent=0))
    with pytest.raises(UnsupportedJointError):
        normalise_model(two_joints(pin.JointModelFreeFlyer(), parent=0, first=flyer))


def test_several_trees_on_the_ground_are_one_robot():
    new = normalise_model(two_joints(pin.JointModelPY(), parent=0))
    assert list(new.parents) == [0, 0, 0]
    assert not has_floating_base(new)


def test_what_a_joint_is():
    model = two_joints(pin.JointModelPrismaticUnaligned(np.array([0, 0.6, 0.8])))
    robot = Robot.from_pinocchio(model)
    assert robot.joint_types == ("revolute", "prismatic")
    np.testing.assert_allclose(robot.tree.axis, [[1, 0, 0], [0, 0.6, 0.8]], rtol=1e-15)
    flying = normalise_model(two_joints(pin.JointModelPZ(), first=pin.JointModelFreeFlyer()))
    assert has_floating_base(flying)
    assert list(one_axis_joints(flying)) == [2]
    assert not has_floating_base(pin.Model())
    assert list(one_axis_joints(pin.Model())) == []


def test_links_have_the_names_of_the_bodies_at_their_joints():
    fixed = Robot.from_pinocchio(pin.buildModelFromXML(CONTINUOUS))
    assert fixed.link_names == ("wheel", "tool")
    flying = pin.buildModelFromXML(CONTINUOUS, pin.JointModelFreeFlyer())
    assert Robot.from_pinocchio(flying).link_names == ("foot", "wheel", "tool")
    nameless = two_joints(pin.JointModelRX())
    assert Robot.from_pinocchio(nameless).link_names == ("first", "second")


def test_names_that_occur_twice():
    require_distinct("joint", ["a", "b"], "arm.urdf")
    with pytest.raises(RobotFileError, match=r"arm.urdf: the joint name 'b' occurs twice: rename"):
        require_distinct("joint", ["a", "b", "c", "b"], "arm.urdf")


EVERY = ["serial", "branched", "floating", "tx40", "example:talos"]


@pytest.mark.parametrize("name", EVERY)
def test_poses_from_the_arrays_are_pinocchios(name, robot_of, states_of, rng):
    robot = robot_of(name)
    tree, model = robot.tree, robot.model
    q = states_of(robot, rng, 1)[0][0]
    data = model.createData()
    pin.forwardKinematics(model, data, q)
    first = 1 + tree.floating
    joint = q[robot.nq - robot.n_joints :]
    for j in range(robot.n_joints):
        R = tree.rotation[j, 0] + np.cos(joint[j]) * tree.rotation[j, 1]
        R = (R + np.sin(joint[j]) * tree.rotation[j, 2]).reshape(3, 3)
        p = tree.position[j].copy()
        if tree.prismatic[j]:
            p += R @ tree.axis[j] * joint[j]
        parent = int(tree.parent[j]) + first
        assert parent < first + j
        expected = data.oMi[parent].actInv(data.oMi[first + j])
        np.testing.assert_allclose(R, expected.rotation, rtol=0, atol=1e-14)
        np.testing.assert_allclose(p, expected.translation, rtol=0, atol=1e-14)
        assert np.linalg.norm(tree.axis[j]) == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize("name", EVERY)
def test_numbers(name, robot_of):
    robot = robot_of(name)
    tree = robot.tree
    assert tree is robot.tree  # made once
    assert tree.floating == robot.floating_base
    assert tree.bristles == tree.custom == 0
    assert tree.term.size == len(robot.layout.friction_terms)
    np.testing.assert_array_equal(tree.gravity, robot.model.gravity.linear)
    np.testing.assert_array_equal(
        tree.shape[:, 0], robot.friction.shape[:, robot.friction.model.shape.index("width")]
    )
    for array in tree:
        if isinstance(array, np.ndarray):
            assert array.dtype in (np.float64, np.int64)
            assert array.flags.c_contiguous


def test_columns_of_the_shape():
    robot_model = pin.buildSampleModelManipulator()
    shape = {"width": 0.1, "vs": 0.2, "delta": 0.3, "sigma0": 0.4, "sigma1": 0.5}
    for name, columns in (
        ("none", {}),
        ("coulomb", {"width"}),
        ("stribeck", {"width", "vs", "delta"}),
        ("lugre", set(shape)),
    ):
        friction = Friction.from_model(name, 6, **{key: shape[key] for key in columns})
        tree = Robot.from_pinocchio(robot_model, friction=friction).tree
        expected = [value if key in columns else 0.0 for key, value in shape.items()]
        np.testing.assert_array_equal(tree.shape, np.tile(expected, (6, 1)))
        assert tree.bristles == (name == "lugre")


def test_coupled_motors(robot_of):
    tree = robot_of("tx40-three").tree
    np.testing.assert_array_equal(tree.coupling, np.tile([0, 0, 0, 0, 1, 1], (3, 1)))
    np.testing.assert_array_equal(tree.coupled_term, [0, 1, 2])
    np.testing.assert_array_equal(tree.coupled_width, np.zeros(3))
    assert robot_of("tx40").tree.coupling.shape == (0, 6)


@pytest.mark.parametrize("name", EVERY)
def test_elimination_tree_follows_the_branches(name, robot_of):
    tree = robot_of(name).tree
    base = 6 * tree.floating
    np.testing.assert_array_equal(tree.dof_parent[:base], np.arange(-1, base - 1))
    for j, parent in enumerate(tree.parent):
        assert tree.dof_parent[base + j] == (base + parent if parent >= 0 else base - 1)


@pytest.mark.parametrize(
    ("pair", "dense"), [((2, 4), False), ((0, 11), False), ((3, 8), True)], ids=str
)
@pytest.mark.parametrize("cancelling", [False, True])
@pytest.mark.parametrize("terms", [("Iam",), ("Fvm", "Fcm"), ()])
def test_a_motor_across_branches_makes_the_matrix_dense(pair, dense, cancelling, terms, robot_of):
    # only if it has an inertia of its own
    robot = robot_of("branched")
    chain = [set() for _ in range(12)]
    for j, parent in enumerate(robot.tree.parent):
        chain[j] = {j} | (chain[parent] if parent >= 0 else set())
    i, j = pair
    assert (i in chain[j]) != dense
    coupling = np.eye(12)
    coupling[j, i] = -1.0
    if cancelling:  # a differential: CᵀC is diagonal, and each motor still couples the joints
        coupling[i, j] = 1.0
    tree = kernel_tree(
        robot.model,
        robot.friction,
        Actuators.from_values(12, coupling=coupling, coupled_terms=terms),
    )
    if dense and "Iam" in terms:
        np.testing.assert_array_equal(tree.dof_parent, np.arange(-1, 11))
    else:
        np.testing.assert_array_equal(tree.dof_parent, robot.tree.dof_parent)
