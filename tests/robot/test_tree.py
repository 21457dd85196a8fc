from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.robot import Actuators, Friction, Robot
from bodysense.robot.model import kernel_tree

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
