"""Boxes round the links, from kinematics and inertia alone: shapes for any robot.

A uniform box with mass m and principal moments I_1, I_2, I_3 has the sides

    a_1² = 6 (I_2 + I_3 - I_1) / m     and so on in turn.

The hull of a link is that of this box, put at the centre of mass, and of bars from the link's joint
to the joints that it carries.
"""

from __future__ import annotations

import numpy as np

from bodysense.robot.hull import Hull, box_corners
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import inertia_at_com

_THIN, _THICK = 0.01, 0.06  # half widths of bars [m]
_LIGHTEST = 300.0  # density of a link [kg/m³]


def link_box(robot: Robot, joint: int) -> Hull:
    """The hull round the link that a joint moves, in the link's frame; -1 for the base."""
    joints = carried_joints(robot, joint)
    pi = None
    if joint >= 0 or robot.floating_base:
        pi = robot.pi(joint + robot.floating_base)
    points, width = [], _THICK if pi is None else _THIN
    if pi is not None and pi[0] > 0.0:
        com = pi[1:4] / pi[0]
        moments, axes = np.linalg.eigh(inertia_at_com(pi))
        sides = np.sqrt(np.maximum(6.0 * (moments.sum() - 2.0 * moments) / pi[0], 0.0))
        # Inertias of files may be far too large, or count the rotor: no link is lighter than wood.
        shrink = np.cbrt(min(1.0, pi[0] / (_LIGHTEST * max(float(np.prod(sides)), 1e-12))))
        half = 0.5 * shrink * sides
        points.append(box_corners(com, half, axes))
        width = float(np.clip(np.median(half), _THIN, _THICK))
    for end in (np.zeros(3), *joints):
        points.append(box_corners(end, np.full(3, width)))
    return Hull.of_points(np.vstack(points))


def carried_joints(robot: Robot, joint: int) -> Array:
    """(n, 3) where the joints sit that a link carries, in its frame [m]; -1 for the base."""
    positions: Array = robot.tree.position[robot.tree.parent == joint]
    return positions
