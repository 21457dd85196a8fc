"""How much of a robot each joint carries."""

from __future__ import annotations

import numpy as np

from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array


def carried_mass(robot: Robot) -> Array:
    """(n_joints,) mass of all links that a joint moves, its own included [kg]."""
    first = int(robot.floating_base)
    carried = np.array([robot.pi(first + k)[0] for k in range(robot.n_joints)])
    for j in range(robot.n_joints - 1, -1, -1):
        parent = robot.tree.parent[j]
        if parent >= 0:
            carried[parent] += carried[j]
    return carried
