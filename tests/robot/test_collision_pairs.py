from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from bodysense.errors import ShapeError, UnknownNameError
from bodysense.robot import Collisions, Robot, link_hulls
from bodysense.robot.io.urdf_elements import UrdfDescription
from bodysense.robot.shapes.collision_pairs import (
    ConvexPieces,
    _lower_bound,
    _mimic_groups,
    candidate_pairs,
)
from bodysense.robot.shapes.hull import Hull, principal_box
from bodysense.spatial import Array, exp_so3


def names(
    robot: Robot, ignore: tuple[tuple[str, str], ...] = (), shapes: str = "auto"
) -> set[frozenset[str]]:
    bodies = link_hulls(robot, shapes).bodies
    places, _ = candidate_pairs(robot, bodies, ignore)
    return {frozenset((bodies[a].name, bodies[b].name)) for a, b in places}


def test_links_that_a_joint_connects_are_no_pair(robot_of):
    found = names(robot_of("example:panda"))
    assert frozenset(("panda_link2", "panda_link3")) not in found
    assert frozenset(("panda_link6", "panda_hand")) not in found  # fixed to link 7
    assert frozenset(("panda_link7", "panda_hand")) not in found
    assert frozenset(("panda_link2", "panda_link4")) in found
    assert frozenset(("panda_link0", "panda_hand")) in found
    # 11 bodies, 55 pairs: 13 on one link or a joint apart, and the fingers of the gripper.
    assert len(found) == 41


def test_the_fingers_of_a_gripper_may_touch(robot_of):
    bodies = link_hulls(robot_of("example:panda")).bodies
    _, ignored = candidate_pairs(robot_of("example:panda"), bodies, ())
    ((pair, reason),) = ignored.items()
    assert pair == ("panda_leftfinger", "panda_rightfinger")
    assert "'panda_finger_joint1' and what mimics it" in reason


def test_links_on_branches_of_a_floating_robot_are_pairs(robot_of):
    robot = robot_of("example:solo12")
    found = names(robot, shapes="boxes")
    assert frozenset(("FL_LOWER_LEG", "FR_LOWER_LEG")) in found
    assert frozenset(("base_link", "FL_SHOULDER")) not in found
    assert frozenset(("base_link", "FL_UPPER_LEG")) in found


@pytest.mark.parametrize(
    ("pair", "gone"),
    [
        (("panda_hand", "panda_link0"), 1),
        (("panda_link0", "panda_hand"), 1),
        (("panda_link7", "panda_link0"), 2),  # the link with all its bodies, the hand too
    ],
)
def test_the_caller_may_ignore_pairs(robot_of, pair, gone):
    robot = robot_of("example:panda")
    assert len(names(robot)) - len(names(robot, (pair,))) == gone
    collisions = Collisions.from_robot(robot, ignore=[pair])
    assert list(collisions.ignored.values()).count("as asked for") == gone


def test_a_name_that_is_no_body_is_refused(robot_of):
    with pytest.raises(UnknownNameError, match="did you mean 'panda_hand'"):
        Collisions.from_robot(robot_of("example:panda"), ignore=[("panda_hnd", "panda_link0")])


def test_what_is_no_pair_is_refused(robot_of):
    with pytest.raises(ShapeError, match="give pairs of names"):
        Collisions.from_robot(robot_of("example:panda"), ignore=["panda_hand"])  # type: ignore[list-item]


def test_boxes_round_links_without_mass_are_no_bodies(robot_of):
    robot = robot_of("tx40")
    theta = robot.theta.copy()
    theta[robot.layout.link(4)] = 0.0
    collisions = Collisions.from_robot(robot.with_parameters(theta))
    assert "link5" in {body.name for body in Collisions.from_robot(robot).bodies}
    assert "link5" not in {body.name for body in collisions.bodies}


def test_bodies_that_are_never_apart_are_told(robot_of):
    collisions = Collisions.from_robot(robot_of("tx40"))
    never = collisions.ignored
    assert "all of 400 random poses" in never["link4", "link6"]  # their boxes overlap at the wrist
    assert not set(never) & set(collisions.pairs)
    q = np.random.default_rng(1).uniform(-2.0, 2.0, (300, 6))
    assert (collisions.distances(q) > 0.01).any(axis=0).all()


def test_boxes_that_hardly_ever_part_are_told(robot_of):
    never = Collisions.from_robot(robot_of("rv2sq")).ignored
    assert never["link1", "link3"] == "boxes, in contact in 98 % of 400 random poses"


def whole(hull: Hull) -> ConvexPieces:
    return ConvexPieces.from_hulls(hull, (hull,))


def random_poses(rng: np.random.Generator, n: int, far: float) -> tuple[Array, Array]:
    R = np.array([exp_so3(w) for w in rng.normal(scale=2.0, size=(n, 3))])
    return R, rng.normal(scale=far, size=(n, 3))


def distance_by_cvxpy(first: Array, second: Array) -> float:
    """Distance of the hulls of two sets of points, as a quadratic programme."""
    a, b = cp.Variable(first.shape[0], nonneg=True), cp.Variable(second.shape[0], nonneg=True)
    problem = cp.Problem(
        cp.Minimize(cp.norm(first.T @ a - second.T @ b)), [cp.sum(a) == 1, cp.sum(b) == 1]
    )
    return float(problem.solve(solver=cp.CLARABEL))


def test_distances_are_those_of_a_quadratic_programme(rng):
    first, second = (Hull.from_points(rng.normal(size=(30, 3)) * 0.1) for _ in range(2))
    R, p = random_poses(rng, 25, 0.5)
    found, bound = whole(first).distances_to(whole(second), R, p, np.inf)
    np.testing.assert_array_equal(found.sample, np.arange(25))
    np.testing.assert_array_equal(found.distance, bound)
    for t in range(25):
        expected = distance_by_cvxpy(first.vertices, second.vertices @ R[t].T + p[t])
        assert max(found.distance[t], 0.0) == pytest.approx(expected, abs=1e-6)


