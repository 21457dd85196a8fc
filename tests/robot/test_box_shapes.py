from __future__ import annotations

import numpy as np
import pytest

from bodysense.robot import Robot, load_robot
from bodysense.robot.shapes.hull import box_corners
from bodysense.robot.shapes.link_shapes import link_box
from bodysense.spatial import exp_so3


def one_joint(robot_of, mass: float, com: list[float], inertia: np.ndarray) -> Robot:
    return robot_of("tx40").with_link(5, mass=mass, com=com, inertia=inertia)


def test_a_uniform_box_is_found_back(robot_of, rng):
    sides, com, R = np.array([0.2, 0.1, 0.3]), [0.02, -0.01, 0.1], exp_so3(rng.normal(size=3))
    mass = 2000.0 * float(np.prod(sides))
    inertia = mass / 12.0 * R @ np.diag((sides**2).sum() - sides**2) @ R.T
    hull = link_box(one_joint(robot_of, mass, com, inertia), 5)
    corners = box_corners(np.array(com), 0.5 * sides, R)
    assert hull.contains(corners, margin=-1e-9).all()
    # All other corners belong to the bar at the joint, no wider than the box's middle side.
    others = [v for v in hull.vertices if np.abs(corners - v).max(axis=1).min() > 1e-9]
    assert np.abs(others).max() <= 0.06 + 1e-12
    for corner in corners:
        outside = np.linalg.norm(hull.vertices - corner, axis=1).min() > 1e-9
        assert not outside or (np.abs(corner) < 0.06).all()


def test_an_inertia_too_large_for_the_mass_gives_no_huge_box(robot_of):
    hull = link_box(one_joint(robot_of, 1.0, [0.0, 0.0, 0.05], np.eye(3)), 5)
    assert hull.volume < 1.0 / 300.0 * 1.2


@pytest.mark.parametrize("name", ["tx40", "example:panda", "example:ur5", "example:solo12"])
def test_boxes_hold_centre_of_mass_and_joints(robot_of, name):
    robot = robot_of(name)
    base = int(robot.floating_base)
    for k in range(robot.layout.n_links):
        hull = link_box(robot, k - base)
        pi = robot.pi(k)
        ends = [np.zeros(3)]
        for i in range(1, robot.model.njoints):
            if robot.model.parents[i] == k + 1:
                ends.append(robot.model.jointPlacements[i].translation)
        assert hull.contains(ends, margin=0.009).all()
        if pi[0] > 0.0:
            assert hull.contains([pi[1:4] / pi[0]]).all()


def test_a_link_without_mass_has_a_bar_to_the_next_joint():
    robot = load_robot("example:panda")
    theta = robot.theta.copy()
    theta[robot.layout.link(2)] = 0.0
    hull = link_box(robot.with_parameters(theta), 2)
    end = robot.model.jointPlacements[4].translation
    assert hull.contains([np.zeros(3), end], margin=0.009).all()
    assert np.ptp(hull.vertices @ np.array([0.0, 0.0, 1.0])) == pytest.approx(0.02 + abs(end[2]))
