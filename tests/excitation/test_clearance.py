from __future__ import annotations

import numpy as np
import pytest

from bodysense.excitation.limits import CollisionClearance, WorkspaceClearance, boxes_in_the_way
from bodysense.robot import Collisions, Workspace, link_hulls


@pytest.mark.parametrize("kind", ["collisions", "workspace"])
def test_slacks_and_their_gradients(kind, robot_of, rng):
    robot = robot_of("example:ur5")
    q = rng.uniform(-1.5, 1.5, (40, 6))
    clearance: CollisionClearance | WorkspaceClearance
    if kind == "collisions":
        clearance = CollisionClearance(Collisions.from_robot(robot, margin=0.02))
    else:
        room = Workspace(lower=(-np.inf, -np.inf, -0.4)).around(robot, link_hulls(robot))
        clearance = WorkspaceClearance(room)
    sample, slack, gradient = clearance.slacks(q)
    assert slack.size > 5
    assert (slack < 1.0).all()
    # The nearest of each sample is a smooth function of the pose almost everywhere.
    step, agreed = 1e-6, 0
    for t in np.unique(sample)[:8]:
        nearest = int(np.flatnonzero(sample == t)[np.argmin(slack[sample == t])])
        if slack[nearest] < 0.0:
            continue
        for j in range(6):
            ends = []
            for sign in (1.0, -1.0):
                moved = q[[t]]
                moved[0, j] += sign * step
                ends.append(clearance.slacks(moved)[1].min())
            slope = (ends[0] - ends[1]) / (2.0 * step)
            assert gradient[nearest, j] == pytest.approx(slope, abs=2e-3)
            agreed += 1
    assert agreed > 0


def test_slack_zero_is_the_margin_and_a_little_more(robot_of, rng):
    robot = robot_of("example:ur5")
    q = rng.uniform(-2.0, 2.0, (200, 6))
    collisions = Collisions.from_robot(robot, margin=0.03)
    sample, slack, _ = CollisionClearance(collisions, between=0.0).slacks(q)
    hit = np.zeros(200, dtype=bool)
    hit[sample[slack < 0.0]] = True
    np.testing.assert_array_equal(hit, collisions.in_collision(q))
    assert hit.any()


def test_pairs_that_are_built_close_leave_room_to_move(robot_of, rng):
    collisions = Collisions.from_robot(robot_of("example:ur5"), margin=0.03)
    clearance = CollisionClearance(collisions)
    assert (clearance.kept < collisions.farthest).all()
    assert (clearance.kept > collisions.margins).all()
    sample, slack, _ = clearance.slacks(rng.uniform(-2.0, 2.0, (300, 6)))
    assert np.unique(sample[slack <= 0.0]).size < 300


def test_boxes_that_stand_for_shapes_are_in_the_way_where_they_are_near(robot_of, rng):
    collisions = Collisions.from_robot(robot_of("tx40"), margin=0.01)  # of which no shape is known
    q = rng.uniform(-2.0, 2.0, (300, 6))
    room = (collisions.distances(q) - CollisionClearance(collisions).kept).min(axis=1)
    free = q[room > 0.01]
    assert len(free) > 20
    assert boxes_in_the_way(collisions, free) == ()
    tight = q[np.argmin(room)][None]
    pair = collisions.pairs[int(np.argmin(collisions.distances(tight)[0]))]
    assert set(boxes_in_the_way(collisions, tight)) >= set(pair) - {"base"}
    real = Collisions.from_robot(robot_of("example:ur5"), margin=0.03)
    assert boxes_in_the_way(real, q) == ()  # its shapes are its own
