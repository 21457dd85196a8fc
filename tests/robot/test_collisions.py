from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import ShapeError
from bodysense.robot import Collisions
from bodysense.robot.frames import sample_poses
from bodysense.spatial import Array

READY = np.array([0, -np.pi / 4, 0, -3 * np.pi / 4, 0, np.pi / 2, np.pi / 4, 0.02, 0.02])


@pytest.fixture(scope="module")
def panda(robot_of) -> Collisions:
    return Collisions.from_robot(robot_of("example:panda"))


@pytest.fixture(scope="module")
def ur5(robot_of) -> Collisions:
    return Collisions.from_robot(robot_of("example:ur5"))


def differences(collisions: Collisions, q: Array, h: float) -> Array:
    """Gradients by central differences, (n_t, n_pairs, n_joints)."""
    robot = collisions.robot
    columns = []
    for j in range(robot.nq - robot.n_joints, robot.nq):
        step = np.zeros(robot.nq)
        step[j] = h
        columns.append((collisions.distances(q + step) - collisions.distances(q - step)) / (2 * h))
    return np.stack(columns, axis=2)


def test_a_panda_is_free_when_ready_and_not_when_folded(panda):
    folded = READY.copy()
    folded[[1, 3, 5]] = -0.5, -3.05, 0.6  # the hand is in links 1 and 2
    np.testing.assert_array_equal(panda.in_collision([READY, folded]), [False, True])
    near = panda.near([folded], 0.0)
    assert ("panda_link1", "panda_hand") in [panda.pairs[k] for k in near.pair]


@pytest.mark.parametrize("name", ["example:panda", "example:ur5"])
def test_distances_are_no_larger_than_those_of_meshes_and_hardly_less(robot_of, request, name):
    collisions = request.getfixturevalue(name.removeprefix("example:"))
    path = Path(robot_of(name).source.path)
    share = next(p.parent for p in path.parents if p.name == "example-robot-data")
    model = pin.buildModelFromUrdf(str(path))
    geometry = pin.buildGeomFromUrdf(model, str(path), pin.COLLISION, package_dirs=[str(share)])
    shapes = [shape.name for shape in geometry.geometryObjects]
    meshes = [  # bodies with one shape
        k
        for k, pair in enumerate(collisions.pairs)
        if all(f"{body}_0" in shapes and f"{body}_1" not in shapes for body in pair)
    ]
    assert len(meshes) >= 20
    for k in meshes:
        first, second = (shapes.index(f"{body}_0") for body in collisions.pairs[k])
        geometry.addCollisionPair(pin.CollisionPair(first, second))
    data, found = model.createData(), geometry.createData()
    q = sample_poses(robot_of(name), 40)
    exact = np.empty((40, len(meshes)))
    for t in range(40):
        pin.computeDistances(model, data, geometry, found, q[t])
        exact[t] = [result.min_distance for result in found.distanceResults]
    hulls = collisions.distances(q)[:, meshes]
    apart = exact > 0.0
    assert (hulls[apart] <= exact[apart] + 1e-6).all()
    assert np.quantile((exact - hulls)[apart], 0.9) < 0.01  # a hull fills what a mesh leaves free
    assert np.median((exact - hulls)[apart]) < 0.002


def distances_and_gradients(collisions, q):
    near = collisions.near(q, np.inf)
    distances = np.full((len(q), len(collisions.pairs)), np.nan)
    gradients = np.full((*distances.shape, collisions.robot.n_joints), np.nan)
    distances[near.sample, near.pair] = near.distance
    gradients[near.sample, near.pair] = near.gradient
    return distances, gradients


@pytest.mark.parametrize("name", ["example:panda", "example:ur5", "tx40"])
def test_gradients_are_those_of_finite_differences(robot_of, name):
    collisions = Collisions.from_robot(robot_of(name))
    q = sample_poses(robot_of(name), 30)
    distances, gradients = distances_and_gradients(collisions, q)
    np.testing.assert_array_equal(distances, collisions.distances(q))
    fine, coarse = differences(collisions, q, 1e-6), differences(collisions, q, 1e-5)
    # Where the closest features change within the step there is no gradient to compare with.
    smooth = np.abs(fine - coarse).max(axis=2) < 1e-4
    assert smooth.mean() > 0.95
    np.testing.assert_allclose(gradients[smooth], fine[smooth], atol=1e-4)
    assert (distances < 0.0).any()
    assert np.quantile(np.abs(gradients - fine), 0.95) < 1e-8


def test_a_floating_robot_collides_alike_wherever_it_is(robot_of, states_of, rng):
    robot = robot_of("example:solo12")
    collisions = Collisions.from_robot(robot, "boxes")
    q = sample_poses(robot, 20)
    moved = states_of(robot, rng, 20)[0]
    moved[:, 7:] = q[:, 7:]
    np.testing.assert_allclose(collisions.distances(moved), collisions.distances(q), atol=1e-9)
    gradients = distances_and_gradients(collisions, q[:4])[1]
    fine = differences(collisions, q[:4], 1e-6)
    assert gradients.shape == (4, len(collisions.pairs), 12)
    assert np.quantile(np.abs(gradients - fine), 0.95) < 1e-8


