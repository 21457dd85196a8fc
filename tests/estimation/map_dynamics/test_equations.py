"""D, b_D, Y, b_Y against Pinocchio, the paper's blocks, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from pinocchio_truth import truth_of
from scipy.sparse import issparse
from sensor_sets import all_sensors, pinocchio_reading

from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.equations import Equations
from bodysense.robot import Robot, inverse_dynamics
from bodysense.sensors import (
    Accelerometer,
    DirectedContact,
    Encoder,
    ExternalWrench,
    Gyroscope,
    JointTorque,
    Mount,
    Orientation,
    SkinPatch,
    variances,
)


def test_pinocchios_motion_fulfils_them(each_tree, tree_named, rng):
    tree = tree_named(each_tree)
    for _ in range(3):
        truth = truth_of(tree, rng)
        equations = Equations.at(tree, [], **truth.arguments())
        d = truth.d(equations.variables)
        left = equations.D @ d + equations.b_D
        np.testing.assert_allclose(left, 0.0, atol=1e-12 * np.abs(d).max())


def test_readings_are_pinocchios(each_tree, tree_named, rng):
    tree = tree_named(each_tree)
    sensors = all_sensors(tree, rng)
    truth = truth_of(tree, rng)
    equations = Equations.at(tree, sensors, **truth.arguments())
    y = equations.Y @ truth.d(equations.variables) + equations.b_Y
    for sensor in sensors:
        expected = pinocchio_reading(sensor, truth)
        actual = y[equations.readings[sensor.name]]
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(actual, expected, atol=1e-11 * scale, err_msg=sensor.name)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize("branched", [False, True])
def test_random_robots_on_random_links(seed, floating, branched, random_model):
    rng = np.random.default_rng(100 + seed)
    n = int(rng.integers(1, 9))
    robot = Robot.from_pinocchio(random_model(rng, n, branched=branched, floating=floating))
    trees = [BodyTree.of(robot)]
    if floating:
        base = robot.link_names[int(rng.integers(len(robot.link_names)))]
        trees += [BodyTree.of(robot, base=base, fixed=fixed) for fixed in (False, True)]
    for tree in trees:
        sensors = all_sensors(tree, rng)
        truth = truth_of(tree, rng)
        equations = Equations.at(tree, sensors, **truth.arguments())
        d = truth.d(equations.variables)
        scale = np.abs(d).max()
        np.testing.assert_allclose(equations.D @ d + equations.b_D, 0.0, atol=1e-12 * scale)
        expected = np.concatenate([pinocchio_reading(sensor, truth) for sensor in sensors])
        actual = equations.Y @ d + equations.b_Y
        np.testing.assert_allclose(actual, expected, atol=1e-12 * scale)


@pytest.mark.parametrize("name", ["tree", "floating tree on a leaf", "icub standing"])
def test_classical_accelerations_change_the_offsets_alone(name, tree_named, rng):
    tree = tree_named(name)
    sensors, truth = all_sensors(tree, rng), truth_of(tree, rng)
    spatial = Equations.at(tree, sensors, **truth.arguments())
    classical = Equations.at(tree, sensors, **truth.arguments(), acceleration="classical")
    assert (spatial.D != classical.D).nnz == 0
    assert (spatial.Y != classical.Y).nnz == 0
    d = truth.d(spatial.variables)
    for link in (tree.names[i] for i in tree.with_unknowns):
        v = truth.data.v[tree.robot.link_names.index(link) + 1]
        where = spatial.variables[f"a.{link}"]
        d[where.start : where.start + 3] += np.cross(v.angular, v.linear)
    scale = np.abs(d).max()
    np.testing.assert_allclose(classical.D @ d + classical.b_D, 0.0, atol=1e-12 * scale)
    expected = np.concatenate([pinocchio_reading(sensor, truth) for sensor in sensors])
    np.testing.assert_allclose(classical.Y @ d + classical.b_Y, expected, atol=1e-12 * scale)


def test_linear_velocity_of_the_base_is_of_no_matter_to_classical_accelerations(tree_named, rng):
    tree = tree_named("floating tree on a leaf")
    sensors, truth = all_sensors(tree, rng), truth_of(tree, rng)
    there = {**truth.arguments(), "acceleration": "classical"}
    here = {**there, "base_twist": truth.base_twist * [0, 0, 0, 1, 1, 1]}
    first, second = (Equations.at(tree, sensors, **given) for given in (there, here))
    accelerations = [name for name in first.rows if name.startswith("acceleration")]
    for name in accelerations:
        where = first.rows[name]
        np.testing.assert_allclose(first.b_D[where], second.b_D[where], atol=1e-11)


def test_blocks_are_those_of_the_paper(tree_named, rng):
    tree = tree_named("tree")
    truth = truth_of(tree, rng)
    equations = Equations.at(tree, [], **truth.arguments())
    for i in range(1, tree.n):
        link, joint, parent = tree.names[i], tree.joint_name(i), tree.parent[i]
        S = tree.arrays.S[i]
        block = equations.block
        np.testing.assert_array_equal(block(f"acceleration.{link}", f"a.{link}"), -np.eye(6))
        np.testing.assert_array_equal(block(f"acceleration.{link}", f"ddq.{joint}"), S[:, None])
        I = tree.robot.model.inertias[tree.robot.link_names.index(link) + 1]
        np.testing.assert_allclose(block(f"wrench.{link}", f"a.{link}"), I.matrix(), atol=1e-14)
        np.testing.assert_array_equal(block(f"wrench.{link}", f"f.{joint}"), -np.eye(6))
        np.testing.assert_array_equal(block(f"wrench.{link}", f"fx.{link}"), -np.eye(6))
        np.testing.assert_array_equal(block(f"torque.{joint}", f"f.{joint}"), S[None])
        np.testing.assert_array_equal(block(f"torque.{joint}", f"tau.{joint}"), [[-1.0]])
        if parent == 0:
            continue
        X = truth.data.liMi[tree.robot.link_names.index(link) + 1].actionInverse
        above = tree.names[parent]
        np.testing.assert_allclose(block(f"acceleration.{link}", f"a.{above}"), X, atol=1e-14)
        np.testing.assert_allclose(block(f"wrench.{above}", f"f.{joint}"), X.T, atol=1e-14)
    stored = equations.D.tocoo()
    assert (stored.data != 0.0).all()


def test_names_and_shapes(tree_named):
    tree = tree_named("tree")
    n = tree.robot.n_joints
    equations = Equations.at(tree, [], np.zeros(n), np.zeros(n))
    assert equations.D.shape == (13 * n, 20 * n)
    assert equations.Y.shape == (0, 20 * n)
    assert issparse(equations.D)
    assert equations.D.format == "csr"
    assert list(equations.variables)[:5] == [
        "a.link1",
        "f.joint1",
        "tau.joint1",
        "fx.link1",
        "ddq.joint1",
    ]
    assert list(equations.rows)[:3] == ["acceleration.link1", "wrench.link1", "torque.joint1"]
    assert equations.variables["f.joint1"] == slice(6, 12)
    assert equations.variables.labels[11:14] == ("f.joint1[5]", "tau.joint1", "fx.link1[0]")
    assert len(equations.variables.labels) == equations.variables.size
    assert "f.joint1" in equations.variables
    assert len(equations.variables) == 5 * n
    assert not equations.b_D.flags.writeable
    free = tree_named("floating tree")
    equations = Equations.at(free, [], np.zeros(n), np.zeros(n))
    assert equations.D.shape == (13 * n + 6, 20 * n + 12)
    assert list(equations.variables)[:3] == ["a.link1", "fx.link1", "a.link2"]
    assert list(equations.rows)[:2] == ["wrench.link1", "acceleration.link2"]
    dense = equations.dense()
    np.testing.assert_array_equal(dense.D, equations.D.toarray())
    assert dense.Y.shape == (0, 20 * n + 12)
    assert dense.b_Y.shape == (0,)


def test_a_robot_without_moving_bodies_but_one(random_model, rng):
    robot = Robot.from_pinocchio(random_model(rng, 1, floating=True))
    tree = BodyTree.of(robot, base=robot.link_names[1])
    truth = truth_of(tree, rng)
    equations = Equations.at(tree, [], **truth.arguments())
    assert equations.D.shape == (19, 32)
    left = equations.D @ truth.d(equations.variables) + equations.b_D
    np.testing.assert_allclose(left, 0.0, atol=1e-11)


def test_a_drive_reads_rotor_and_friction_too(tree_named, rng):
    tree = tree_named("chain")
    robot = tree.robot
    sensors = [
        JointTorque(name=joint, joint=joint, side="drive", covariance=np.eye(1))
        for joint in robot.joint_names
    ]
    truth = truth_of(tree, rng, push=0.0)
    equations = Equations.at(tree, sensors, **truth.arguments())
    tau = equations.Y @ truth.d(equations.variables) + equations.b_Y
    q, v, a = (x[np.newaxis] for x in truth.full)
    np.testing.assert_allclose(tau, inverse_dynamics(robot, q, v, a)[0], rtol=1e-9, atol=1e-9)


def test_contacts_read_the_external_wrench(tree_named, rng):
    tree = tree_named("floating tree")
    mount = Mount.from_xyz_rpy("link5", [0.1, 0.2, 0.3], [0.3, 0.2, 0.1])
    sensors = [
        SkinPatch(name="skin", mount=mount, normals=[[0, 0, -1]], covariance=np.eye(1)),
        DirectedContact(name="contact", mount=mount, direction=[1, 2, 2], covariance=np.eye(5)),
        Orientation(name="imu", mount=mount, covariance=np.eye(3)),
    ]
    truth = truth_of(tree, rng)
    equations = Equations.at(tree, sensors, **truth.arguments())
    y = equations.Y @ truth.d(equations.variables) + equations.b_Y
    wrench = ExternalWrench(name="wrench", mount=mount, covariance=np.eye(6))
    push = pinocchio_reading(wrench, truth)
    np.testing.assert_allclose(y[equations.readings["skin"]], -push[2:3], rtol=1e-12)
    np.testing.assert_allclose(y[equations.readings["contact"]][2:], push[3:], rtol=1e-12)
    across = push[:3] - np.array([1, 2, 2]) / 9 * (push[:3] @ [1, 2, 2])
    size = np.linalg.norm(y[equations.readings["contact"]][:2])
    assert size == pytest.approx(np.linalg.norm(across), rel=1e-12)
    assert not equations.Y[equations.readings["imu"]].nnz


def test_what_cannot_be(tree_named, rng):
    tree, free = tree_named("tree"), tree_named("floating tree")
    held = tree_named("floating tree held at a leaf")
    zero = np.zeros(12)
    with pytest.raises(ShapeError, match="q has shape"):
        Equations.at(tree, [], zero[:3], zero)
    with pytest.raises(ShapeError, match="dq holds nan"):
        Equations.at(tree, [], zero, np.full(12, np.nan))
    with pytest.raises(ShapeError, match="base_twist has shape"):
        Equations.at(free, [], zero, zero, base_twist=np.zeros(3))
    with pytest.raises(MismatchError, match="held still"):
        Equations.at(tree, [], zero, zero, base_twist=np.ones(6))
    with pytest.raises(MismatchError, match="gravity"):
        Equations.at(held, [], zero, zero)
    with pytest.raises(MismatchError, match="floats"):
        Equations.at(free, [], zero, zero, gravity=[0, 0, -9.81])
    with pytest.raises(UnknownNameError, match="spatial"):
        Equations.at(tree, [], zero, zero, acceleration="coordinate")
    twice = [Encoder(name="e", joint="joint1", covariance=np.eye(1))] * 2
    with pytest.raises(MismatchError, match="two sensors"):
        Equations.at(tree, twice, zero, zero)
    push = ExternalWrench(name="w", mount=Mount("link13"), covariance=np.eye(6))
    with pytest.raises(MismatchError, match="held still"):
        Equations.at(held, [push], zero, zero, gravity=[0, 0, -9.81])
    with pytest.raises(UnknownNameError, match=r"fx\.link1"):
        _ = Equations.at(tree, [], zero, zero).variables["fx.link"]
    with pytest.raises(UnknownNameError, match="sensor"):
        Equations.at(tree, [], zero, zero).block("acceleration.link0", "a.link1")


def test_sensors_on_a_link_that_is_held_read_what_is_known(tree_named):
    tree, zero = tree_named("floating tree held at a leaf"), np.zeros(12)
    sensors = [
        Accelerometer(name="a", mount=Mount("link13"), covariance=variances(1, 3)),
        Gyroscope(name="g", mount=Mount("link13"), covariance=variances(1, 3)),
    ]
    equations = Equations.at(tree, sensors, zero, zero + 1.0, gravity=[0, 0, -9.81])
    assert equations.Y.nnz == 0
    np.testing.assert_array_equal(equations.b_Y, [0, 0, 9.81, 0, 0, 0])
