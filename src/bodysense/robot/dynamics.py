"""Inverse and forward dynamics of many samples at once, for any parameter vector.

    M(q) a + h(q, v) = tau

with rotor inertias in M and friction (LuGre at its steady state) in h. Parameters need not be
physical: they enter linearly, and no mass is divided by.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bodysense.robot._kernels.dynamics import (
    forward_dynamics_batch,
    inverse_dynamics_batch,
    mass_matrix_batch,
)
from bodysense.robot.robot import Robot
from bodysense.robot.states import gravity_in_base, joint_coordinates, motion, theta_rows
from bodysense.spatial.arrays import Array, as_array


def inverse_dynamics(
    robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, *, theta: ArrayLike | None = None
) -> Array:
    """Tau (n_t, nv) that moves the robot as given.

    Args:
        robot: the robot.
        q: (n_t, nq) positions.
        v: (n_t, nv) velocities.
        a: (n_t, nv) accelerations.
        theta: (p,) or (n_t, p) parameters; the robot's own if not given.
    """
    q, v, a = motion(robot, q, v, a)
    tau = np.empty_like(v)
    rows = theta_rows(robot, theta, q.shape[0])
    inverse_dynamics_batch(
        robot.tree, rows, joint_coordinates(robot, q), v, a, gravity_in_base(robot, q), tau
    )
    return tau


def forward_dynamics(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, *, theta: ArrayLike | None = None
) -> Array:
    """A (n_t, nv) that follows from the torques.

    Where the mass matrix is singular, which only unphysical or massless parameters can cause, the
    result is not finite.

    Args:
        robot: the robot.
        q: (n_t, nq) positions.
        v: (n_t, nv) velocities.
        tau: (n_t, nv) generalised forces, the base's wrench first.
        theta: (p,) or (n_t, p) parameters; the robot's own if not given.
    """
    q, v, tau = motion(robot, q, v, tau, "q v tau")
    a = np.empty_like(v)
    rows = theta_rows(robot, theta, q.shape[0])
    forward_dynamics_batch(
        robot.tree, rows, joint_coordinates(robot, q), v, tau, gravity_in_base(robot, q), a
    )
    return a


def mass_matrix(robot: Robot, q: ArrayLike, *, theta: ArrayLike | None = None) -> Array:
    """M (n_t, nv, nv) with rotor inertias; theta (p,) or (n_t, p), the robot's own if not given."""
    q = as_array(q, (None, robot.nq), f"q of {robot.name}")
    M = np.zeros((q.shape[0], robot.nv, robot.nv))
    mass_matrix_batch(
        robot.tree, theta_rows(robot, theta, q.shape[0]), joint_coordinates(robot, q), M
    )
    return M
