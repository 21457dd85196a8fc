from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from bodysense.robot.shapes.collision_pairs import ConvexPieces, lower_bound, pair_distances
from bodysense.robot.shapes.hull import Hull, principal_box
from bodysense.spatial import Array, exp_so3


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
    found, bound = pair_distances(whole(first), whole(second), R, p, np.inf)
    np.testing.assert_array_equal(found.sample, np.arange(25))
    np.testing.assert_array_equal(found.distance, bound)
    for t in range(25):
        expected = distance_by_cvxpy(first.vertices, second.vertices @ R[t].T + p[t])
        assert max(found.distance[t], 0.0) == pytest.approx(expected, abs=1e-6)


def test_closest_points_lie_on_the_hulls_along_the_normal(rng):
    first, second = (Hull.from_points(rng.normal(size=(30, 3)) * 0.1) for _ in range(2))
    R, p = random_poses(rng, 100, 0.3)
    found, _ = pair_distances(whole(first), whole(second), R, p, np.inf)
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
    found, _ = pair_distances(
        box, box, np.eye(3)[None], np.array([[0.2 - overlap, 0.05, -0.02]]), 0.0
    )
    np.testing.assert_allclose(found.distance, -overlap, atol=1e-9)
    np.testing.assert_allclose(found.normal, [[1.0, 0.0, 0.0]], atol=1e-7)


def test_bounds_are_below_distances_and_tight_for_boxes_side_by_side(rng):
    first, second = (
        Hull.from_points(rng.normal(size=(12, 3)) * [0.3, 0.1, 0.05]) for _ in range(2)
    )
    R, p = random_poses(rng, 400, 0.6)
    bound = lower_bound(principal_box(first.vertices), principal_box(second.vertices), R, p)
    found, _ = pair_distances(whole(first), whole(second), R, p, np.inf)
    assert (bound <= found.distance + 1e-9).all()
    assert (bound[found.distance > 0.3] > 0.0).mean() > 0.9
    box = principal_box(Hull.from_box((-1, -2, -3), (1, 2, 3)).vertices)
    aside = lower_bound(box, box, np.eye(3)[None], np.array([[2.5, 0.3, 0.4]]))
    np.testing.assert_allclose(aside, 0.5)


@pytest.mark.parametrize("reach", [-0.02, 0.05, 0.4])
def test_what_is_out_of_reach_gets_a_bound_beyond_it(rng, reach):
    hulls = [Hull.from_points(rng.normal(size=(20, 3)) * 0.1) for _ in range(2)]
    first, second = map(whole, hulls)
    R, p = random_poses(rng, 300, 0.3)
    exact, _ = pair_distances(first, second, R, p, np.inf)
    found, bound = pair_distances(first, second, R, p, reach)
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
    found, bound = pair_distances(*bodies, R, p, reach)
    every = np.array(
        [pair_distances(whole(a), whole(b), R, p, np.inf)[1] for a in parts[0] for b in parts[1]]
    ).min(axis=0)
    near = np.flatnonzero(every < reach)
    assert near.size > 30
    np.testing.assert_array_equal(found.sample, near)
    np.testing.assert_allclose(found.distance, every[near], atol=1e-9)
    assert (bound <= every + 1e-9).all()
    assert (bound >= np.minimum(every, reach) - 1e-9).all()
