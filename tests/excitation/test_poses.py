from __future__ import annotations

from dataclasses import fields
from itertools import permutations

import numpy as np
import pytest

from bodysense.errors import FileReadError, TrajectoryError, UnknownNameError
from bodysense.excitation import MotionLimits, PoseDesign, design_poses
from bodysense.excitation.poses import _short_way
from bodysense.robot import (
    Collisions,
    Robot,
    Workspace,
    gravity_regressor,
    inverse_dynamics,
    link_hulls,
)


@pytest.fixture(scope="module")
def design(robot_of) -> PoseDesign:
    robot = robot_of("example:ur5").with_friction("offset")
    collisions = Collisions.from_robot(robot)
    return design_poses(robot, 15, collisions=collisions, rng=np.random.default_rng(0))


def test_poses_keep_the_limits_and_are_free(design, robot_of):
    robot = robot_of("example:ur5")
    lower, upper = robot.position_limits
    assert design.poses.shape == (15, 6)
    assert (design.poses >= lower).all()
    assert (design.poses <= upper).all()
    assert not Collisions.from_robot(robot).in_collision(design.poses).any()
    still = np.zeros_like(design.poses)
    tau = inverse_dynamics(robot, design.poses, still, still)
    assert (np.abs(tau) < robot.effort_limit).all()


def test_value_and_deviations_are_those_of_the_gravity_regressor(design, robot_of):
    robot = robot_of("example:ur5").with_friction("offset")
    Y = gravity_regressor(robot, design.poses, columns=design.base.independent)
    W = (Y / (0.01 * robot.effort_limit)[:, np.newaxis]).reshape(-1, design.base.size)
    assert design.value == pytest.approx(-np.linalg.slogdet(W.T @ W)[1])
    assert design.condition == pytest.approx(np.linalg.cond(W))
    sigma = np.sqrt(np.diag(np.linalg.inv(W.T @ W)))
    np.testing.assert_allclose(design.sigma, sigma, rtol=1e-8)


def test_it_beats_every_one_of_many_random_sets(design, robot_of, rng):
    robot = robot_of("example:ur5").with_friction("offset")
    for _ in range(50):
        q = rng.uniform(-np.pi, np.pi, (15, 6))
        Y = gravity_regressor(robot, q, columns=design.base.independent)
        W = (Y / (0.01 * robot.effort_limit)[:, np.newaxis]).reshape(-1, design.base.size)
        assert design.value < -np.linalg.slogdet(W.T @ W)[1]
    assert design.value < design.start_value
    assert "15 poses" in design.summary()


def test_only_what_gravity_shows_counts(design):
    kept = {design.base.layout.names[k][:2] for k in design.base.independent}
    assert kept <= {"MX", "MY", "MZ", "Fo", *(f"M{k}" for k in range(1, 7))}
    assert {"Fo"} < kept


@pytest.mark.parametrize("criterion", ["condition", "precision"])
def test_other_criteria(criterion, robot_of, rng):
    design = design_poses(robot_of("tx40"), 12, criterion=criterion, rng=rng)
    assert design.criterion == criterion
    assert design.value < design.start_value


def test_the_shortest_way_of_few_poses(rng):
    for _ in range(10):
        q = rng.normal(size=(6, 3))

        def length(order, q=q):
            return np.abs(np.diff(q[list(order)], axis=0)).max(axis=1).sum()

        shortest = min(length(order) for order in permutations(range(6)))
        found = _short_way(q)
        assert sorted(found) == list(range(6))
        assert length(found) <= 1.25 * shortest


def test_too_few_poses(robot_of):
    with pytest.raises(TrajectoryError, match="at least"):
        design_poses(robot_of("tx40"), 1)


def test_too_weak_to_stand_anywhere(robot_of: object):
    robot: Robot = robot_of("tx40")
    with pytest.raises(TrajectoryError, match="gravity alone"):
        design_poses(robot, 20, limits=MotionLimits.from_robot(robot, effort=1e-3))


def test_an_unknown_joint(robot_of):
    with pytest.raises(UnknownNameError, match="joint"):
        design_poses(robot_of("tx40"), 20, joints=["elbow"])


def test_an_unknown_criterion(robot_of):
    with pytest.raises(UnknownNameError, match="d-optimal"):
        design_poses(robot_of("tx40"), 20, criterion="a-optimal")


def test_a_workspace_as_it_is(robot_of):
    robot = robot_of("example:ur5")
    room = Workspace(lower=(-np.inf, -np.inf, -0.2))
    found = design_poses(robot, 8, workspace=room, rng=np.random.default_rng(0))
    assert (room.around(robot, link_hulls(robot)).margins(found.poses) > 0.0).all()


def test_poses_can_be_saved_and_loaded(robot_of, tmp_path):
    found = design_poses(robot_of("tx40"), 8, rng=np.random.default_rng(0))
    found.save(tmp_path)
    again = PoseDesign.load(tmp_path)
    assert again.summary() == found.summary()
    for part in fields(PoseDesign):
        one, other = getattr(found, part.name), getattr(again, part.name)
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
        elif part.name != "base":
            assert one == other, part.name
    assert again.base.names == found.base.names
    (tmp_path / "poses.json").write_text("{}", encoding="utf-8")
    with pytest.raises(FileReadError, match=r"lacks .*robot_name"):
        PoseDesign.load(tmp_path)