def test_closest_points_lie_on_the_hulls_along_the_normal(rng):
    first, second = (Hull.from_points(rng.normal(size=(30, 3)) * 0.1) for _ in range(2))
    R, p = random_poses(rng, 100, 0.3)
    found, _ = whole(first).distances_to(whole(second), R, p, np.inf)
    assert (found.distance < 0.0).sum() > 10
    assert (found.distance > 0.0).sum() > 10
    step = found.second - found.first
    np.testing.assert_allclose(step, found.distance[:, None] * found.normal, atol=1e-7)
    back = np.einsum("tji,tj->ti", R, found.second - p)
    for hull, points in ((first, found.first), (second, back)):
        heights = (points @ hull.normals.T - hull.offsets).max(axis=1)
        np.testing.assert_allclose(heights, 0.0, atol=1e-7)


@pytest.mark.parametrize("overlap", [0.01, 0.05, 0.15])
def test_boxes_inside_each_other_are_as_deep_as_they_overlap(overlap):
    box = whole(Hull.from_box((-0.1, -0.2, -0.3), (0.1, 0.2, 0.3)))
    found, _ = box.distances_to(box, np.eye(3)[None], np.array([[0.2 - overlap, 0.05, -0.02]]), 0.0)
    np.testing.assert_allclose(found.distance, -overlap, atol=1e-9)
    np.testing.assert_allclose(found.normal, [[1.0, 0.0, 0.0]], atol=1e-7)


def test_bounds_are_below_distances_and_tight_for_boxes_side_by_side(rng):
    first, second = (
        Hull.from_points(rng.normal(size=(12, 3)) * [0.3, 0.1, 0.05]) for _ in range(2)
    )
    R, p = random_poses(rng, 400, 0.6)
    bound = _lower_bound(principal_box(first.vertices), principal_box(second.vertices), R, p)
    found, _ = whole(first).distances_to(whole(second), R, p, np.inf)
    assert (bound <= found.distance + 1e-9).all()
    assert (bound[found.distance > 0.3] > 0.0).mean() > 0.9
    box = principal_box(Hull.from_box((-1, -2, -3), (1, 2, 3)).vertices)
    aside = _lower_bound(box, box, np.eye(3)[None], np.array([[2.5, 0.3, 0.4]]))
    np.testing.assert_allclose(aside, 0.5)


@pytest.mark.parametrize("reach", [-0.02, 0.05, 0.4])
def test_what_is_out_of_reach_gets_a_bound_beyond_it(rng, reach):
    hulls = [Hull.from_points(rng.normal(size=(20, 3)) * 0.1) for _ in range(2)]
    first, second = map(whole, hulls)
    R, p = random_poses(rng, 300, 0.3)
    exact, _ = first.distances_to(second, R, p, np.inf)
    found, bound = first.distances_to(second, R, p, reach)
    near = np.flatnonzero(exact.distance < reach)
    assert 0 < near.size < 300
    np.testing.assert_array_equal(found.sample, near)
    np.testing.assert_array_equal(found.distance, exact.distance[near])
    far = exact.distance >= reach
    assert (bound[far] >= reach).all()
    assert (bound[far] <= exact.distance[far] + 1e-9).all()


@pytest.mark.parametrize("reach", [0.1, np.inf])
def test_bodies_are_as_close_as_their_closest_pieces(rng, reach):
    parts = [
        tuple(
            Hull.from_points(rng.normal(size=(10, 3)) * 0.05 + shift) for shift in np.eye(3) * 0.4
        )
        for _ in range(2)
    ]
    bodies = [
        ConvexPieces.from_hulls(Hull.from_points(np.vstack([h.vertices for h in hulls])), hulls)
        for hulls in parts
    ]
    R, p = random_poses(rng, 300, 0.3)
    found, bound = bodies[0].distances_to(bodies[1], R, p, reach)
    every = np.array(
        [whole(a).distances_to(whole(b), R, p, np.inf)[1] for a in parts[0] for b in parts[1]]
    ).min(axis=0)
    near = np.flatnonzero(every < reach)
    assert near.size > 30
    np.testing.assert_array_equal(found.sample, near)
    np.testing.assert_allclose(found.distance, every[near], atol=1e-9)
    assert (bound <= every + 1e-9).all()
    assert (bound >= np.minimum(every, reach) - 1e-9).all()


def test_joints_that_mimic_each_other_follow_one():
    joints = "".join(
        f'<link name="l{k}"/><joint name="j{k}" type="continuous"><parent link="base"/>'
        f'<child link="l{k}"/>{mimic}</joint>'
        for k, mimic in enumerate(["", '<mimic joint="j0"/>', '<mimic joint="j1"/>', ""])
    )
    text = f'<robot name="r"><link name="base"/>{joints}</robot>'
    description = UrdfDescription.from_bytes(text.encode(), "r")
    assert _mimic_groups(description.joints) == {"j0": "j0", "j1": "j0", "j2": "j0"}


def test_joints_that_mimic_in_a_circle_do_not_hang():
    joints = "".join(
        f'<link name="l{k}"/><joint name="j{k}" type="continuous"><parent link="base"/>'
        f'<child link="l{k}"/><mimic joint="j{1 - k}"/></joint>'
        for k in range(2)
    )
    text = f'<robot name="r"><link name="base"/>{joints}</robot>'
    description = UrdfDescription.from_bytes(text.encode(), "r")
    assert set(_mimic_groups(description.joints)) == {"j0", "j1"}