def test_near_pairs_are_those_of_the_full_table(panda):
    q = sample_poses(panda.robot, 60)
    distances, gradients = distances_and_gradients(panda, q)
    near = panda.near(q, 0.08)
    sample, pair = np.nonzero(distances < 0.08)
    assert sample.size > 50
    np.testing.assert_array_equal(near.sample, sample)
    np.testing.assert_array_equal(near.pair, pair)
    np.testing.assert_allclose(near.distance, distances[sample, pair], atol=1e-12)
    np.testing.assert_allclose(near.gradient, gradients[sample, pair], atol=1e-9)


def test_distances_beyond_are_bounds(panda):
    q = sample_poses(panda.robot, 60)
    exact, quick = panda.distances(q), panda.distances(q, beyond=0.05)
    near = exact < 0.05
    np.testing.assert_allclose(quick[near], exact[near], atol=1e-12)
    assert (quick[~near] >= 0.05).all()
    assert (quick <= exact + 1e-9).all()
    assert (quick < exact - 0.01).any()


@pytest.mark.parametrize("margin", [0.0, 0.01, 0.05])
def test_closer_than_the_margin_is_a_collision(robot_of, margin):
    collisions = Collisions.from_robot(robot_of("example:ur5"), margin=margin)
    q = sample_poses(collisions.robot, 200)
    expected = (collisions.distances(q) < collisions.margins).any(axis=1)
    assert 0 < expected.sum() < 200
    np.testing.assert_array_equal(collisions.in_collision(q), expected)


@pytest.mark.parametrize(
    ("name", "shapes"), [("example:ur5", "auto"), ("rv2sq", "boxes"), ("example:panda", "auto")]
)
def test_a_larger_margin_never_frees_a_pose(robot_of, name, shapes):
    robot = robot_of(name)
    q = np.vstack([sample_poses(robot, 300), sample_poses(robot, 1100)[-600:]])
    found = [Collisions.from_robot(robot, shapes, margin=m) for m in (0.0, 0.005, 0.01, 0.02, 0.05)]
    assert len({collisions.pairs for collisions in found}) == 1
    hits = np.array([collisions.in_collision(q) for collisions in found])
    assert hits[0].any()
    assert (hits[:-1] <= hits[1:]).all()
    touching = (found[-1].distances(q, beyond=0.0) < 0.0).any(axis=1)
    assert touching.any()
    assert hits[-1][touching].all()


def test_pairs_built_closer_than_the_margin_have_their_own(robot_of):
    robot = robot_of("example:ur5")
    wide = Collisions.from_robot(robot, margin=0.02)
    narrow = wide.margins < 0.02
    assert 0 < narrow.sum() < narrow.size
    exact = wide.distances(sample_poses(robot, 400)).max(axis=0)
    np.testing.assert_allclose(wide.margins[narrow], 0.5 * exact[narrow], atol=1e-9)
    np.testing.assert_array_equal(wide.margins[~narrow], 0.02)
    for k in np.flatnonzero(narrow):
        assert any(" and ".join(wide.pairs[k]) in note for note in wide.notes)
    assert not Collisions.from_robot(robot, margin=0.0).notes
    assert not wide.in_collision(sample_poses(robot, 400)).all()


def test_the_closest_pair_is_that_with_least_room(robot_of):
    wide = Collisions.from_robot(robot_of("example:ur5"), margin=0.03)
    for q in sample_poses(wide.robot, 40):
        room = wide.distances(q[None])[0] - wide.margins
        closest = wide.closest(q[None])
        assert closest.room == pytest.approx(room.min(), abs=1e-12)
        assert closest.pair == wide.pairs[int(np.argmin(room))]
        assert (closest.room < 0.0) == wide.in_collision(q[None])[0]


@pytest.mark.parametrize("count", [1, 5, 200])
def test_the_closest_pair_is_that_of_the_full_table(panda, count):
    q = READY + np.linspace(0.0, 0.3, count)[:, None] * np.array([1, 1, 1, 1, 1, 1, 1, 0, 0])
    distances = panda.distances(q)
    sample, pair = np.unravel_index(np.argmin(distances), distances.shape)
    closest = panda.closest(q)
    assert closest.sample == sample
    assert closest.pair == panda.pairs[pair]
    assert closest.distance == pytest.approx(distances.min(), abs=1e-12)
    assert f"{1e3 * distances.min():.1f} mm apart at sample {sample}" in closest.summary()


def test_no_poses_give_no_distances(panda):
    none = np.empty((0, 9))
    assert panda.distances(none).shape == (0, 41)
    assert panda.near(none, 1.0).gradient.shape == (0, 9)
    assert panda.closest(none) is None


def test_a_copy_collides_alike(panda):
    panda.distances(READY[None])
    twin = copy.deepcopy(panda)
    np.testing.assert_array_equal(twin.distances(READY[None]), panda.distances(READY[None]))


def test_the_summary_counts_pairs(panda):
    assert "41 pairs of 11 bodies of panda checked, 1 ignored, margin 10 mm" in panda.summary()


def test_a_margin_that_is_no_number_is_refused(robot_of):
    with pytest.raises(ShapeError, match="margin is nan"):
        Collisions.from_robot(robot_of("tx40"), margin=np.nan)


def test_poses_of_another_robot_are_refused(panda):
    with pytest.raises(ShapeError, match="q of panda has shape"):
        panda.distances(np.zeros((3, 6)))
