from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import ShapeError, UnknownNameError
from bodysense.robot import Hull, Workspace, link_hulls
from bodysense.robot.frames import sample_poses

INF = np.inf
TABLE = Workspace(lower=(-INF, -INF, 0.0))
ROOM = Workspace(lower=(-0.5, -0.6, -0.1), upper=(0.9, 0.7, 1.0))


@pytest.mark.parametrize("name", ["example:panda", "example:ur5", "example:solo12", "serial"])
def test_margins_are_those_of_the_outermost_corner(robot_of, name):
    robot = robot_of(name)
    hulls = link_hulls(robot, "boxes")
    walls = ROOM.around(robot, hulls)
    q = sample_poses(robot, 10)
    margins = walls.margins(q)
    data = robot.model.createData()
    assert len(walls.names) > robot.n_joints
    for t in range(10):
        pin.forwardKinematics(robot.model, data, q[t])
        for k, (link, wall) in enumerate(walls.names):
            T = data.oMi[robot.link_names.index(link) + 1]
            if robot.floating_base:
                T = data.oMi[1].actInv(T)
            corners = hulls[link].vertices @ T.rotation.T + T.translation
            along = corners[:, "xyz".index(wall[0])]
            bound = float(wall.split()[-1])
            inside = along - bound if ">=" in wall else bound - along
            assert margins[t, k] == pytest.approx(inside.min(), abs=1e-9)


@pytest.mark.parametrize("name", ["example:panda", "example:solo12", "serial"])
def test_gradients_are_those_of_finite_differences(robot_of, name):
    robot = robot_of(name)
    walls = ROOM.around(robot, link_hulls(robot, "auto" if "panda" in name else "boxes"))
    q, h = sample_poses(robot, 20), 1e-6
    margins, gradients = walls.margins_and_gradients(q)
    np.testing.assert_array_equal(margins, walls.margins(q))
    assert gradients.shape == (20, len(walls.names), robot.n_joints)
    for j in range(robot.n_joints):
        step = np.zeros(robot.nq)
        step[robot.nq - robot.n_joints + j] = h
        change = (walls.margins(q + step) - walls.margins(q - step)) / (2 * h)
        np.testing.assert_allclose(gradients[:, :, j], change, atol=1e-7)


def test_a_link_that_turns_about_the_vertical_does_not_count_for_a_table(robot_of):
    robot = robot_of("example:panda")
    walls = TABLE.around(robot, link_hulls(robot))
    assert [link for link, _ in walls.names] == list(robot.link_names[1:])
    assert {wall for _, wall in walls.names} == {"z >= 0"}
    assert walls.notes == ()


def test_what_is_outside_in_every_pose_is_told(robot_of):
    robot = robot_of("example:panda")
    high = Workspace(lower=(-INF, -INF, 0.3))
    walls = high.around(robot, link_hulls(robot))
    assert [note.split(" by ")[0] for note in walls.notes] == [
        "panda_link1 is outside z >= 0.3",
        "panda_link2 is outside z >= 0.3",
    ]
    assert walls.notes[0].endswith("which no joint changes: not counted")
    assert "panda_link1" not in {link for link, _ in walls.names}
    assert "panda_link2" in {link for link, _ in walls.names}  # it moves, so it is for the user


def test_margins_of_chosen_links_alone(robot_of):
    robot = robot_of("tx40")
    hulls = {"link6": Hull.from_box((-0.1, -0.1, 0.0), (0.1, 0.1, 0.2))}
    margins, gradients = TABLE.around(robot, hulls).margins_and_gradients(np.zeros((1, 6)))
    assert margins.shape == (1, 1)
    assert gradients.shape == (1, 1, 6)


def test_a_workspace_without_walls_has_no_margins(robot_of):
    robot = robot_of("tx40")
    assert Workspace().around(robot, link_hulls(robot)).margins(np.zeros((3, 6))).shape == (3, 0)


def test_an_empty_workspace_is_refused():
    with pytest.raises(ShapeError, match="empty along y, from 1 to 0 m"):
        Workspace(lower=(0, 1, 0), upper=(1, 0, 1))


@pytest.mark.parametrize("bound", [(0.0, 1.0), (0.0, np.nan, 1.0), "abc", 3.0])
def test_bounds_that_are_not_three_numbers_are_refused(bound):
    with pytest.raises(ShapeError, match=r"lower of the workspace is .* give three numbers"):
        Workspace(lower=bound)


def test_a_hull_of_an_unknown_link_is_refused(robot_of):
    hulls = {"hand": Hull.from_box((0, 0, 0), (1, 1, 1))}
    with pytest.raises(UnknownNameError, match="unknown link 'hand'"):
        TABLE.around(robot_of("tx40"), hulls)
